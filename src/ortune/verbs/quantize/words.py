"""Precision layer by layer, in words: what was won, what stays in float and why, and what lies between."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ortune.durations import as_option
from ortune.records import (
    Envelope,
    FrontRow,
    LayerRow,
    Plan,
    PrecisionRow,
    QuantizeResult,
    VerdictName,
)
from ortune.show import finding_words, others_words, sides
from ortune.show import headline as heads
from ortune.show.answer_commands import lines, told_line, with_budget, words_of
from ortune.show.chart import Chart, Dot, Segment, decade_axis, factor_axis
from ortune.show.checks import checks, control_words
from ortune.show.document import (
    Block,
    Cell,
    Code,
    Column,
    Document,
    Head,
    Line,
    Pairs,
    Points,
    Section,
    Table,
    Tone,
    stopped,
    table,
)
from ortune.show.numbers import change, duration, factor, percent, shorten, size, span
from ortune.show.precision_words import model
from ortune.show.stored_kind import StoredKind
from ortune.verbs.quantize import metric_words
from ortune.verbs.quantize.basis import by_metric, error_text, not_final, rests_on, saturation

_NOTHING = "-"
MOST_NAMED = 12
"""Layers in float that are named one by one; the page and the JSON have all."""


MOST_FAILED = 3
"""Methods with one reason that are named; the table of methods has all."""

NOTHING_TO_RACE = "no quantized model can be compared with the float model, so nothing was timed"


def no_time(n: int, budget_s: float, *, exploring: bool) -> str:
    """Says that models were not raced, or that none of them could be confirmed, and which budget is enough for it."""
    what = "1 model was" if n == 1 else f"{n} models were"
    lack = (
        "the budget is too small to confirm a model"
        if exploring
        else f"{what} not compared: the budget is too small"
    )
    return f"{lack} (--budget {as_option(budget_s)} is enough)"


def not_made(budget_s: float) -> str:
    """Says that making and testing a model takes longer than the budget allows, and which one allows more."""
    return f"no quantized model was created and tested in time (--budget {as_option(budget_s)} allows more)"


def untested(n: int, n_methods: int, budget_s: float) -> str:
    """Says that the budget held the test of some methods alone, and which one is expected to hold all."""
    return (
        f"the budget is too small to test {n} of {n_methods} quantization methods (--budget {as_option(budget_s)} "
        "allows more)"
    )


def left_out(n: int) -> str:
    """Says that an earlier answer spared methods."""
    what = "1 quantization method was" if n == 1 else f"{n} quantization methods were"
    return (
        f"{what} not tested: each was worse than the winner in an earlier model with the same kinds of layers "
        "(with a new --store, all are tested)"
    )


def memory(model_bytes: int, least_bytes: int, most_bytes: int, left_bytes: int) -> str:
    """What quantizing a large model takes, by method, and what there is."""
    needed = size(least_bytes) if least_bytes == most_bytes else f"{size(least_bytes)} to {size(most_bytes)}"
    return f"quantizing a model of {size(model_bytes)} needs about {needed} of memory; {size(left_bytes)} are free"


def headline(result: QuantizeResult) -> str:
    """What the winner gains and costs, or why float stays."""
    unsure = not_final(result)
    comparison, row = result.against_default, _winner(result)
    if comparison is None or row is None:
        raced = any(row.comparison is not None for row in result.front)
        verdict: VerdictName = "inconclusive" if raced else "nothing-tested"
        return heads.headline(verdict, _why_float(result), "keep the float model", unsure)
    figure = heads.measured(comparison, heads.count(comparison.n_blocks, "block"))
    error = f"error {error_text(row.error)}"
    if result.judged_by and row.outputs is not None:
        after, before = metric_words.values(result, row.outputs)
        error += f", {metric_words.name(result)} {after} (float: {before})"
    return heads.headline(comparison.verdict, figure, error, _n_float(row), unsure)


def _why_float(result: QuantizeResult) -> str:
    models = [row for row in result.front if row.n_layers and not _is_float(row)]
    right = [row for row in models if row.ok]
    if result.no_time and not any(map(_is_confirmed, models)):
        return result.no_time
    if not models:
        return "no quantized model runs"
    if not right:
        return f"no quantized model is within the tolerance {result.tolerance}"
    return "no quantized model within the tolerance is confirmed to be faster"


def _is_float(row: FrontRow) -> bool:
    return not row.plan.rewrites


def _is_confirmed(row: FrontRow) -> bool:
    """Returns whether fresh blocks support a row, beside those of the race."""
    return row.comparison is not None and row.comparison.phase == "confirm"


def _winner(result: QuantizeResult) -> FrontRow | None:
    return next((row for row in result.front if row.chosen and not _is_float(row)), None)


def _n_float(row: FrontRow) -> str:
    if not row.n_float:
        return "all layers quantized"
    return f"{row.n_float} of {row.n_layers} layers kept in float"


def kept_line(row: LayerRow) -> str:
    """One layer that stays in float, with its reason."""
    name = row.name if len(row.members) == 1 else f"{row.name} and {len(row.members) - 1} like it"
    if row.reason == "error" and 0 < row.n_kept < len(row.members):
        name = f"{row.n_kept} of {len(row.members)} like {row.name}"
    parts = []
    if row.reason == "not-quantized":
        parts.append("ONNX Runtime's quantizer does not support it")
    if row.error_ratio is not None:
        parts.append(f"{percent(row.error_ratio, 0)} of the error")
    elif row.reason == "error" and row.expected_error is not None:
        parts.append(f"its own error {error_text(row.expected_error)}, expected from an earlier session")
    elif row.reason == "error":
        parts.append("its own error was not measured")
    if row.time_ratio is not None:
        parts.append(f"{percent(row.time_ratio, 0)} of the time")
    if row.reason == "no-gain":
        parts.append("quantization does not make it faster")
    return f"{name}: {', '.join(parts)}" if parts else name


def document(envelope: Envelope[QuantizeResult]) -> Document:
    """The answer, what stays in float, the front, and what supports it."""
    result = envelope.result
    assert result is not None
    tone: Tone = "good" if result.changes else "unsure"
    kept = [kept_line(row) for row in result.layers if row.n_kept]
    more = len(kept) - MOST_NAMED
    named = [*kept[:MOST_NAMED], *([f"{more} more (--json has all)"] if more > 0 else [])]
    blocks: list[Block] = [
        *stopped(envelope),
        Line(headline(result), tone),
        *others_words.lines([("", result.against_default)]),
        Line(rests_on(result), "look" if not_final(result) else ""),
        Line(by_metric(result)),
        Line(saturation(result)),
        Points(title="kept in float", items=named if result.changes else ()),
        Points(title="failed", items=_failed(result.methods)),
        _front(result),
        *checks(result.controls, result.against_default, result.findings),
        *([Line(f"bundle: {result.bundle}", "good")] if result.bundle else []),
        Code(title="next", lines=_next(envelope), commands=True),
    ]
    support: list[Block] = [
        *([chart] if (chart := _chart(result)) is not None else []),
        *([_layers(result)] if result.layers else []),
        _methods(result),
        Points(title="models in full", items=_full_names(result)),
        Pairs(rows=_details(result)),
    ]
    return Document(
        title=f"ortune quantize: {result.side.label}", blocks=blocks, support=support, head=_head(result)
    )


def _failed(rows: Sequence[PrecisionRow]) -> list[str]:
    """Why methods failed, where none gave a model; else the table has it."""
    if any(not row.why for row in rows):
        return []
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.why, []).append(model(msgspec.structs.replace(row.plan, settings={})))
    return [f"{reason} ({_shortened(names)})" for reason, names in by_reason.items()]


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_FAILED} more" if len(names) > MOST_FAILED else ""
    return f"{', '.join(names[:MOST_FAILED])}{more}"


def _next(envelope: Envelope[QuantizeResult]) -> list[str]:
    result = envelope.result
    again = with_budget(result.reproduce, result.enough_s) if result.enough_s else []
    compare = ["ortune", "compare", result.bundle] if result.bundle else []
    quiet = others_words.wait_options(result.against_default)
    if quiet:
        again = [*(again or words_of(result.reproduce)), *quiet]
    return lines(again, compare, told_line(result.session, envelope.store))


def _name(row: FrontRow) -> str:
    """All rewrites of a model; the layers that it leaves in float are counted in a column of their own."""
    if _is_float(row):
        return "float"
    specs = [
        msgspec.structs.replace(
            spec, params={k: v for k, v in spec.params.items() if k != "leave" or not row.n_float}
        )
        for spec in row.plan.rewrites
    ]
    return model(Plan(rewrites=tuple(specs)))


def _full_names(result: QuantizeResult) -> list[str]:
    """The models with several rewrites or with parameters, whose names the tables may cut."""
    names = [_name(row) for row in result.front] + [model(row.plan) for row in result.methods]
    return [name for name in dict.fromkeys(names) if ", " in name or ":" in name]


def _front(result: QuantizeResult) -> Table:
    """A row for each model that was raced, by error."""
    judged = [Column(metric_words.name(result))] if result.judged_by else []
    columns = [
        Column("model", "list"), Column("layers in float"), Column("error"), *judged, Column("against float"),
        Column("size"), Column("", "text"),
    ]  # fmt: skip
    rows: list[list[Cell | str]] = []
    compared = any(map(_is_confirmed, result.front))
    for row in result.front:
        if row.comparison is None and not _is_float(row):
            continue
        time = Cell(_NOTHING)
        if row.comparison is not None:
            ratio, low, high = sides.as_shown(row.comparison)
            # The few blocks of the race tell how far a model got, and claim nothing.
            time = Cell(change(ratio), beneath=span(low, high) if _is_confirmed(row) else "")
        of = "" if not row.n_layers else f"{row.n_float} of {row.n_layers}"
        # Without fresh blocks nothing won against anything.
        said = ["winner"] if row.chosen and compared else ["beyond the tolerance"] if not row.ok else []
        if row.pareto and compared and not row.chosen and row.ok:
            said.append("Pareto-optimal")
        if row.comparison is not None and not _is_confirmed(row):
            said.append("not confirmed")
        size_text = size(row.size_bytes) if row.size_bytes is not None else ""
        of_float = metric_words.of_float(result)
        metric = [of_float if row.outputs is None else metric_words.values(result, row.outputs)[0]]
        cells: list[Cell | str] = [
            _name(row),
            of,
            error_text(row.error),
            *(metric if judged else []),
            time,
            size_text,
        ]
        rows.append([*cells, ", ".join(said)])
    note = "error: worst slice over all outputs and inputs, relative L2"
    return table(columns, rows, notes=[note] if len(rows) > 1 else [], dense=True)


def _layers(result: QuantizeResult) -> Table:
    columns = [
        Column("layer", "name"), Column("operator", "text"), Column("own error"), Column("of the error"),
        Column("of the time"), Column("saves"), Column("kept in float"),
    ]  # fmt: skip
    rows = []
    for row in result.layers:
        count = f" (x{len(row.members)})" if len(row.members) > 1 else ""
        rows.append(
            [
                f"{row.name}{count}",
                row.op_type,
                _layer_error(row),
                _NOTHING if row.error_ratio is None else percent(row.error_ratio, 0),
                _NOTHING if row.time_ratio is None else percent(row.time_ratio, 0),
                _saved(row.saved_ns),
                "" if not row.n_kept else "yes" if row.n_kept == len(row.members) else f"{row.n_kept}",
            ]
        )
    of = f" of {model(result.layers_of)}" if result.layers_of is not None else ""
    return table(columns, rows, title=f"sensitivity{of}", dense=True, sortable=True)


def _saved(saved_ns: float | None) -> str:
    if saved_ns is None:
        return _NOTHING
    return duration(saved_ns) if saved_ns >= 0 else f"none, {duration(-saved_ns)} slower"


def _layer_error(row: LayerRow) -> str:
    if row.error is not None:
        return error_text(row.error)
    return _NOTHING if row.expected_error is None else f"{error_text(row.expected_error)} expected"


def _methods(result: QuantizeResult) -> Table:
    """The whole model by each means, a single observation each."""
    judged = [Column(metric_words.name(result))] if result.judged_by else []
    columns = [
        Column("whole model", "list"),
        Column("error"),
        *judged,
        Column("against float"),
        Column("size"),
        Column("", "text"),
    ]
    cells = []
    for row in result.methods:
        outputs = row.outputs
        metric = (
            [metric_words.values(result, outputs)[0] if outputs is not None else _NOTHING] if judged else []
        )
        error = _NOTHING if outputs is None or not outputs.comparable else error_text(outputs.relative_l2)
        time = _NOTHING if row.ratio is None else change(row.ratio)
        size_text = size(row.size_bytes) if row.size_bytes is not None else _NOTHING
        cells.append([model(row.plan), error, *metric, time, size_text, shorten(row.why, 90)])
    return table(columns, cells, notes=["single observations"] if cells else [], dense=True)


def _chart(result: QuantizeResult) -> Section | None:
    """Error against speed-up, a dot a model; the front is joined."""
    rows = [row for row in result.front if _is_confirmed(row) and row.error > 0]
    if not rows:
        return None
    ratios = [row.comparison.ratio for row in rows if row.comparison is not None]
    x = decade_axis([row.error for row in rows], lambda value: f"{100 * value:g} %")
    y = factor_axis([1 / ratio for ratio in ratios], lambda value: f"{value:g}x", slowest=0.3)
    dots = [
        Dot(
            x=row.error, y=1 / ratio, hue="winner" if row.chosen else "other", radius_px=5.0 if row.chosen else 3.5,
            about=f"{_name(row)}: {factor(1 / ratio)}x, error {error_text(row.error)}, {_n_float(row)}",
        )
        for row, ratio in zip(rows, ratios, strict=True)
    ]  # fmt: skip
    best = sorted((row.error, 1 / ratio) for row, ratio in zip(rows, ratios, strict=True) if row.pareto)
    joins = [Segment(x0=a[0], x1=b[0], y0=a[1], y1=b[1], hue="join winner") for a, b in pairwise(best)]
    points = "; ".join(dot.about for dot in dots)
    chart = Chart(
        alt=f"speed-up over float against error: {points}", marks=(*joins, *dots),
        height_px=220, x=x, y=y, legend=(("winner", "winner"), ("other", "other models")),
    )  # fmt: skip
    note = "Right: a larger error. Up: faster than the float model. The line joins the models that no other one beats."
    return Section(title="Error and speed", note=note, blocks=[chart])


def _head(result: QuantizeResult) -> Head:
    """What a page begins with: the gain of the winner, or that the float model stays."""
    claim, row = result.against_default, _winner(result)
    if claim is None or row is None or claim.verdict not in heads.PROVEN:
        return Head(unit="Keep the float model", tone="unsure")
    word = heads.word(claim.verdict, claim.statistic)
    return Head(
        large=f"{factor(max(claim.ratio, 1 / claim.ratio))}×",
        unit=f"{word} in {sides.statistic_name(claim.statistic)} than float, error {error_text(row.error)}",
        tone="unsure" if not_final(result) else "",
    )


def _details(result: QuantizeResult) -> list[tuple[str, str]]:
    rows = [("tolerance", result.tolerance), ("statistic", result.statistic)]
    rows += [("noise", text) for text in control_words(result.controls)]
    rows += finding_words.rows(result.findings)
    rows += [("note", text) for text in result.notes]
    rows.append(("again", result.reproduce))
    return [(name, text) for name, text in rows if text]


STORED = StoredKind(
    result=QuantizeResult,
    document=document,
    headline=headline,
)
