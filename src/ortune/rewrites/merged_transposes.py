"""Merges equal Transposes into one where their results meet.

What it is: values with the same Transpose that pass through operators independent of axis order (arithmetic,
    activations, Pad, Slice, Softmax and reductions along known axes, added or removed axes of size one) until one
    operator combines them. All these operators then use the original axis order, followed by one Transpose, or by none
    where the moved axes are dropped.
Why it costs: each Transpose reads and writes its tensor. ONNX Runtime's optimiser cancels a Transpose with its inverse,
    and merges two that meet directly. It keeps Transposes with an operator in between, because no single step removes
    one. Before a matrix multiplication, the remaining Transpose may be absorbed.
Evidence: Transposes with the same permutation before two inputs of an Add, Mul or Concat in the optimised graph.
Fix and its safety: exact: the same values; reductions sum in a different order. Applied only where all of these
    Transposes disappear, and the result is no larger than the tensors they transpose now.
Example: ``--rewrite merged-transposes``
References: ONNX operators, "Transpose"; ONNX Runtime source, ``core/optimizer/transpose_optimization``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import has_parameters, ints_of
from ortune.graph.constants import constant
from ortune.graph.nodes import is_op
from ortune.graph.shapes.known import Dims, InferredShape
from ortune.graph.shapes.nearby import reduced_axes
from ortune.printable import amount
from ortune.rewrites._axis_orders import (
    ALONG_AN_AXIS,
    BROADCASTING,
    MOVERS,
    REDUCTIONS,
    Order,
    axis_of,
    constant_axes,
    is_plain,
    moved_inputs,
    removed_axes,
    removes_axes,
    with_axes,
    without_axes,
)
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts, fill_sentence

_LEAST_OPSET = 13  # Softmax is over one axis, and Pad and Slice take their parameters as inputs
_MOST_NODES = 32  # maximum nodes from the Transposes to the node where they meet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """Transposes that meet at one node.

    Attributes:
        nodes: Nodes after the Transposes in order; the Transposes meet at the last node.
        entries: The Transposes.
        orders: Maps every moved value, including the outputs of the Transposes, to its order of axes.
        direct: Whether the Transposes meet with no other node between, which ONNX Runtime merges itself.
    """

    nodes: tuple[ir.Node, ...]
    entries: tuple[ir.Node, ...]
    orders: Mapping[ir.Value, Order]
    direct: bool

    @property
    def order(self) -> Order:
        """Order of axes of the result."""
        return self.orders[self.nodes[-1].outputs[0]]


def _order(node: ir.Node | None) -> Order | None:
    perm = ints_of(node, "perm") if node is not None and is_op(node, "Transpose") else None
    return None if perm is None else tuple(perm)


class _Finder:
    """Follows the inputs of a node upstream to Transposes."""

    def __init__(self, values: Mapping[ir.Value, InferredShape], last: ir.Node) -> None:
        self.values, self.last = values, last
        self.visited: set[ir.Node] = set()
        self.nodes: dict[ir.Node, None] = {}
        self.entries: dict[ir.Node, None] = {}
        self.orders: dict[ir.Value, Order] = {}

    def find(self) -> _Match | str:
        """Match the Transposes that meet at the operator, or return the reason for a near miss ("" if unrelated)."""
        if not self._follow(self.last):
            return ""
        if not all(self._moves(node) for node in self.nodes):
            return ""
        order = self.orders[self.last.outputs[0]]
        # Removing one Transpose altogether is a gain; if one remains at the end, at least two must be merged.
        if len(self.entries) < (1 if is_plain(order) else 2):
            return ""
        what = f"the Transposes that meet at {self.last.op_type} {self.last.name!r} were not merged"
        for node in (*self.entries, *self.nodes):
            value = node.outputs[0]
            readers = [use.node for use in value.uses()]
            if node is not self.last and (
                value.is_graph_output() or any(r not in self.nodes for r in readers)
            ):
                return f"{what}: {value.name!r} is also used elsewhere"
        if not all(self._no_larger(node) for node in self.nodes):
            return f"{what}: the result may be larger than their inputs"
        return _Match(
            nodes=tuple(self.nodes),
            entries=tuple(self.entries),
            orders=self.orders,
            direct=len(self.nodes) == 1,
        )

    def _follow(self, node: ir.Node) -> bool:
        """Return whether every input of a node comes from Transposes or is constant; if so, record the node."""
        if len(self.visited) >= _MOST_NODES or len(node.outputs) != 1 or not is_op(node, *MOVERS):
            return False
        self.visited.add(node)
        if node.graph is not self.last.graph or has_parameters(node):
            return False
        for value in moved_inputs(node):
            source = value.producer()
            if constant(value) is not None or self._dims(value) == () or source in self.nodes:
                continue
            order = _order(source)
            if source is not None and order is not None and source.graph is node.graph:
                self.entries[source] = None
                self.orders[value] = order
            elif source is None or not self._follow(source):
                return False
        self.nodes[node] = None
        return True

    def _dims(self, value: ir.Value | None) -> Dims | None:
        return self.values.get(value, InferredShape()).dims if value is not None else None

    def _moves(self, node: ir.Node) -> bool:
        """Return whether a node can move before the Transposes of its inputs; if so, record the order of its output."""
        orders = {self.orders[value] for value in moved_inputs(node) if value in self.orders}
        if len(orders) != 1:
            return False
        (order,) = orders
        if is_plain(order) or not MOVERS[node.op_type](node, order):
            return False
        if is_op(node, "Reshape", "Squeeze"):
            gone = removed_axes(node, *map(self._dims, (node.inputs[0], node.outputs[0])))
            if gone is None:
                return False
            order = without_axes(order, gone)
        elif removes_axes(node):
            order = without_axes(order, [axis % len(order) for axis in reduced_axes(node) or ()])
        elif is_op(node, "Unsqueeze"):
            order = with_axes(order, constant_axes(node))
        self.orders[node.outputs[0]] = order
        return True

    def _no_larger(self, node: ir.Node) -> bool:
        """Return whether a broadcast result is certainly no larger than one of its operands."""
        if not is_op(node, *BROADCASTING):
            return True
        rank = len(self.orders[node.outputs[0]])
        turned: list[Dims | None] = []
        fixed: list[Dims] = []
        for value in moved_inputs(node):
            numbers = constant(value)
            if numbers is None:
                dims = self._dims(value)
                turned += [] if dims == () else [dims]
            elif numbers.size > 1:
                fixed.append((1,) * (rank - numbers.ndim) + numbers.shape)
        if len(turned) == 1 and not fixed:
            return True
        sizes = [dims for dims in turned if dims is not None]
        if len(sizes) < len(turned):
            return False
        if any(all(_fits(one, other) for other in (*sizes, *fixed) if other is not one) for one in sizes):
            return True
        # If the sizes differ on one axis only, the result is as large as the longer operand.
        return (
            not fixed and sum(len({*along}) > 1 or None in along for along in zip(*sizes, strict=True)) <= 1
        )


def _fits(whole: Dims, part: Dims) -> bool:
    """Return whether ``part`` certainly broadcasts to ``whole``."""
    return all(b == 1 or (b is not None and a == b) for a, b in zip(whole, part, strict=True))


class _Mover:
    """Recreates the nodes of a match before its Transposes."""

    def __init__(self, editor: Editor, match: _Match, values: Mapping[ir.Value, InferredShape]) -> None:
        self.editor, self.orders, self.values = editor, match.orders, values
        self.last = match.nodes[-1]
        self.before: dict[ir.Value, ir.Value] = {}
        for entry in match.entries:
            source = entry.inputs[0]
            assert source is not None
            self.before[entry.outputs[0]] = source

    def move(self, node: ir.Node) -> ir.Value:
        """Recreate a node before the Transposes and return its output."""
        name, operator = node.name or node.op_type.lower(), node.op_type
        attributes, inputs = dict(node.attributes), list(node.inputs)
        moved = moved_inputs(node)
        (order,) = {self.orders[value] for value in moved if value in self.orders}
        for place, value in enumerate(inputs):
            if value is not None and value in moved:
                inputs[place] = self._turned_back(value, order, name)
        if is_op(node, "Concat", *ALONG_AN_AXIS):
            # Axis n after the Transposes is axis order[n] before them.
            attributes["axis"] = ir.AttrInt64("axis", order[axis_of(node, -1, len(order))])
        elif is_op(node, *REDUCTIONS):
            axes = sorted(order[axis % len(order)] for axis in reduced_axes(node) or ())
            if "axes" in attributes:
                attributes["axes"] = ir.AttrInt64s("axes", axes)
            else:
                inputs[1] = self._list(axes, f"{name}_axes")
        elif is_op(node, "Squeeze", "Reshape"):
            sizes = [self.values.get(v, InferredShape()).dims for v in (moved[0], node.outputs[0])]
            gone = sorted(order[axis] for axis in removed_axes(node, *sizes) or ())
            inputs[1], operator = self._list(gone, f"{name}_axes"), "Squeeze"
            attributes.clear()
        elif is_op(node, "Pad"):
            # argsort inverts the order.
            pads, back = constant(inputs[1]), np.argsort(order)
            assert pads is not None
            inputs[1] = self._list(pads.reshape(2, -1)[:, back].reshape(-1), f"{name}_pads")
        elif is_op(node, "Slice"):
            listed = constant(inputs[3])
            assert listed is not None
            axes = [order[int(axis) % len(order)] for axis in listed.reshape(-1)]
            inputs[3] = self.editor.constant(self.last, f"{name}_axes", np.array(axes, listed.dtype))
        output = self.editor.node(self.last, operator, inputs, list(attributes.values()), name=name)
        output.type = node.outputs[0].type
        self.before[node.outputs[0]] = output
        return output

    def _list(self, numbers: Sequence[int] | np.ndarray, name: str) -> ir.Value:
        return self.editor.constant(self.last, name, np.asarray(numbers, np.int64))

    def _turned_back(self, value: ir.Value, order: Order, name: str) -> ir.Value:
        """Return a value with its axes in the order that they have before the Transposes."""
        numbers = constant(value)
        if value in self.before or numbers is None or numbers.size == 1:
            return self.before.get(value, value)  # a single number does not change
        whole = numbers.reshape((1,) * (len(order) - numbers.ndim) + numbers.shape)
        return self.editor.constant(self.last, f"{name}_turned", np.transpose(whole, np.argsort(order)))


def _match(node: ir.Node, look: PatternFacts) -> _Match | str:
    """Match the Transposes that meet at a node, or return the reason for a near miss ("" if unrelated)."""
    if is_op(node, *REDUCTIONS) and not removes_axes(node):
        return ""
    return _Finder(look.values, node).find()


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    mover = _Mover(editor, match, look.values)
    for node in match.nodes:
        output = mover.move(node)
    last = match.nodes[-1]
    if not is_plain(match.order):
        order = [ir.AttrInt64s("perm", list(match.order))]
        name = f"{last.name or last.op_type.lower()}_transpose"
        output = editor.node(last, "Transpose", [output], order, name=name)
    look.values[output] = look.inferred(last.outputs[0])
    editor.replace(last.outputs[0], output)


def _summary(matches: Sequence[_Match]) -> str:
    gone = sum(len(match.entries) - (not is_plain(match.order)) for match in matches)
    return f"Removed {amount(gone, 'Transpose')} by merging those whose results are combined."


def _proposed(matches: Sequence[_Match]) -> str:
    behind = [match for match in matches if not match.direct]
    words = "the results of equal Transposes are combined after other operators in {n} {place|places}"
    return fill_sentence(words, behind) if behind else ""


PATTERN = Pattern(
    anchors=("Concat", *BROADCASTING, *REDUCTIONS),
    beside=("Transpose",),
    match=_match,
    replace=_replace,
    made=_summary,
    proposed=_proposed,
    none="no equal Transposes meet",
    least_opset=_LEAST_OPSET,
    repeats=True,  # consecutive Transposes meet only after later ones have been removed
)
REWRITE = PATTERN.rewrite(
    name="merged-transposes",
    summary="merges equal Transposes into one where their results meet",
    stage=4,
)
