"""What ONNX Runtime's optimiser makes one operator of by itself, so that rules are silent and rewrites leave it alone.

A table of the forms that it knows. Each was seen to be fused by ONNX Runtime 1.32 on the CPU, and its near relatives
were not: a root of one half that multiplies, a square that is a product, half of the sum. Only forms that a scale or a
shift is part of are here, since no other rewrite takes a part of a form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.graph.constants import constant, scalar
from ortune.graph.nodes import is_op

_NEAR = 1e-4  # of a number of a form, as exporters round it
_COMMUTATIVE = ("Add", "Mul")


@dataclass(frozen=True, slots=True)
class _Op:
    """An operator of a form, and what it takes: operators, numbers, constants of a kind, or names of values."""

    kind: str
    inputs: tuple[_Part, ...]


_Part = _Op | float | str
_ROW, _NUMBER = "a number for each element of a row", "any number"


def _op(kind: str, *inputs: _Part) -> _Op:
    return _Op(kind, inputs)


_ERF = _op("Add", _op("Erf", _op("Div", "x", math.sqrt(2))), 1.0)
_DEVIATION = _op("Sqrt", _op("Add", _op("ReduceMean", _op("Pow", "x", 2.0)), _NUMBER))
_CENTRED = _op("Sub", "x", _op("ReduceMean", "x"))
_SPREAD = _op("Sqrt", _op("Add", _op("ReduceMean", _op("Pow", _CENTRED, 2.0)), _NUMBER))

FUSIONS: tuple[tuple[str, _Op], ...] = (
    ("Gelu", _op("Mul", _op("Mul", "x", _ERF), 0.5)),
    ("Gelu", _op("Mul", _op("Mul", "x", 0.5), _ERF)),
    ("QuickGelu", _op("Mul", "x", _op("Sigmoid", _op("Mul", "x", _NUMBER)))),
    ("LayerNormalization", _op("Add", _op("Mul", _op("Div", _CENTRED, _SPREAD), _ROW), _ROW)),
    ("SimplifiedLayerNormalization", _op("Mul", _op("Div", "x", _DEVIATION), _ROW)),
    ("SimplifiedLayerNormalization", _op("Mul", _op("Mul", "x", _op("Div", 1.0, _DEVIATION)), _ROW)),
)
"""Operators that it makes, each with a form of what it makes them of."""

_LONGEST = 3  # nodes from a scale or shift of a form to the form's end, both counted


@dataclass(slots=True)
class _Matching:
    """What the names and operators of a form stand for, while it is held against a graph."""

    values: dict[str, ir.Value] = field(default_factory=dict)
    nodes: dict[ir.Node, None] = field(default_factory=dict)


def fusion_at(end: ir.Node) -> tuple[str, tuple[ir.Node, ...]] | None:
    """The operator that ONNX Runtime makes of a node and what is above it, with all of its nodes; else None."""
    for operator, form in FUSIONS:
        for matching in _matchings(form, end.outputs[0], _Matching()):
            if _closed(end, matching):
                return operator, tuple(matching.nodes)
    return None


def fused(node: ir.Node) -> str:
    """The operator that ONNX Runtime makes of a node and others by itself; "" where it makes none of the table."""
    end: ir.Node | None = node
    for _ in range(_LONGEST):
        if end is None or len(end.outputs) != 1:
            return ""
        found = fusion_at(end)
        if found is not None and node in found[1]:
            return found[0]
        users = {use.node for use in end.outputs[0].uses()}
        end = users.pop() if len(users) == 1 else None
    return ""


def _matchings(form: _Part, value: ir.Value | None, so_far: _Matching) -> Iterator[_Matching]:
    """Every way in which a value is what a form says."""
    if value is None:
        return
    if isinstance(form, float):
        number = scalar(value)
        if number is not None and abs(number - form) <= _NEAR * max(1.0, abs(form)):
            yield so_far
    elif form is _ROW:
        numbers = constant(value)
        if numbers is not None and numbers.ndim == 1:
            yield so_far
    elif form is _NUMBER:
        if scalar(value) is not None:
            yield so_far
    elif isinstance(form, str):
        if so_far.values.get(form, value) is value:
            yield _Matching({**so_far.values, form: value}, so_far.nodes)
    else:
        yield from _operator(form, value, so_far)


def _operator(form: _Op, value: ir.Value, so_far: _Matching) -> Iterator[_Matching]:
    node = value.producer()
    if node is None or not is_op(node, form.kind):
        return
    given = list(node.inputs[: len(form.inputs)])
    if len(given) < len(form.inputs):
        return
    orders = [given]
    if form.kind in _COMMUTATIVE and given[0] is not given[1]:
        orders.append(given[::-1])
    for order in orders:
        found = [_Matching(so_far.values, {**so_far.nodes, node: None})]
        for part, each in zip(form.inputs, order, strict=True):
            found = [after for before in found for after in _matchings(part, each, before)]
        yield from found


def _closed(end: ir.Node, matching: _Matching) -> bool:
    """Whether nothing else reads what is within."""
    for node in matching.nodes:
        if node is end:
            continue
        value = node.outputs[0]
        if value.is_graph_output() or any(use.node not in matching.nodes for use in value.uses()):
            return False
    return True
