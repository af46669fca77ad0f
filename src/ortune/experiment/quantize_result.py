"""The document of ``ortune quantize``, made of what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ortune.bundle.snippet import python_lines
from ortune.experiment import quantising
from ortune.experiment.baseline import Baseline
from ortune.experiment.precision import Model, Sensitivity, saturates
from ortune.records import (
    BudgetReport,
    Calibration,
    Comparison,
    FrontRow,
    Host,
    KeptReason,
    LayerRow,
    PrecisionRow,
    QuantizeResult,
    Saturation,
    TuneResult,
)
from ortune.search import confirm
from ortune.search.blocks import BASE, awake, measured
from ortune.search.figures import WORDS, describe
from ortune.search.fixed import Fixed
from ortune.search.precision import front
from ortune.trials.rewriting import Models
from ortune.trials.tolerance import Tolerance

ENOUGH_INPUTS = 59
"""Inputs of which none beyond the tolerance shows that at most one in twenty others is, at 95 %."""
LEAST_SHARE = 0.02
"""Of the time, from which on a layer that the quantizer has nothing for is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """The models in fewer bits, and the race of some of them.

    Attributes:
        models: All that were made.
        arms: Those that were raced, by arm.
        schedule: Of the race; None where there was none.
    """

    models: Sequence[Model]
    arms: Mapping[str, Model]
    schedule: Fixed | None


def make_result(
    baseline: Baseline,
    raced: Raced,
    layers: Sensitivity | None,
    *,
    rows: Sequence[PrecisionRow],
    calibration: Calibration,
    tolerance: Tolerance,
    models: Models,
) -> QuantizeResult:
    """Everything that the session knows, but for its number and its words."""
    schedule, side = raced.schedule, baseline.side
    blocks = schedule.blocks if schedule is not None else []
    judgement = schedule.judgement if schedule is not None else None
    estimand = judgement.estimand if judgement is not None else "median"
    arms = {model.plan.id: arm for arm, model in raced.arms.items()}
    claims: dict[str, Comparison] = {}
    for plan_id, arm in arms.items():
        found = confirm.compare(blocks, arm, estimand, level=1 - 0.05 / max(1, len(arms)))
        if found is not None:
            claims[plan_id] = found
    right = [
        model for model in raced.arms.values()
        if model.outputs is not None and model.outputs.ok and not model.outputs.silent
        and model.plan.id in claims and claims[model.plan.id].verdict == "faster"
    ]  # fmt: skip
    winner = min(right, key=lambda model: claims[model.plan.id].ratio, default=None)
    default = measured(blocks, BASE) or [baseline.pilot.first]
    won = measured(blocks, arms[winner.plan.id]) if winner is not None else []
    n_layers = len(layers.groups) if layers is not None else 0
    return QuantizeResult(
        side=msgspec.structs.replace(side.record, plan=side.plan),
        tolerance=tolerance.text,
        winner=winner.plan if winner is not None else side.plan,
        changes=winner is not None,
        estimand=WORDS[estimand],
        default_figures=describe(default, estimand, [baseline.pilot.first]),
        winner_figures=describe(won, estimand) if won else None,
        against_default=claims[winner.plan.id] if winner is not None else None,
        outputs=winner.outputs if winner is not None else None,
        methods=tuple(rows),
        layers=tuple(layer_rows(layers, winner)) if layers is not None else (),
        layers_of=layers.whole.plan if layers is not None else None,
        front=_front(baseline, raced, claims, winner, n_layers),
        calibration=calibration,
        inputs_needed=ENOUGH_INPUTS if not calibration.source or calibration.checked < ENOUGH_INPUTS else 0,
        controls=tuple(schedule.controls) if schedule is not None else (),
        findings=tuple(baseline.findings),
        saturation=_saturation(winner, baseline.host),
        notes=(*baseline.work.notes, *baseline.notes, *awake(blocks)),
        code=""
        if winner is None
        else python_lines(
            winner.plan,
            f"{side.model.path.stem}-quantized.onnx",
            baseline.machine.allocators,
            tuple(baseline.work.custom_ops),
        ),
    )


def _saturation(winner: Model | None, host: Host) -> Saturation:
    spec = winner.plan.rewrites[-1] if winner is not None else None
    if spec is None or spec.name not in ("static-int8", "dynamic-int8"):
        return ""
    if spec.params.get("activations") == "s8" or spec.params.get("range") == "7":
        return ""
    return "measured" if saturates(host) else "elsewhere"


def _front(
    baseline: Baseline,
    raced: Raced,
    claims: Mapping[str, Comparison],
    winner: Model | None,
    n_layers: int,
) -> tuple[FrontRow, ...]:
    """A row for each model, by error; the float model first, which has none."""
    info = baseline.side.model.info
    blocks = raced.schedule.blocks if raced.schedule is not None else []
    estimand = raced.schedule.judgement.estimand if raced.schedule and raced.schedule.judgement else "median"
    arms = {model.plan.id: arm for arm, model in raced.arms.items()}
    rows = [
        FrontRow(
            plan=baseline.side.plan, error=0.0, ok=True, n_float=n_layers, n_layers=n_layers,
            size_bytes=info.size_bytes + info.external_bytes, chosen=winner is None,
        )
    ]  # fmt: skip
    for model in raced.models:
        if not math.isfinite(model.error):
            continue  # the row of its means says why
        trials = measured(blocks, arms[model.plan.id]) if model.plan.id in arms else []
        rows.append(
            FrontRow(
                plan=model.plan,
                error=model.error,
                ok=model.outputs is not None and model.outputs.ok,
                n_float=len(model.kept),
                n_layers=n_layers,
                size_bytes=model.size_bytes,
                outputs=model.outputs,
                figures=describe(trials, estimand) if trials else None,
                comparison=claims.get(model.plan.id),
                chosen=model is winner,
                failed=model.failed,
            )
        )
    timed = [row for row in rows if row.comparison is not None or row is rows[0]]
    best = front([(row.error, row.comparison.ratio if row.comparison else 1.0) for row in timed])
    on_front = {timed[i].plan.id for i in best}
    rows = [msgspec.structs.replace(row, pareto=row.plan.id in on_front) for row in rows]
    return tuple(sorted(rows, key=lambda row: (row.error, row.comparison.ratio if row.comparison else 2.0)))


def layer_rows(layers: Sensitivity, winner: Model | None) -> list[LayerRow]:
    """A row for each question in the order of the graph, and for dear layers that stayed in float anyway."""
    # What the winner keeps is told of its own means alone.
    mine = winner is not None and any(winner is model for model in layers.models.values())
    kept = winner.kept if winner is not None and mine else frozenset[str]()
    finite = [each.error for each in layers.questions if math.isfinite(each.error)]
    total, whole_ns = sum(error**2 for error in finite), sum(layers.times_ns)
    times = dict(zip((group.name for group in layers.groups), layers.times_ns, strict=False))
    operators = {group.name: group.op_type for group in layers.groups}
    rows = []
    for each in layers.questions:
        n_kept, time_ns = len(kept & set(each.names)), sum(times.get(name, 0.0) for name in each.names)
        reason: KeptReason = ""
        if n_kept:
            reason = "no-gain" if each.saved_ns <= 0 else "error"
        error = each.error if layers.asked and math.isfinite(each.error) else None
        rows.append(
            LayerRow(
                name=each.names[0],
                op_type=operators[each.names[0]],
                members=each.names,
                error=error,
                error_ratio=error**2 / total if error is not None and total else None,
                time_ns=time_ns if whole_ns else None,
                time_ratio=time_ns / whole_ns if whole_ns else None,
                saved_ns=each.saved_ns if whole_ns else None,
                n_kept=n_kept,
                reason=reason,
            )
        )
    decided = {name for each in layers.questions for name in each.names}
    for group in layers.groups:
        time_ns = times.get(group.name, 0.0)
        if group.name not in decided and whole_ns and time_ns >= LEAST_SHARE * whole_ns:
            rows.append(
                LayerRow(
                    name=group.name, op_type=group.op_type, members=(group.name,), time_ns=time_ns,
                    time_ratio=time_ns / whole_ns, n_kept=1, reason="not-quantized",
                )
            )  # fmt: skip
    order = {group.name: place for place, group in enumerate(layers.groups)}
    return sorted(rows, key=lambda row: order[row.name])


def as_tuned(result: QuantizeResult) -> TuneResult:
    """The winner as a bundle takes it."""
    row = next(row for row in result.front if row.chosen)
    return TuneResult(
        side=result.side,
        objective="latency",
        estimand=result.estimand,
        worth_ratio=0.0,
        winner=result.winner,
        changes=result.changes,
        default_figures=result.default_figures,
        winner_figures=result.winner_figures,
        against_default=result.against_default,
        outputs=result.outputs,
        budget=BudgetReport(budget_s=result.budget_s, trial_s=0.0, promise=""),
        precision=(
            PrecisionRow(
                plan=row.plan,
                within_ratio=quantising.within(row.outputs) if row.outputs is not None else None,
                calibrated=True,
                size_bytes=row.size_bytes,
                outputs=row.outputs,
            ),
        ),
        calibration=result.calibration,
        session=result.session,
    )
