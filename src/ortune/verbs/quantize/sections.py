"""Tables and charts of a quantization: the models by error, the layers, and the methods."""

from __future__ import annotations

import math
from itertools import pairwise

from ortune.catalogue.knobs import find as find_knob
from ortune.catalogue.providers import short_name
from ortune.records import OutputDifference, Plan
from ortune.show import rewrite_words
from ortune.show.chart import Chart, Dot, Segment, decade_axis, factor_axis
from ortune.show.document import Cell, Column, Section, Table, table
from ortune.show.numbers import duration, factor, factors, memory, percent, size
from ortune.show.output_words import limit_missed
from ortune.show.precision_words import method, model
from ortune.verbs.quantize import metric_words
from ortune.verbs.quantize.basis_words import error_text
from ortune.verbs.quantize.result import FrontRow, LayerRow, QuantizeResult

ERROR = "error: relative L2, the largest of all outputs, their slices and inputs"
SPEED_UP = "speed-up: the time of the float model divided by that of the row"
NOTHING = "-"


def models_by_error(result: QuantizeResult) -> Table:
    """Return a table of the raced models, sorted by error; with several providers also memory and session creation."""
    judged = [Column(metric_words.name(result))] if result.judged_by else []
    shown = [row for row in result.front if row.comparison is not None or is_float(row)]
    over_providers = any(row.plan.providers for row in shown)
    starts = [Column("peak memory"), Column("session creation")] if over_providers else []
    columns = [
        Column("model", "text"), Column("layers in float"), Column("error"), *judged, Column("speed-up"),
        Column("size"), *starts, Column("", "text"),
    ]  # fmt: skip
    rows: list[list[Cell | str]] = []
    for row in shown:
        time = Cell(NOTHING)
        if (found := row.comparison) is not None:
            # The interval of the few race blocks is not shown, because they are not a claim.
            interval = f"{factors(found.ratio_low, found.ratio_high)}x" if is_confirmed(row) else ""
            time = Cell(_speed_up(found.ratio), beneath=interval)
        of = "" if not row.n_layers else f"{row.n_float} of {row.n_layers}"
        of_float = metric_words.of_float(result)
        metric = [of_float if row.outputs is None else metric_words.values(result, row.outputs)[0]]
        cells: list[Cell | str] = [
            _cell(row.plan, counted=bool(row.n_float)),
            of,
            error_text(row.error),
            *(metric if judged else []),
            time,
            size(row.size_bytes) if row.size_bytes is not None else "",
            *(_start(row, result) if over_providers else []),
        ]
        rows.append([*cells, ", ".join(_remarks(row, result))])
    notes = [f"{SPEED_UP}; {ERROR}"] if len(rows) > 1 else []
    return table(columns, rows, title="compared models", notes=notes, dense=True)


def _speed_up(ratio: float) -> str:
    return f"{factor(1 / ratio)}x"


def _start(row: FrontRow, result: QuantizeResult) -> list[str]:
    """Return the peak memory and the session creation time as text; "" for unknown values."""
    figures = result.default_figures if is_float(row) else row.figures
    if figures is None:
        return ["", ""]
    peak = memory(figures.peak_bytes) if figures.peak_bytes is not None else ""
    return [peak, duration(figures.load_ns)]


def _remarks(row: FrontRow, result: QuantizeResult) -> list[str]:
    """Return remarks on a row, such as "winner", the exceeded limit, "Pareto-optimal" or "not confirmed"."""
    compared = any(map(is_confirmed, result.front))
    # Without fresh blocks there is no winner.
    unfit = not row.ok or is_silent(row.outputs)
    said = ["winner"] if row.chosen and compared else [_beyond(row.outputs)] if unfit else []
    if row.pareto and compared and not row.chosen and row.ok:
        said.append("Pareto-optimal")
    if row is without_package(result):
        said.append("best without another package")
    if row.comparison is not None and not is_confirmed(row):
        said.append("not confirmed")
    if row.ok and row.small_gain:
        said.append("gains too little for its error")
    return said


def without_package(result: QuantizeResult) -> FrontRow | None:
    """Return the fastest confirmed model (or float) in the user's own runtime; None if the winner needs no package."""
    if result.adoption is None:
        return None
    own = [
        (row.comparison.ratio, row)
        for row in result.front
        if row.adoption is None and row.ok and row.comparison is not None and is_confirmed(row)
        and row.comparison.verdict == "faster" and not row.small_gain
    ]  # fmt: skip
    floats = [(1.0, row) for row in result.front if is_float(row)]
    return min([*own, *floats], key=lambda pair: pair[0], default=(1.0, None))[1]


def sensitivity(result: QuantizeResult) -> Table:
    """Return the table of layers, with the error of each and the time that quantizing it saves."""
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
                NOTHING if row.error_ratio is None else percent(row.error_ratio, 0),
                NOTHING if row.time_ratio is None else percent(row.time_ratio, 0),
                _saved(row.saved_ns),
                "" if not row.n_kept else "yes" if row.n_kept == len(row.members) else f"{row.n_kept}",
            ]
        )
    of = f" of {model(result.layers_of)}" if result.layers_of is not None else ""
    return table(columns, rows, title=f"sensitivity{of}", dense=True, sortable=True)


def whole_models(result: QuantizeResult) -> Table:
    """Return a table of the methods that ran on the whole model, with single observations."""
    judged = [Column(metric_words.name(result))] if result.judged_by else []
    columns = [
        Column("whole model", "text"),
        Column("error"),
        *judged,
        Column("speed-up (one trial)"),
        Column("size"),
        Column("", "text"),
    ]
    cells: list[list[Cell | str]] = []
    for row in result.methods:
        outputs = row.outputs
        if not row.tested or (outputs is None and row.why):
            continue
        metric = (
            [metric_words.values(result, outputs)[0] if outputs is not None else NOTHING] if judged else []
        )
        comparable = outputs is not None and math.isfinite(outputs.worst_slice_l2)
        error = error_text(outputs.worst_slice_l2) if outputs is not None and comparable else NOTHING
        time = NOTHING if row.ratio is None else _speed_up(row.ratio)
        size_text = size(row.size_bytes) if row.size_bytes is not None else NOTHING
        said = "" if outputs is None else _beyond(outputs)
        cells.append([_cell(row.plan), error, *metric, time, size_text, said])
    return table(
        columns,
        cells,
        title="tested methods",
        notes=["single observations", f"{SPEED_UP}; {ERROR}"] if cells else [],
        dense=True,
    )


def error_and_speed(result: QuantizeResult) -> Section | None:
    """Return a chart of speed-up against error, one dot per model; None without a confirmed quantized model."""
    rows = [row for row in result.front if is_confirmed(row) and row.error > 0]
    if not rows:
        return None
    ratios = [row.comparison.ratio for row in rows if row.comparison is not None]
    x = decade_axis([row.error for row in rows], lambda value: f"{100 * value:g} %")
    y = factor_axis([1 / ratio for ratio in ratios], lambda value: f"{value:g}x", slowest=0.3)
    dots = [
        Dot(
            x=row.error, y=1 / ratio, hue=_hue(row), radius_px=5.0 if row.chosen else 3.5,
            about=f"{method(row.plan)}: {factor(1 / ratio)}x, error {error_text(row.error)}, "
            f"{layers_in_float(row)}",
        )
        for row, ratio in zip(rows, ratios, strict=True)
    ]  # fmt: skip
    best = sorted((row.error, 1 / ratio) for row, ratio in zip(rows, ratios, strict=True) if row.pareto)
    joins = [Segment(x0=a[0], x1=b[0], y0=a[1], y1=b[1], hue="join winner") for a, b in pairwise(best)]
    packages = [("current", "with another package")] if any(map(_needs_package, rows)) else []
    points = "; ".join(dot.about for dot in dots)
    chart = Chart(
        alt=f"speed-up over float against error: {points}", marks=(*joins, *dots),
        height_px=220, x=x, y=y, legend=(("winner", "winner"), ("other", "other models"), *packages),
    )  # fmt: skip
    note = "Right: a larger error. Up: faster than the float model. The line joins the models that no other one beats."
    return Section(title="Error and speed", note=note, blocks=[chart])


def _hue(row: FrontRow) -> str:
    """Return the CSS class of a row's dot."""
    return "winner" if row.chosen else "current" if _needs_package(row) else "other"


def _needs_package(row: FrontRow) -> bool:
    return row.adoption is not None and not row.chosen


def _provider(plan: Plan) -> str:
    """Return a plan's provider and the type in which it computes floats, as text; "" for the CPU provider."""
    if not plan.providers:
        return ""
    types = [str(value) for name, value in plan.settings.items() if find_knob(name).strict]
    return " in ".join([short_name(plan.provider_names[0]), *types])


def _cell(plan: Plan, *, counted: bool = False) -> Cell:
    """Return a table cell with the method of a model, which can wrap between parameters.

    Args:
        plan: The plan of the model.
        counted: Whether another column has the number of layers in float, so their names are omitted.
    """
    where = _provider(plan)
    if not plan.rewrites:
        return Cell(where or "float")
    *before, last = plan.rewrites
    params = [f"{name}={value}" for name, value in last.params.items() if name != "leave" or not counted]
    after = f"after {', '.join(map(rewrite_words.spec, before))}" if before else ""
    return Cell(
        f"{last.name}: {', '.join(params)}" if params else last.name,
        beneath=" ".join(filter(None, [after, f"on {where}" if where else ""])),
    )


def _beyond(outputs: OutputDifference | None) -> str:
    """Return text on the limit that outputs exceed; "" if the outputs are within the tolerance."""
    if outputs is None:
        return "beyond the tolerance"
    if is_silent(outputs):
        return "error unknown: outputs nearly zero"
    return "" if outputs.ok else f"beyond: {limit_missed(outputs, named=True)}"


def is_float(row: FrontRow) -> bool:
    """Return whether a row is the float model's on the CPU provider."""
    return not row.plan.rewrites and not row.plan.providers


def is_confirmed(row: FrontRow) -> bool:
    """Return whether a row has a comparison on fresh blocks after the race, whatever its verdict."""
    return row.comparison is not None and row.comparison.phase == "confirm"


def is_silent(outputs: OutputDifference | None) -> bool:
    """Return whether the float model's outputs are nearly zero for every input, so distances mean nothing."""
    return outputs is not None and outputs.unjudged


def layers_in_float(row: FrontRow) -> str:
    """Return a clause with the number of layers that a model keeps in float."""
    if not row.plan.rewrites:
        return "no layer quantized"
    if not row.n_float:
        return "all layers quantized"
    return f"{row.n_float} of {row.n_layers} layers kept in float"


def _saved(saved_ns: float | None) -> str:
    if saved_ns is None:
        return NOTHING
    return duration(saved_ns) if saved_ns >= 0 else f"none, {duration(-saved_ns)} slower"


def _layer_error(row: LayerRow) -> str:
    if row.error is not None:
        return error_text(row.error)
    return NOTHING if row.expected_error is None else f"{error_text(row.expected_error)} expected"
