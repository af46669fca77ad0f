"""Computes int64 values in int32 where they provably fit.

What it is: exporters make token ids, positions and masks int64. Arithmetic and comparisons on them, and data movement
    in between, become int32 where constants, narrow types and axis sizes bound every value. Inputs and outputs keep
    their type, with a Cast after or before them.
Why it costs: shaders have no 64-bit integers. On WebGPU such a node runs on the CPU, and each copy from the GPU waits
    for all work queued there. WebNN and phones also run such nodes on the CPU. On a CPU, int64 takes twice the bytes,
    which matters for large tensors (rule PRC007).
Evidence: nodes with int64 inputs placed on the CPU, and copies around them.
Fix and its safety: exact for every input that the model accepts. For an input that it rejects (an index out of
    bounds), the lower 32 bits are used. Shape computations stay int64, because ONNX Runtime runs them on the CPU in
    any case.
Example: ``--rewrite int64-to-int32``
References: microsoft/onnxruntime#29756, #25236, #27291, #29273.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortune.catalogue import providers
from ortune.graph.attributes import cast_to
from ortune.graph.constants import constant
from ortune.graph.model.graphs import nodes
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor
from ortune.rewrites._ranges import COMPUTING, Range, is_known, range_of, ranges, wide_inputs

_WIDE, _NARROW = ir.DataType.INT64, ir.DataType.INT32
_LOW, _HIGH = -(2**31), 2**31 - 1
_TAKES_BOTH = {"Gather": 1, "GatherElements": 1, "OneHot": 0, "Cast": 0}
"""Maps an operator to the position of an input that may be int32 or int64 independently of other inputs."""


def _fits(own: Range | None) -> bool:
    return own is not None and own[0] >= _LOW and own[1] <= _HIGH


def _is_wide(value: ir.Value | None, ranges: Mapping[ir.Value, Range]) -> bool:
    """Return whether a value is certainly int64."""
    if value is None:
        return False
    node = value.producer()
    cast = node is not None and cast_to(node) == _WIDE.value
    return value.dtype == _WIDE or value in ranges or cast


def _obstacle(node: ir.Node, ranges: Mapping[ir.Value, Range]) -> str:
    """Return why a node cannot compute in int32; "" if it can."""
    for value in [*(node.inputs[place] for place in wide_inputs(node)), *node.outputs]:
        if value in node.outputs and not _is_wide(value, ranges):
            continue  # the boolean output of a comparison
        own = range_of(value, ranges)
        assert value is not None
        if own is None:
            return f"the range of {value.name!r} in {node.op_type} is unknown"
        if not _fits(own):
            return (
                f"{value.name!r} in {node.op_type} may range from {own[0]} to {own[1]}, which exceeds int32"
            )
    return ""


def _chosen(model: ir.Model) -> tuple[list[ir.Node], list[str]]:
    """Return (nodes to convert to int32, in graph order; reasons for near misses)."""
    known_ranges = ranges(model)
    able: list[ir.Node] = []
    reasons: list[str] = []
    for node in model.graph:
        if not is_known(node) or not any(_is_wide(v, known_ranges) for v in _wide_values(node)):
            continue
        why = _obstacle(node, known_ranges)
        if not why:
            able.append(node)
        elif node.op_type in COMPUTING:
            reasons.append(why)
    return _groups(able), list(dict.fromkeys(reasons))


def _wide_values(node: ir.Node) -> list[ir.Value | None]:
    """Return the values that decide a node's type: the outputs of a Cast, else the non-constant operands."""
    operands = [node.inputs[place] for place in wide_inputs(node)]
    fed = [value for value in operands if constant(value) is None]
    return fed if node.op_type != "Cast" else list(node.outputs)


def integer_computations(model: ir.Model) -> list[ir.Node]:
    """Return the nodes in all graphs that compute with integers of any width, without nodes that only move data."""
    return [node for node in nodes(model) if not node.domain and node.op_type in COMPUTING]


def narrowable(model: ir.Model) -> list[ir.Node]:
    """Return the nodes that the rewrite would change to compute in int32, without nodes that only move data."""
    if not may_compute_wide(model):
        return []
    return [node for node in _chosen(model)[0] if node.op_type in COMPUTING]


def may_compute_wide(model: ir.Model) -> bool:
    """Return whether any node may compute in int64, judged by input types; a cheap filter before computing ranges."""
    others: set[ir.Value] = set()
    for node in model.graph:
        if not is_known(node):
            continue
        operands = [node.inputs[place] for place in wide_inputs(node)]
        if node.op_type == "Cast":
            if cast_to(node) != _WIDE.value:
                others.update(node.outputs)
        elif any(v is not None and (v in others or v.dtype not in (None, _WIDE)) for v in operands):
            # Operands of a node have one type, so one known operand decides it.
            others.update(node.outputs)
        elif node.op_type in COMPUTING:
            return True
    return False


def _groups(able: Sequence[ir.Node]) -> list[ir.Node]:
    """Return the nodes of connected groups that contain at least one node that computes."""
    inside, kept = set(able), set[ir.Node]()
    waiting = [node for node in able if node.op_type in COMPUTING]
    while waiting:
        node = waiting.pop()
        if node in kept:
            continue
        kept.add(node)
        before = [v.producer() for v in (node.inputs[p] for p in wide_inputs(node)) if v is not None]
        after = [
            use.node for value in node.outputs for use in value.uses() if use.idx in wide_inputs_of(use.node)
        ]
        waiting += [other for other in (*before, *after) if other is not None and other in inside]
    return [node for node in able if node in kept]


def wide_inputs_of(node: ir.Node) -> tuple[int, ...]:
    """Return the positions of inputs that have the type in which the node computes; empty for unknown operators."""
    return wide_inputs(node) if is_known(node) else ()


class _Narrowing:
    """Rebuilds the chosen nodes in int32."""

    def __init__(self, model: ir.Model, chosen: Sequence[ir.Node]) -> None:
        self._editor, self._chosen = Editor(model), chosen
        self._inside = set(chosen)
        self._found = ranges(model)
        self._narrow: dict[ir.Value, ir.Value] = {}

    def run(self) -> None:
        """Replace every chosen node by a copy that computes in int32."""
        for node in self._chosen:
            self._make(node)
        for node in self._chosen:
            self._hand_over(node)
        # In reverse order: a node is unused once its readers are gone.
        for node in reversed(self._chosen):
            self._editor.drop(node.outputs[0])

    def _make(self, node: ir.Node) -> None:
        inputs = list(node.inputs)
        for place in wide_inputs(node):
            inputs[place] = self._input(node, inputs[place])
        attributes = [
            ir.AttrInt64("to", _NARROW.value) if node.op_type == "Cast" and a.name == "to" else a
            for a in node.attributes.values()
        ]
        output = self._editor.node(
            node, node.op_type, inputs, attributes, name=f"{node.name or node.op_type}_int32"
        )
        old = node.outputs[0]
        output.shape = old.shape
        output.type = ir.TensorType(_NARROW) if self._is_wide(old) else old.type
        self._narrow[old] = output

    def _is_wide(self, value: ir.Value) -> bool:
        return value in self._found

    def _input(self, node: ir.Node, value: ir.Value | None) -> ir.Value:
        """Return an input in int32: a value that was converted before, a new constant, or the output of a new Cast."""
        assert value is not None
        if value not in self._narrow:
            numbers, name = constant(value), f"{value.name}_int32"
            if numbers is not None:
                self._narrow[value] = self._editor.constant(node, name, numbers.astype(np.int32))
            else:
                self._narrow[value] = self._cast(node, value, _NARROW, name)
        return self._narrow[value]

    def _cast(self, before: ir.Node, value: ir.Value, to: ir.DataType, name: str) -> ir.Value:
        output = self._editor.node(before, "Cast", [value], [ir.AttrInt64("to", to.value)], name=name)
        output.type, output.shape = ir.TensorType(to), value.shape
        return output

    def _hand_over(self, node: ir.Node) -> None:
        """Redirect the readers of a node's old output to the int32 output, through a Cast if they need int64."""
        old = node.outputs[0]
        output = self._narrow[old]
        if not self._is_wide(old):
            self._editor.replace(old, output)
            return
        others = [use for use in old.uses() if use.node not in self._inside]
        for use in others:
            if not use.node.domain and _TAKES_BOTH.get(use.node.op_type) == use.idx:
                use.node.replace_input_with(use.idx, output)
        rest = [use for use in old.uses() if use.node not in self._inside]
        if rest or old.is_graph_output():
            self._editor.replace(old, self._cast(node, output, _WIDE, f"{node.name or node.op_type}_int64"))


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    chosen, reasons = _chosen(model)
    if not chosen:
        return unchanged(*(reasons or ("only shapes are computed in int64",)))
    _Narrowing(model, chosen).run()
    computing = sum(node.op_type in COMPUTING for node in chosen)
    nodes = amount(len(chosen), "int64 node")
    what = f"Converted {nodes} to int32 ({computing} compute, the others move data)."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    chosen, _ = _chosen(model)
    count = len(chosen)
    return (
        [
            (
                {},
                f"{amount(count, 'node computes', 'nodes compute')} in int64, which the GPU does not support",
            )
        ]
        if count
        else []
    )


REWRITE = Rewrite(
    name="int64-to-int32",
    summary="computes int64 values in int32 where they provably fit",
    safety="exact",
    targets=providers.target_names(lambda p: p.int32),
    stage=6,
    change=_change,
    proposes=_proposes,
)
