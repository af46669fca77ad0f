"""Error, size and speed of models with reduced precision, in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.durations import as_option
from ortune.printable import amount
from ortune.records import ENOUGH_INPUTS, NO_TIME, Calibration, OutputDifference, Plan, PrecisionRow
from ortune.show import rewrite_words
from ortune.show.document import Cell, Column, Table, table
from ortune.show.numbers import change, percent, significant, size, span

MOST_NAMED = 3
"""Maximum number of models that are named for each reason."""
HEADS = ("time (exploratory)", "size", "relative L2", "cosine", "top-1")


def side_by_side(precision: Sequence[PrecisionRow]) -> Table:
    """Return a table with the fastest model of each error class, unless a model with a smaller error is as fast."""
    best = {row.within_ratio: row for row in precision if row.pareto}
    rows = [_cells(row) for row in best.values()]
    # Columns without any value, such as top-1 without classes, are left out.
    kept = [place for place in range(len(HEADS) + 1) if not place or any(row[place].text for row in rows)]
    columns = [Column("model", "name"), *map(Column, HEADS)]
    return table([columns[i] for i in kept], [[row[i] for i in kept] for row in rows], dense=True)


def _cells(row: PrecisionRow) -> list[Cell]:
    outputs = row.outputs
    time = Cell("")
    if row.ratio and row.plan != Plan():
        low, high = row.ratio_low, row.ratio_high
        interval = "single observation" if low is None or high is None else span(low, high)
        time = Cell(change(row.ratio), beneath=interval)
    within = f"within {percent(row.within_ratio)}" if row.within_ratio else "exact"
    return [
        Cell(model(row.plan), beneath=within),
        time,
        Cell(size(row.size_bytes) if row.size_bytes is not None else ""),
        Cell(f"{outputs.relative_l2:.1e}" if outputs else ""),
        Cell(f"{outputs.cosine:.5f}" if outputs and outputs.cosine is not None else ""),
        Cell(percent(outputs.top1) if outputs and outputs.top1 is not None else ""),
    ]


def model(plan: Plan) -> str:
    """Return a plan's last rewrite with its parameters, then the earlier rewrites, then the settings.

    For example "static-int8:range=7 after cross-layer-equalization with intra_op_num_threads=2".
    """
    rest = Plan(settings=plan.settings, providers=plan.providers).describe()
    if not plan.rewrites:
        return rest
    *before, last = map(rewrite_words.spec, plan.rewrites)
    after = f" after {', '.join(before)}" if before else ""
    return f"{last}{after}{'' if rest == 'default' else f' with {rest}'}"


def method(plan: Plan) -> str:
    """Return the method of a model as text: all its rewrites, the layers left in float, and the provider.

    On the CPU provider, settings are left out.
    """
    settings = plan.settings if plan.providers else {}
    return model(Plan(rewrites=plan.rewrites, providers=plan.providers, settings=settings))


def by_reason(rows: Sequence[PrecisionRow], noun: str, enough_s: float = 0.0) -> list[str]:
    """Return a line for each reason that models were not compared, with their number and the names of the first.

    Args:
        rows: The models.
        noun: What a model is called in the line.
        enough_s: A budget that is enough for all models without time; 0 if it is unknown.
    """
    names: dict[str, list[str]] = {}
    for row in rows:
        enough = f" (--budget {as_option(enough_s)} is enough)" if enough_s and row.why == NO_TIME else ""
        names.setdefault(row.why + enough, []).append(method(row.plan))
    return [f"{amount(len(each), noun)}: {reason} ({_listed(each)})" for reason, each in names.items()]


def _listed(names: Sequence[str]) -> str:
    """Join the first names with semicolons, because names contain commas, and count the remaining names."""
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return "; ".join([*names[:MOST_NAMED], *more])


def made_by(tool: str) -> str:
    """Return a sentence that names the tool that made the winner's file; "" if ortune made the file."""
    return f"the file of the winner was made by {tool}" if tool else ""


def error(outputs: OutputDifference) -> str:
    """Return a phrase on the error of a quantized model's outputs relative to the original model's outputs."""
    parts = [f"relative L2 error {significant(100 * outputs.relative_l2)} %"]
    if outputs.top1 is not None:
        parts.append(f"top-1 agreement {percent(outputs.top1)}")
    return ", ".join(parts)


def calibration_basis(calibration: Calibration, row: PrecisionRow) -> str:
    """Return a phrase on the inputs used for calibration and error.

    It begins with "NOT FINAL" if these inputs are synthetic or too few.
    """
    if not calibration.source:
        what = (
            f"calibrated on {_synthetic(calibration.inputs)}"
            if row.calibrated
            else f"error measured on {_synthetic(calibration.checked)}"
        )
        return f"NOT FINAL: {what} (pass real ones with --data)"
    calibrated = (
        f"calibrated on {_sets(calibration.inputs)} of {calibration.source}, " if row.calibrated else ""
    )
    if not calibration.final:
        return (
            f"NOT FINAL: {calibrated}error measured on {_sets(calibration.checked)} of {calibration.source} "
            f"({ENOUGH_INPUTS} held-out ones are needed)"
        )
    return f"{calibrated}error measured on {_sets(calibration.checked)} of {calibration.source}"


def _sets(count: int) -> str:
    return "one input" if count == 1 else f"{count} inputs"


def _synthetic(count: int) -> str:
    return "one synthetic input" if count == 1 else f"{count} synthetic inputs"
