"""Unrolls a short Loop into copies of its body.

What it is: a Loop with a small constant trip count, whose body never stops early, becomes copies of its body. Each
    copy reads the results of the one before. Scan outputs are joined by Concat.
Why it costs: every iteration sets up an executor and copies the carried values. No fusion or layout optimisation
    crosses an iteration, and values that depend only on the iteration number are recomputed in every run.
Evidence: a Loop with a constant trip count and a body of few nodes; its time compared with that of the nodes in it.
Fix and its safety: exact: the same nodes in the same order. The file grows with the trip count, up to ``most`` nodes.
Example: ``--rewrite loop-unrolling``
References: ONNX operators, "Loop".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import graph_of
from ortune.graph.constants import constant
from ortune.graph.model.graphs import nested
from ortune.graph.nodes import holds, is_op, scopes_of
from ortune.graph.randomness import is_random
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import CLEAN_UP, Param, Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor
from ortune.rewrites._inline import Inlined, can_be_inlined, nodes_within

_MOST = Param(
    name="most",
    kind="int",
    default="512",
    minimum=1,
    summary="maximum number of nodes that a Loop may become",
)
_AXES_ARE_INPUT = 13  # first opset in which the axes of Unsqueeze are an input
_RANK_FIRST = 2  # inputs of a Loop, and of its body, before the loop-carried values


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A Loop that can be unrolled.

    Attributes:
        rounds: Number of iterations.
        body: The Loop's body.
        carried: Number of loop-carried values.
    """

    rounds: int
    body: ir.Graph
    carried: int


class _Drawing:
    """Predicate that is true for graphs that draw random numbers, in a node or in a called function."""

    def __init__(self, model: ir.Model) -> None:
        self._called: set[ir.OperatorIdentifier] = set()
        before = -1
        while before != len(self._called):
            before = len(self._called)
            self._called.update(name for name, function in model.functions.items() if self(function))

    def __call__(self, graph: ir.Graph | ir.Function) -> bool:
        return any(
            is_random(node) or node.op_identifier() in self._called
            for scope in nested(graph)
            for node in scope
        )


def _goes_on(body: ir.Graph) -> bool:
    """Return whether a loop body always continues if its condition input is true."""
    value: ir.Value | None = body.outputs[0]
    while value is not None and value is not body.inputs[1]:
        said = constant(value)
        if said is not None:
            return bool(said.all())
        node = value.producer()
        value = node.inputs[0] if is_op(node, "Identity") and node is not None else None
    return value is not None


def _match(node: ir.Node, most: int, draws: _Drawing) -> _Match | str:  # noqa: PLR0911  (one a near miss)
    """Match a Loop that can be unrolled, or return the reason that it cannot."""
    body, inputs = graph_of(node, "body"), list(node.inputs)
    if body is None or len(inputs) < _RANK_FIRST:
        return f"the Loop {node.name!r} has no body"
    trips = constant(inputs[0])
    if trips is None or trips.size != 1:
        return f"the trip count of the Loop {node.name!r} is not constant"
    rounds, carried = int(trips.reshape(())), len(inputs) - _RANK_FIRST
    start = constant(inputs[1])
    if (inputs[1] is not None and (start is None or not start.all())) or not _goes_on(body):
        return f"the Loop {node.name!r} may stop early"
    if rounds < 1:
        return f"the Loop {node.name!r} has no iterations"
    if rounds * nodes_within(body) > most:
        return f"unrolling the {rounds:,} iterations of the Loop {node.name!r} would create more than {most} nodes"
    if len(body.inputs) != carried + _RANK_FIRST or len(body.outputs) != len(node.outputs) + 1:
        return f"the Loop {node.name!r} and its body have different numbers of inputs or outputs"
    if any(not isinstance(v.type, ir.TensorType | None) for v in (*body.inputs, *body.outputs)):
        return f"the Loop {node.name!r} carries a value that is not a tensor"
    if draws(body):
        # With a fixed seed, each copy would draw the same numbers, but iterations do not.
        return f"the body of the Loop {node.name!r} draws random numbers"
    if not can_be_inlined(body) or any(v is None for v in inputs[_RANK_FIRST:]):
        return f"the body of the Loop {node.name!r} returns a value that is computed outside it"
    return _Match(rounds=rounds, body=body, carried=carried)


def _unroll(editor: Editor, node: ir.Node, match: _Match, opset: int) -> None:
    body, name = match.body, node.name or "loop"
    copies = Inlined(editor, node, body)
    ranks = [1 if v.shape is not None and len(v.shape) == 1 else 0 for v in body.inputs[:_RANK_FIRST]]
    go_on = editor.constant(node, f"{name}_go_on", np.ones((1,) * ranks[1], np.bool_))
    state: list[ir.Value | None] = list(node.inputs[_RANK_FIRST:])
    gathered: list[list[ir.Value]] = [[] for _ in range(len(node.outputs) - match.carried)]
    for number in range(match.rounds):
        count = editor.constant(node, f"{name}_round", np.full((1,) * ranks[0], number, np.int64))
        _, *results = copies.write([count, go_on, *state])
        state = [*results[: match.carried]]
        for pieces, value in zip(gathered, results[match.carried :], strict=True):
            pieces.append(_as_row(editor, node, value, opset))
        editor.drop(count)
    editor.drop(go_on)
    stacked = [
        editor.node(node, "Concat", pieces, [ir.AttrInt64("axis", 0)], name=f"{name}_stacked")
        for pieces in gathered
    ]
    for old, new in zip(list(node.outputs), [*state, *stacked], strict=True):
        assert new is not None
        editor.replace(old, new)


def _as_row(editor: Editor, at: ir.Node, value: ir.Value, opset: int) -> ir.Value:
    name = f"{value.name}_row"
    if opset < _AXES_ARE_INPUT:
        return editor.node(at, "Unsqueeze", [value], [ir.AttrInt64s("axes", [0])], name=name)
    return editor.node(
        at, "Unsqueeze", [value, editor.constant(at, f"{name}_axis", np.array([0]))], name=name
    )


def _walk(model: ir.Model, most: int) -> tuple[int, list[str]]:
    """Unroll Loops; return (number of unrolled Loops, reasons that other Loops stay)."""
    editor, draws, count, before = Editor(model), _Drawing(model), 0, -1
    reasons: dict[str, None] = {}
    # Unrolling may make the trip count of an inner Loop constant.
    while count != before:
        before = count
        reasons.clear()
        # Innermost first, since their nodes count for the Loops around them.
        for scope, opset in reversed(scopes_of(model)):
            for node in [node for node in scope if is_op(node, "Loop")]:
                match = _match(node, most, draws)
                if isinstance(match, _Match):
                    _unroll(editor, node, match, opset)
                    count += 1
                else:
                    reasons[match] = None
    return count, list(reasons)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    count, reasons = _walk(model, int(params["most"]))
    if not count:
        return unchanged(*(reasons or ("the model has no Loop",)))
    what = f"Unrolled {amount(count, 'Loop')}."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if not holds(model, "Loop"):
        return []
    count, _ = _walk(model.clone(), int(_MOST.default))
    goes = amount(count, "Loop has", "Loops have")
    return [({}, f"{goes} a small constant trip count")] if count else []


REWRITE = Rewrite(
    name="loop-unrolling",
    summary="unrolls a short Loop into copies of its body",
    safety="exact",
    stage=CLEAN_UP,
    params=(_MOST,),
    change=_change,
    proposes=_proposes,
)
