"""Support of nodes by each provider: its operators by release, and its checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import COREML, NNAPI, QNN, WEBGPU, XNNPACK
from ortune.catalogue.providers import COREML_NETWORK as NETWORK
from ortune.engines.partitions import coreml, nnapi, probed, xnnpack
from ortune.engines.partitions.facts import Check, NodeFacts, reason
from ortune.engines.partitions.tables import OperatorTable, operators, table
from ortune.errors import UsageError
from ortune.graph.model.graphs import subgraphs
from ortune.records import NodeReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A provider in one of its model formats.

    Attributes:
        name: Value of ``--for``, and name of the operator table.
        provider: The provider's entry in the catalogue.
        check: Function that checks a node with a listed operator.
        qdq: Whether the provider takes a node together with its QDQ nodes.
        stop: Operators after which the provider takes nothing.
        not_alone: Operators that do not form a region by themselves.
    """

    name: str
    provider: Provider
    check: Callable[[NodeFacts], Check]
    qdq: bool = False
    stop: frozenset[str] = frozenset()
    not_alone: frozenset[str] = frozenset()

    @property
    def table(self) -> OperatorTable:
        """The table of operators that the provider supports."""
        return table(self.name)

    def refusal(self, node: NodeFacts, release: str) -> NodeReason | None:
        """Return the reason that a node stays on the CPU; None if the provider takes it.

        Args:
            node: The node, without regard to its neighbours' assignment.
            release: Release of ONNX Runtime; "" for the newest known.
        """
        if any(subgraphs(node.node)):
            return reason("not-listed", node.operator)
        if node.operator not in operators(self.name, release):
            return reason("not-listed" if node.node.domain in _ONNX else "fused-operator", node.operator)
        return next((refused for refused in self.check(node) if refused is not None), None)


_ONNX = ("", "ai.onnx", "ai.onnx.ml")

FORMATS = (
    Format(
        name=NNAPI.target,
        provider=NNAPI,
        check=nnapi.check,
        qdq=True,
        stop=nnapi.STOP,
        not_alone=nnapi.NOT_ALONE,
    ),
    Format(name=COREML.target, provider=COREML, check=coreml.check_program),
    Format(name=NETWORK, provider=COREML, check=coreml.check_network),
    Format(name=QNN.target, provider=QNN, check=probed.check_qnn, qdq=True),
    Format(name=WEBGPU.target, provider=WEBGPU, check=probed.check_webgpu),
    Format(name=XNNPACK.target, provider=XNNPACK, check=xnnpack.check, qdq=True),
)


def find(name: str) -> Format:
    """Return the format with that name.

    Raises:
        UsageError: There is no such format.
    """
    for form in FORMATS:
        if form.name == name:
            return form
    names = ", ".join(form.name for form in FORMATS)
    raise UsageError(f"no operator table for {name!r}", where="--for", do=f"choose from {names}")
