"""Code shared by the rewrites that leave the whole graph to a tool, such as third-party packages."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite
from ortune.rewrites._marks import made_by, repair_saved

_LARGEST_BYTES = 1 << 31  # these tools serialize a model into one protobuf


def refuses(model: ir.Model, name: str) -> tuple[str, ...]:
    """Return the reasons that a tool cannot process a model; empty if it can."""
    if name in made_by(model):
        return ("the model was already processed by this tool",)
    weight_bytes = sum(
        v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None
    )
    if weight_bytes >= _LARGEST_BYTES:
        return (f"the weights take {weight_bytes / 2**30:.1f} GiB, and the tool is limited to 2 GiB",)
    return ()


def by_package(name: str, package: str, summary: str) -> Rewrite:
    """Return a rewrite in which a package of the measured environment transforms the whole model.

    Args:
        name: Name of the rewrite.
        package: Name of the package on PyPI, which is also the name of the worker's task.
        summary: One-line description of the rewrite.
    """

    def refused(model: ir.Model) -> tuple[str, ...]:
        return refuses(model, name)

    def proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
        return [] if refused(model) else [({}, f"{package} is installed and may simplify the graph")]

    return Rewrite(
        name=name,
        summary=summary,
        safety="exact",
        stage=6,
        task=package,
        needs=package,
        refuses=refused,
        mends=repair_saved,
        proposes=proposes,
    )
