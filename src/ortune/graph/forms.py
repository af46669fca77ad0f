"""Operator patterns ("forms"): trees of operators that are matched against a graph.

Identity nodes between operators are skipped, since ONNX Runtime removes them before fusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from ortune.graph.constants import constant, scalar
from ortune.graph.nodes import is_op, maker_of, readers, source_of

NEAR = 1e-4
"""Absolute tolerance of a pattern's irrational numbers, which exporters round."""

ROW, NUMBER, ANYTHING = "a number for each element of a row", "any number", "anything"
"""Wildcards of a pattern. Any other text is a name, which must match the same value wherever it occurs."""

_KINDS = (ROW, NUMBER, ANYTHING)
_ROUGHLY = 1e-2
_COMMUTATIVE = ("Add", "Mul")


@dataclass(frozen=True, slots=True)
class Op:
    """A pattern node: an operator and the patterns of its inputs (operators, numbers, constants or named values).

    Attributes:
        kind: The operator.
        inputs: Patterns of the inputs.
        called: Description of the result for messages; "" if it is never mentioned.
    """

    kind: str
    inputs: tuple[Part, ...]
    called: str = ""


@dataclass(frozen=True, slots=True)
class Either:
    """A pattern with alternatives; each one after the first may count as a departure from the form that is fused."""

    part: Part
    others: tuple[tuple[str, Part], ...]


@dataclass(frozen=True, slots=True)
class Approximately:
    """A named number in a pattern; a value that is only roughly equal counts as a departure."""

    number: float
    name: str


Part = Op | Either | Approximately | float | str


def op(kind: str, *inputs: Part, called: str = "") -> Op:
    """Return a pattern that matches a node with this operator whose inputs match the given patterns."""
    return Op(kind, inputs, called)


def either(part: Part, *others: tuple[str, Part]) -> Either:
    """Return a pattern with (departure, pattern) alternatives; the departure is "" for an equivalent form."""
    return Either(part, others)


@dataclass(frozen=True, slots=True)
class Matching:
    """One match of a pattern.

    Attributes:
        values: Matched values by name.
        nodes: Matched nodes, each with the description of its result.
        departures: Differences from the pattern's preferred form, outermost first.
    """

    values: dict[str, ir.Value] = field(default_factory=dict)
    nodes: dict[ir.Node, str] = field(default_factory=dict)
    departures: tuple[str, ...] = ()

    def node(self, called: str) -> ir.Node:
        """Return the matched node with that description; raise StopIteration if there is none."""
        return next(node for node, name in self.nodes.items() if name == called)

    def shared(self, end: ir.Node) -> ir.Node | None:
        """Return a matched node other than ``end`` whose result is also read outside the match, or None."""
        for node in self.nodes:
            if node is not end and any(reader not in self.nodes for reader in readers(node.outputs[0])):
                return node
        return None


def matchings(form: Part, value: ir.Value | None, so_far: Matching | None = None) -> Iterator[Matching]:
    """Yield every way in which a value matches a pattern."""
    so_far = so_far or Matching()
    value = source_of(value)
    if value is None:
        return
    match form:
        case Op():
            yield from _of_operator(form, value, so_far)
        case Either():
            yield from matchings(form.part, value, so_far)
            for why, other in form.others:
                departed = (*so_far.departures, why) if why else so_far.departures
                yield from matchings(other, value, replace(so_far, departures=departed))
        case Approximately():
            number = scalar(value)
            if number is not None and abs(number - form.number) <= _ROUGHLY:
                said = f"{number:g} instead of {form.name}"
                off = abs(number - form.number) > NEAR
                yield replace(so_far, departures=(*so_far.departures, said)) if off else so_far
        case str() if form not in _KINDS:
            # A name that occurs twice must match the same value both times.
            if so_far.values.get(form, value) is value:
                yield replace(so_far, values={**so_far.values, form: value})
        case _:
            if _is_constant(form, value):
                yield so_far


def _is_constant(form: float | str, value: ir.Value) -> bool:
    """Return whether a value matches a number or a wildcard."""
    if form == ANYTHING:
        return True
    if form == ROW:
        numbers = constant(value)
        return numbers is not None and numbers.ndim == 1
    number = scalar(value)
    if number is None or isinstance(form, str):
        return number is not None
    # Round numbers such as 0.5 must match exactly; irrational ones are compared with tolerance.
    return number == form or (abs(number - form) <= NEAR and form != round(form, 3))


def _of_operator(form: Op, value: ir.Value, so_far: Matching) -> Iterator[Matching]:
    node = value.producer()
    if node is None or not is_op(node, form.kind):
        return
    inputs = list(node.inputs[: len(form.inputs)])
    if len(inputs) < len(form.inputs):
        return
    # Exporters differ in the operand order of sums and products; constants are not moved to one side first.
    orders = [inputs]
    if form.kind in _COMMUTATIVE and inputs[0] is not inputs[1]:
        orders.append(inputs[::-1])
    for order in orders:
        if not all(map(_may_match, form.inputs, order)):
            continue
        states = [replace(so_far, nodes={**so_far.nodes, node: form.called})]
        # Names bound by one operand restrict the next: each state is a consistent partial match.
        for part, operand in zip(form.inputs, order, strict=True):
            states = [after for before in states for after in matchings(part, operand, before)]
        yield from states


def _may_match(part: Part, value: ir.Value | None) -> bool:
    """Return whether a value may match a pattern, judged only by the producing operator, to reject most early."""
    if isinstance(part, Either):
        return any(_may_match(other, value) for other in (part.part, *(other for _, other in part.others)))
    return is_op(maker_of(value), part.kind) if isinstance(part, Op) else value is not None


def nearest(form: Part, end: ir.Node) -> Matching | None:
    """Return the match of a node's result with the fewest departures; None if the pattern does not match."""
    return min(matchings(form, end.outputs[0]), key=lambda matching: len(matching.departures), default=None)
