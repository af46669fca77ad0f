"""Numerical evaluation of the values that depend only on one value and constants.

Exporters write the same function in many forms; evaluating it on probes identifies it in any form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of, is_parameter
from ortune.graph.constants import Array, constant, is_constant, one_number
from ortune.graph.evaluation import FUNCTIONS
from ortune.graph.limits import limits
from ortune.graph.nodes import is_op
from ortune.graph.ort_fusions import fusion_at
from ortune.graph.shapes.known import Dims
from ortune.graph.shapes.nearby import reduced_axes, reduced_axis

Probes = list[Array]

MOST_READERS = 32
"""Maximum number of readers of one value to follow; an expanded function reads it only a few times."""

LOWEST = float(np.finfo(np.float32).min)
"""The lowest float32 number."""

_LIMITS = ("Clip", "Min")
ELEMENTWISE = tuple(name for name in FUNCTIONS if name not in _LIMITS)
_FOLLOWED = frozenset(ELEMENTWISE)


def _log_sum_exp(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    result: Array = np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))
    return result


_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "ReduceMean": np.mean,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceLogSumExp": _log_sum_exp,
}


def evaluate_on_probes(
    x: ir.Value,
    probes: Sequence[Array],
    *,
    rank: int,
    axes: int,
    limit: int,
    sizes_of: Callable[[ir.Value | None], Dims | None] | None = None,
    bounds: bool = False,
    scope: ir.Graph | ir.Function | None = None,
) -> dict[ir.Value, Probes]:
    """Evaluate on probes every value that depends only on ``x`` and constants.

    Args:
        x: The first value; its probes are part of the result.
        probes: Arrays that replace ``x`` in the evaluation.
        rank: Lower bound for the rank of ``x``; a constant with more axes would change the shape.
        axes: Number of trailing axes along which a constant may vary.
        limit: Maximum number of values to evaluate.
        sizes_of: Function that returns the sizes in a shape tensor. If given, reductions over known axes, and operators
            that restore the reduced axes, are also followed.
        bounds: Whether to follow Clip and Min as well, whose bounds may lie outside the range of the probes.
        scope: Graph in which values are followed; None for the graph of ``x``.
    """
    scope = scope or graph_of(x)
    computed: dict[ir.Value, Probes] = {x: list(probes)}
    # Breadth first, so the limit cuts off the values farthest from ``x``; a match is near its anchor.
    queue = [x]
    while queue and len(computed) < limit:
        for user in first_readers(queue.pop(0)):
            if len(computed) == limit:
                break
            if len(user.outputs) != 1 or user.outputs[0] in computed or user.graph is not scope:
                continue
            probed = _computed(user, computed, rank, axes) if is_op(user, *ELEMENTWISE) else None
            if sizes_of is not None and probed is None:
                probed = _reduced(user, computed, rank >= probes[0].ndim, sizes_of)
            if bounds and probed is None:
                probed = _limited(user, computed)
            if probed is not None:
                computed[user.outputs[0]] = probed
                queue.append(user.outputs[0])
    return computed


def first_readers(value: ir.Value) -> list[ir.Node]:
    """Return the nodes that read a value, at most ``MOST_READERS``, since an input may have 100,000 readers."""
    return [use.node for use in itertools.islice(value.uses(), MOST_READERS)]


def meets_another(value: ir.Value, limit: int, scope: ir.Graph | ir.Function | None) -> bool:
    """Return whether a node computed elementwise from `value` also reads a non-constant value that is not.

    Args:
        value: The first value.
        limit: Maximum number of values to follow.
        scope: Graph in which values are followed.
    """
    reached, queue = {value}, [value]
    for following in queue:
        for user in first_readers(following) if len(reached) < limit else ():
            if user.op_type not in _FOLLOWED or user.graph is not scope or len(user.outputs) != 1:
                continue
            others = user.inputs if len(user.inputs) > 1 else ()
            if any(v is not None and v not in reached and not is_constant(v) for v in others):
                return True
            if user.outputs[0] not in reached:
                reached.add(user.outputs[0])
                queue.append(user.outputs[0])
    return False


def elementwise_ancestors(node: ir.Node, most: int) -> list[ir.Value]:
    """Return the values from which a node is computed elementwise, nearest first.

    Args:
        node: The node whose inputs are followed upstream.
        most: Maximum distance from the node, in nodes.
    """
    sources: dict[ir.Value, None] = {}
    level = [v for v in node.inputs if v is not None]
    for _ in range(most):
        following: list[ir.Value] = []
        for value in level:
            if value in sources or one_number(value) is not None or is_constant(value):
                continue
            sources[value] = None
            producer = value.producer()
            if (
                producer is not None
                and producer.graph is node.graph
                and is_op(producer, *ELEMENTWISE, *_LIMITS)
            ):
                following += [v for v in producer.inputs if v is not None]
        level = following
    return list(sources)


def graph_of(value: ir.Value) -> ir.Graph | ir.Function | None:
    """Return the graph that contains a value: its producer's, the graph that declares it, or its first reader's."""
    node = value.producer()
    if node is not None:
        return node.graph
    if value.graph is not None:
        return value.graph
    return next((use.node.graph for use in value.uses()), None)


def nodes_between(
    x: ir.Value, y: ir.Value, computed: dict[ir.Value, Probes]
) -> tuple[list[ir.Node], ir.Value | None]:
    """Return (the nodes between two values, an intermediate value that other nodes read or None)."""
    nodes: dict[ir.Node, None] = {}
    waiting = [y]
    while waiting:
        node = waiting.pop().producer()
        if node is not None and node not in nodes:
            nodes[node] = None
            waiting += [v for v in node.inputs if v is not None and v in computed and v is not x]
    for node in nodes:
        value = node.outputs[0]
        if value is not y and (value.is_graph_output() or any(use.node not in nodes for use in value.uses())):
            return list(nodes), value
    return list(nodes), None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A function of one value, recognized numerically, that one operator can replace.

    Attributes:
        x, y: Input and output of the function.
        nodes: Nodes between input and output.
    """

    x: ir.Value
    y: ir.Value
    nodes: tuple[ir.Node, ...]

    @property
    def is_fused(self) -> bool:
        """Whether ONNX Runtime already fuses this form."""
        end = self.y.producer()
        return end is not None and fusion_at(end) is not None


def form_of(what: str, x: ir.Value, y: ir.Value, computed: dict[ir.Value, Probes]) -> Form | str:
    """Return the function between two values, or the reason that it cannot be replaced.

    Args:
        what: Name of the function for the reason.
        x: Input of the function.
        y: Output of the function.
        computed: Evaluated values, including those between ``x`` and ``y``.
    """
    nodes, elsewhere = nodes_between(x, y, computed)
    if elsewhere is not None:
        return f"{elsewhere.name!r} in {what} is also used elsewhere"
    numbers = [constant_numbers(value) for node in nodes for value in node.inputs]
    if {n.dtype for n in numbers if n is not None and n.dtype.kind == "f"} != {np.dtype(np.float32)}:
        return f"{what} is not float32"
    # Probes identify a function only in their range; a bound outside of it would make another function.
    limit = _bounded(nodes)
    if limit is not None:
        return f"{what} is clamped by {limit.op_type} {limit.name!r}"
    return Form(x=x, y=y, nodes=tuple(nodes))


def same_shapes(values: Probes, probes: Probes) -> bool:
    """Return whether each value has the shape of its probe."""
    return all(f.shape == p.shape for f, p in zip(values, probes, strict=True))


def epsilons(computed: dict[ir.Value, Probes], most: float) -> list[float]:
    """Return the positive constants below ``most`` that are added under a square root."""
    added = [
        node for v in computed if (node := v.producer()) is not None and is_op(node, "Add") and _under_root(v)
    ]
    numbers = [constant_numbers(v) for node in added for v in node.inputs]
    one = [float(n.reshape(())) for n in numbers if n is not None and n.size == 1]
    return list(dict.fromkeys(n for n in one if 0 < n < most))


def _under_root(value: ir.Value) -> bool:
    nodes = [use.node for use in value.uses()]
    return bool(nodes) and all(
        is_op(node, "Sqrt", "Pow") or (is_op(node, "Reciprocal", "Identity") and _under_root(node.outputs[0]))
        for node in nodes
    )


def constant_numbers(value: ir.Value | None) -> Array | None:
    """Return the array of a constant, or the number computed from constants for a value; None for other values."""
    return constant(value) if is_constant(value) else one_number(value)


def _bounded(nodes: Sequence[ir.Node]) -> ir.Node | None:
    """Return a Max or Relu whose lower bound may matter outside the range of the probes; None if there is none."""
    for node in nodes:
        if not is_op(node, "Max", "Relu"):
            continue
        bounds = [n for n in map(constant_numbers, node.inputs) if n is not None]
        if any(not _no_limit(bound) for bound in bounds):
            return node
        at_zero = is_op(node, "Relu") or any((bound == 0).any() for bound in bounds)
        if at_zero and _shifted(node, nodes):
            return node
    return None


def _no_limit(numbers: np.ndarray) -> bool:
    return bool(((numbers == 0) | (numbers <= LOWEST)).all())


def _shifted(node: ir.Node, nodes: Sequence[ir.Node]) -> bool:
    """Return whether a node upstream of `node`, among `nodes`, adds or subtracts a constant."""
    visited: dict[ir.Node, None] = {}
    waiting = [node]
    while waiting:
        before = [v.producer() for v in waiting.pop().inputs if v is not None]
        producers = [n for n in before if n is not None and n in nodes and n not in visited]
        if any(
            is_op(n, "Add", "Sub") and any(constant_numbers(v) is not None for v in n.inputs)
            for n in producers
        ):
            return True
        visited.update(dict.fromkeys(producers))
        waiting += producers
    return False


def _limited(node: ir.Node, computed: dict[ir.Value, Probes]) -> Probes | None:
    within, value = limits(node), next((v for v in node.inputs if v in computed), None)
    if within is None or value is None:
        return None
    return [np.clip(p, *within) for p in computed[value]]


def _computed(node: ir.Node, computed: dict[ir.Value, Probes], rank: int, axes: int) -> Probes | None:
    operands: list[Probes | Array] = []
    for value in node.inputs:
        if value is not None and value in computed:
            operands.append(computed[value])
            continue
        numbers = constant_numbers(value)
        if numbers is None or numbers.dtype.kind not in "fiu" or numbers.ndim > rank:
            return None
        # Leading axes of size 1 broadcast; the remaining axes are those along which the constant may vary.
        while numbers.ndim and numbers.shape[0] == 1:
            numbers = numbers[0]
        if numbers.ndim > axes:
            return None
        operands.append(numbers.astype(np.float64))
    count = len(next(iter(computed.values())))
    if len(operands) != (2 if node.op_type in ("Add", "Sub", "Mul", "Div", "Pow", "Max") else 1):
        return None
    with np.errstate(all="ignore"):
        try:
            return [
                np.asarray(
                    FUNCTIONS[node.op_type](*(x[i] if isinstance(x, list) else x for x in operands)),
                    np.float64,
                )
                for i in range(count)
            ]
        except ValueError:  # constants that do not broadcast with the probes
            return None


def _reduced(  # noqa: PLR0911  (one a case)
    node: ir.Node,
    computed: dict[ir.Value, Probes],
    rank_known: bool,
    sizes_of: Callable[[ir.Value | None], Dims | None],
) -> Probes | None:
    value = node.inputs[0] if node.inputs else None
    if value is None or value not in computed:
        return None
    probes = computed[value]
    if is_op(node, *_REDUCTIONS):
        return _over_axes(node, probes, rank_known)
    if not rank_known:
        return None
    if is_op(node, "Unsqueeze"):
        axis = reduced_axis(node)
        if axis is None or not -probes[0].ndim - 1 <= axis <= probes[0].ndim:
            return None
        return [np.expand_dims(p, axis) for p in probes]
    if is_op(node, "Reshape"):
        sizes = sizes_of(node.inputs[1])
        # At most one size may be unknown: it follows from the others.
        wanted = tuple(s if isinstance(s, int) else -1 for s in sizes or ())
        if sizes is None or sum(s < 0 for s in wanted) > 1 or 0 in wanted:
            return None
        try:
            reshaped = [p.reshape(wanted) for p in probes]
        except ValueError:
            return None
        # Only axes of size 1 may be added or removed: anything else mixes rows.
        same = all(
            [s for s in m.shape if s != 1] == [s for s in p.shape if s != 1]
            for m, p in zip(reshaped, probes, strict=True)
        )
        return reshaped if same else None
    if is_op(node, "Expand"):
        before = value.producer()
        same = before is not None and is_op(before, "Reshape") and before.inputs[1] is node.inputs[1]
        return list(probes) if same else None
    return None


def _over_axes(node: ir.Node, probes: Probes, rank_known: bool) -> Probes | None:
    axes, rank = reduced_axes(node), probes[0].ndim
    if not axes or is_parameter(node, "keepdims"):
        return None
    # Axes may be out of range, or repeated as positive and negative numbers.
    if any(not -rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) < len(axes):
        return None
    kept = bool(int_of(node, "keepdims", 1))
    # Negative axes are valid for any rank; others need a known rank.
    if not rank_known and (max(axes) >= 0 or not kept):
        return None
    return [_REDUCTIONS[node.op_type](p, axis=axes, keepdims=kept) for p in probes]
