"""Sentences on the result of a bisection, for every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ortune.printable import amount, first_of
from ortune.records import (
    ClippedActivation,
    Envelope,
    GraphNode,
    GridSteps,
    MatchedBy,
    NodeChange,
    NotFinite,
    OutputDifference,
    Parting,
    ValuePair,
    WeightFault,
)
from ortune.show.document import Annotation, Cell, Column, Document, Line, Pairs, Points, Table, Tone, table
from ortune.show.numbers import difference, percent, shorten
from ortune.show.output_words import outputs, rounded
from ortune.verbs.bisect.result import BisectResult

MOST_NODES = 4
MOST_PARTINGS = 5
_WAYS: dict[MatchedBy, str] = {"name": "by name", "values": "by value", "structure": "by structure"}
AROUND = 3
"""Number of values that are shown before and after the first differing value."""


def headline(result: BisectResult) -> str:
    """Return the result in one sentence."""
    if result.wrong == "both" and not result.partings:
        right = "model in float64" if result.judged_by == "float64" else "unoptimised model"
        equal = outputs(result.outputs)
        return f"A and B are both wrong in the same way: both differ from the {right} ({equal})"
    if result.outputs.cause:
        place = f", from {_first(result)} onwards" if result.partings else ""
        return f"no fault: {rounded(result.outputs)}{place}"
    if result.wrong == "both":
        apart = _difference(result.partings[0].value)
        return f"A and B are both wrong, and differ from {_first(result)} onwards: {apart}"
    return _divergence(result)


def _first(result: BisectResult) -> str:
    """Return the name of the node at which values first diverge."""
    first = result.partings[0]
    return _short(next(filter(None, (first.at, first.at_b, *first.a[-1:], *first.b[-1:]))))


def _no_numbers(of: OutputDifference) -> bool:
    """Return whether the outputs are equal but contain NaN or infinities on both sides."""
    return of.nonfinite_reference > 0 and of.nonfinite_candidate > 0 and not of.max_error


def _divergence(result: BisectResult) -> str:
    """Return a sentence on the place where values diverge, or that says that there is none."""
    if not result.partings and result.stepped is not None:
        return f"no finding: {steps(result.stepped.steps)}, from {_short(result.stepped.node)} onwards"
    if not result.partings and (result.outputs.ok or result.outputs.empty or _no_numbers(result.outputs)):
        return f"nothing to bisect: {outputs(result.outputs)}"
    if not result.partings:
        return (
            "no node was found: compared one by one, the values of both sides are equal within rounding or were "
            "not matched"
        )
    first = result.partings[0]
    apart = _difference(first.value)
    if result.wrong:
        return f"{_side(result)} is wrong from {_first(result)} onwards: {apart}"
    if _grows(first):
        return f"the error grows at {_place(first)}: {apart}, after {_error(first.before)} at its inputs"
    return f"the values diverge at {_place(first)}: {apart}, with equal inputs"


def _side(result: BisectResult) -> str:
    """Return the letter of the wrong side, and its optimisation level if the optimiser is the cause."""
    side = result.base if result.wrong == "A" else result.new
    if result.graphs != "optimised":
        return result.wrong
    level = side.plan.settings.get("graph_optimization_level")
    return f"{result.wrong} ({'default level' if level is None else f'level {level}'})"


def parted(parting: Parting) -> str:
    """Return a sentence on a place where values diverge, with the differences between the nodes there."""
    operators = [Counter(node.operator for node in nodes) for nodes in (parting.a, parting.b)]
    missing = [
        f"{', '.join((mine - theirs).elements())} exists only in {side}"
        for side, mine, theirs in zip("AB", operators, reversed(operators), strict=True)
        if parting.a and parting.b and 0 < (mine - theirs).total() <= MOST_NODES
    ]
    what = [
        *missing,
        *map(change, parting.changes),
        *map(weight_fault, parting.weights),
        *map(clipping, parting.clipped),
    ]
    return "; ".join([f"the values diverge at {_place(parting)}: {_difference(parting.value)}", *what])


def _grows(parting: Parting) -> bool:
    """Return whether the inputs at this place already differ, though less than the outputs."""
    return not all(pair.equal for pair in parting.inputs)


def _place(parting: Parting) -> str:
    if not parting.a:
        return f"{_nodes(parting.b)}, which A does not have"
    if not parting.b:
        return f"{_nodes(parting.a)}, which B does not have"
    mine, theirs = parting.at or parting.a[-1], parting.at_b or parting.b[-1]
    if (mine.name, mine.operator) == (theirs.name, theirs.operator) or len(parting.a) == len(parting.b) == 1:
        return f"{_node(mine)}"
    return f"{_node(mine)}, in B {_node(theirs)}"


def notes(result: BisectResult) -> list[str]:
    """Return remarks on how the result was found."""
    rows = []
    if result.graphs == "files":
        rows.append("compared with optimisation disabled, so every node of the files runs")
    if result.graphs == "optimised":
        rows.append("equal with optimisation disabled, so the optimised graphs were compared")
    if result.judged_by == "float64" and result.wrong == "both":
        rows += (
            ["A and B are both wrong: the model in float64 gives other outputs"] if result.partings else []
        )
    elif result.judged_by == "float64":
        rows.append(f"{result.wrong} is wrong: the other side matches the model in float64")
    if result.judged_by == "optimiser-off" and result.wrong != "both":
        rows.append(f"{result.wrong} is wrong: the other side matches the unoptimised model")
    if result.bodies:
        rows.append("bodies of If, Loop and Scan are not compared; such a node counts as one step")
    return rows


def saturating(left: float) -> str:
    """Return a sentence that says that saturating 8-bit sums are the cause; ``left`` is the remaining difference."""
    return (
        f"sums of 8-bit products saturate on this CPU: outputs are {difference(left)} with "
        "--a-set x64_quant_precision=1 and --b-set x64_quant_precision=1"
    )


def not_saved(why: str) -> str:
    """Return a sentence that says that the optimised graph could not be saved for inspection."""
    return f"equal with optimisation disabled, but the optimised graph could not be saved: {why}"


def _node(node: GraphNode) -> str:
    name = shorten(node.name, 80) if node.name else f"the node that produces {shorten(node.value, 60)}"
    own = f", which replaces {_some(node.of)}" if node.of and node.of != (node.name,) else ""
    inside = " (its bodies were not compared)" if node.bodies else ""
    return f"{name} ({node.operator}){own}{inside}"


def _short(node: GraphNode) -> str:
    """Return a node's short name: the name of the first model node that it replaces, or else its own name."""
    own = next(iter(node.of), node.name) or f"the node that produces {shorten(node.value, 60)}"
    return f"{shorten(own, 80)} ({node.operator})"


def _nodes(nodes: Sequence[GraphNode]) -> str:
    if len(nodes) <= MOST_NODES:
        return ", ".join(map(_node, nodes))
    return f"{_node(nodes[0])} to {_node(nodes[-1])} ({len(nodes)} nodes)"


def _some(names: Sequence[str]) -> str:
    return first_of([shorten(name, 60) for name in names], MOST_NODES)


def _difference(pair: ValuePair) -> str:
    if pair.shape_b is not None:
        return f"different shapes, {_shape(pair.shape)} in A and {_shape(pair.shape_b)} in B"
    if pair.relative_l2 is None:
        return "values that are non-finite, or no longer zero"
    if pair.steps is not None:
        return f"{steps(pair.steps)} (relative L2 {pair.relative_l2:.2g})"
    if pair.slice is not None and pair.slice.relative_l2 > 4 * pair.relative_l2 > 0:
        worst = f", and {pair.slice.relative_l2:.2g} at index {pair.slice.first} of axis {pair.slice.axis}"
    else:
        worst = ""
    return f"relative L2 {pair.relative_l2:.2g}{worst}, where rounding explains {pair.limit:.1g}"


def steps(apart: GridSteps) -> str:
    """Return a phrase on a difference on a quantization grid: "at most 1 step of 0.06 in 23 % of the elements"."""
    count = amount(apart.most, "step")
    share = percent(apart.share, 0 if apart.share >= 0.02 else 2)
    return f"at most {count} of {apart.scale:.2g} in {share} of the elements"


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def _error(figure: float | None) -> str:
    return "values that are not finite" if figure is None else f"{figure:.2g}"


def weight_fault(fault: WeightFault) -> str:
    """Return a sentence on a weight whose stored values are faulty: not finite, saturated, or badly scaled."""
    what = f"{fault.side}: weight {shorten(fault.name, 60)} ({fault.onnx_type})"
    are = "is" if fault.n == 1 else "are"
    if fault.kind == "not-finite":
        return f"{what}: {fault.n} of {fault.size} values {are} NaN or infinite"
    if fault.kind == "saturated":
        return f"{what}: {fault.n} of {fault.size} values {are} saturated at the limits of {fault.onnx_type}"
    use = "uses" if fault.n == 1 else "use"
    return f"{what}: one scale for all channels; {fault.n} of {fault.size} channels {use} at most 2 quantization steps"


def clipping(of: ClippedActivation) -> str:
    """Return a sentence on an activation that quantization clips, with its calibrated and its actual range."""
    beyond = "above" if of.least >= of.low else "below" if of.most <= of.high else "outside"
    share = percent(of.share, 0 if of.share >= 0.02 else 2)
    return (
        f"{of.side}: {share} of the values of {shorten(of.name, 60)} are {beyond} the calibrated range "
        f"{of.low:.3g} to {of.high:.3g}, and are clipped (they reach from {of.least:.3g} to {of.most:.3g})"
    )


def change(node: NodeChange) -> str:
    """Return a phrase on the difference between two nodes."""
    if node.part == "weight":
        how = (
            "has another shape, or non-finite values"
            if node.relative_l2 is None
            else f"differs: relative L2 {node.relative_l2:.2g}"
        )
        return f"weight {shorten(node.name, 60)} {how}"
    if node.part == "operator":
        return f"operator {node.was} in A, {node.now} in B"
    was, now = (shorten(text, 60) or "not set" for text in (node.was, node.now))
    return f"attribute {node.name} is {was} in A, {now} in B"


def not_finite(place: NotFinite) -> str:
    """Return a sentence on where NaN or infinities first appear, with the weight or input that causes them."""
    what = f"{place.side}: {counted_not_finite(place.n_nan, place.n_inf)} among the {place.size} output values of "
    what += _node(place.node)
    if place.infinity == "overflow":
        what += ", which overflows"
    elif place.infinity == "division-by-zero":
        what += f", which {'takes the logarithm of 0' if 'Log' in place.node.operator else 'divides by zero'}"
    if place.nan_node is not None:
        what += f"; {_node(place.nan_node)} turns it into NaN"
    if place.input:
        fed = counted_not_finite(place.input_n_nan, place.input_n_inf)
        return f"{what}, from input {shorten(place.input, 60)}, which contains {fed}"
    if not place.weight:
        return what
    weight = counted_not_finite(place.weight_n_nan, place.weight_n_inf)
    return f"{what}, from weight {shorten(place.weight, 60)} ({place.weight_type}), which contains {weight}"


def counted_not_finite(n_nan: int, n_inf: int) -> str:
    """Return the numbers of NaN and infinite values as text: "3 NaN and 1 infinite"."""
    return " and ".join(f"{n} {what}" for n, what in ((n_nan, "NaN"), (n_inf, "infinite")) if n)


def _matched(values: Sequence[ValuePair]) -> str:
    """Return a phrase on how many values were matched, and by which methods."""
    ways = Counter(pair.matched_by for pair in values)
    parts = [f"{ways[by]} {how}" for by, how in _WAYS.items() if ways[by]]
    return f"{len(values)} matched{': ' if parts else ''}{', '.join(parts)}"


def _steps(result: BisectResult) -> Table:
    """Return a table of the matched values around the first differing value."""
    first = result.partings[0].value.a
    place = next(i for i, pair in enumerate(result.values) if pair.a == first)
    shown = result.values[max(0, place - AROUND) : place + AROUND + 1]
    return table(
        (Column("node", "name"), Column("relative L2"), Column("limit")),
        [
            (
                f"{shorten(pair.node or pair.a, 50)} ({pair.operator})",
                Cell(
                    _figure(pair),
                    tone="" if pair.equal else "bad",
                ),
                f"{pair.limit:.1e}",
            )
            for pair in shown
        ],
        notes=("the limit is what rounding explains; --json lists all matched values",),
    )  # fmt: skip


def _figure(pair: ValuePair) -> str:
    if pair.shape_b is not None:
        return "different shape"
    return "not finite" if pair.relative_l2 is None else f"{pair.relative_l2:.1e}"


def _further(partings: Sequence[Parting]) -> list[str]:
    rest = [f"at {_place(p)}: {_difference(p.value)}" for p in partings[1 : 1 + MOST_PARTINGS]]
    more = len(partings) - 1 - len(rest)
    return rest + ([f"and {more} more (--json has them)"] if more > 0 else [])


def document(envelope: Envelope[BisectResult]) -> Document:
    """Return the document of a bisection: the first wrong node, the reason, and the values around it."""
    result = envelope.result
    tone: Tone = "bad" if result.partings or result.wrong else "good" if result.outputs.ok else "unsure"
    real = envelope.workload is not None and bool(envelope.workload.inputs_path)
    advice = "calibrate with inputs like these" if real else "pass real inputs with --inputs"
    rows = [("outputs", outputs(result.outputs, wrong=bool(result.wrong)).removeprefix("outputs "))]
    changes, further = [], []
    if result.graphs:
        rows.append(
            ("values", f"{result.n_values_a} in A, {result.n_values_b} in B, {_matched(result.values)}")
        )
    if result.partings:
        answer = result.partings[0]
        changes = [change(entry) for entry in answer.changes] + [
            *map(weight_fault, answer.weights),
            *(f"{clipping(of)}; {advice}" for of in answer.clipped),
        ]
        if result.first is not None:
            rows.append(("first difference", f"at {_place(result.first)}: {_difference(result.first.value)}"))
        rows += [
            (f"nodes in {letter}", _nodes(nodes))
            for letter, nodes in (("A", answer.a), ("B", answer.b))
            if len(nodes) > 1 or any(node.of for node in nodes)
        ]
        further = _further(result.partings)
    return Document(
        title="ortune bisect",
        blocks=[
            Line(result.headline, tone),
            Points(items=changes),
            Pairs(rows=rows),
            *([_steps(result)] if result.partings else []),
            Points(title="further nodes where values differ", items=further),
            Points(title="first non-finite values", items=[not_finite(n) for n in result.not_finite]),
            Points(title="how", items=result.notes),
        ],
        annotations=[
            Annotation(
                level="notice" if tone == "good" else "error",
                title="ortune bisect",
                lines=[result.headline, *changes],
            )
        ],
    )
