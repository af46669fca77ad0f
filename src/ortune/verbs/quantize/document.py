"""Builds the result of ``ortune quantize`` from the measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ortune.engines.quantizing.inputs import HELD_OUT
from ortune.engines.quantizing.quantizing import may_saturate
from ortune.engines.racing.tuning import Tuning
from ortune.graph.dot_products import saturates
from ortune.outputs.tolerance import Tolerance
from ortune.records import ENOUGH_INPUTS, Calibration, Host, Plan, PrecisionRow, ShippedAnswer
from ortune.search.blocks import measured
from ortune.search.figures import describe
from ortune.search.loss import justifies_loss
from ortune.search.precision import front
from ortune.verbs._shared.other_programs import worded
from ortune.verbs.quantize.precision import QuantizedModel
from ortune.verbs.quantize.result import FrontRow, KeptReason, LayerRow, QuantizeResult, Saturation
from ortune.verbs.quantize.sensitivity import Sensitivity
from ortune.verbs.tune.result import TuneResult

LEAST_SHARE = 0.02
"""Minimum fraction of the inference time from which a layer that the quantizer does not support gets a row."""


def make_result(
    run: Tuning,
    answer: TuneResult,
    models: Sequence[QuantizedModel],
    walks: Sequence[Sensitivity],
    *,
    rows: Sequence[PrecisionRow],
    calibration: Calibration,
    checked_needed: int,
    tolerance: Tolerance,
) -> QuantizeResult:
    """Return the result without its session number, headline, notes and budget, which the caller adds.

    Args:
        run: The race and the confirmation.
        answer: The result of the race and confirmation for the winner.
        models: All models that were created.
        walks: Sensitivity of each method that was decided layer by layer. The winner's is shown, else the first.
        rows: Rows of the fully quantized models.
        calibration: The inputs for calibration and comparison.
        checked_needed: Held-out inputs that a final result needs if there were fewer; otherwise 0.
        tolerance: The tolerance of the outputs.
    """
    winner = next((model for model in models if answer.changes and model.plan == answer.winner), None)
    of_winner = [walk for walk in walks if winner is not None and _is_of(winner, walk)]
    layers = next(iter([*of_winner, *walks]), None)
    common = {name: getattr(answer, name) for name in ShippedAnswer.__struct_fields__}
    return QuantizeResult(
        **common | {"side": msgspec.structs.replace(answer.side, plan=run.side.plan), "headline": ""},
        tolerance=tolerance.text,
        methods=tuple(rows),
        layers=tuple(layer_rows(layers, winner)) if layers is not None else (),
        layers_of=layers.whole.plan if layers is not None else None,
        front=_front(run, models, winner, len(layers.groups) if layers is not None else 0),
        calibration=calibration,
        inputs_needed=_inputs_needed(calibration),
        checked_needed=checked_needed,
        others=answer.others,
        saturation=saturation(winner.plan if winner is not None else None, run.baseline.host),
    )


def _is_of(winner: QuantizedModel, walk: Sensitivity) -> bool:
    return any(model.plan == winner.plan for model in walk.models.values())


def _inputs_needed(calibration: Calibration) -> int:
    """Return the number of real inputs that a final result needs; 0 if that many are available, even if unused."""
    enough = calibration.inputs >= ENOUGH_INPUTS * (HELD_OUT - 1)
    return 0 if calibration.source and enough else ENOUGH_INPUTS * HELD_OUT


def saturation(plan: Plan | None, host: Host) -> Saturation:
    """Return whether sums of two 8-bit products saturate here ("measured"), only "elsewhere", or not at all ("")."""
    on_cpu = plan is not None and plan.rewrites and not plan.providers
    spec = plan.rewrites[-1] if plan is not None and on_cpu else None
    if spec is None or not may_saturate(spec):
        return ""
    return "measured" if saturates(host) else "elsewhere"


def _front(
    run: Tuning, models: Sequence[QuantizedModel], winner: QuantizedModel | None, n_layers: int
) -> tuple[FrontRow, ...]:
    """Return the float model's row, then one for each model with a finite error, sorted by error."""
    search = run.search
    statistic = search.judgement.statistic
    rows = [
        FrontRow(
            plan=run.side.plan, error=0.0, ok=True, n_float=n_layers, n_layers=n_layers,
            size_bytes=run.baseline.side.model.size_bytes,
        )
    ]  # fmt: skip
    for model in models:
        if not math.isfinite(model.error):
            continue  # the row of its method has the reason
        arm = model.plan.id
        blocks = search.confirmation if measured(search.confirmation, arm) else search.race.all_blocks
        trials = measured(blocks, arm)
        comparison = (
            worded(search.comparison(arm)) if blocks is search.confirmation else search.race_comparison(arm)
        )
        rows.append(
            FrontRow(
                plan=model.plan,
                error=model.error,
                ok=model.outputs is not None and model.outputs.ok,
                n_float=len(model.kept) if model.plan.rewrites else n_layers,
                n_layers=n_layers,
                size_bytes=model.size_bytes,
                outputs=model.outputs,
                figures=describe(trials, statistic) if trials else None,
                comparison=comparison,
                chosen=model is winner,
                small_gain=comparison is not None
                and comparison.verdict == "faster"
                and search.is_lossy(model.plan, model.outputs)
                and not justifies_loss(comparison),
                failed=model.failed,
            )
        )
    confirmed = [
        row
        for row in rows
        if row is rows[0] or (row.comparison is not None and row.comparison.phase == "confirm")
    ]
    if len(confirmed) == 1:  # float was compared with nothing, so nothing is chosen or Pareto-optimal
        return _by_error(rows)
    rows[0] = confirmed[0] = msgspec.structs.replace(rows[0], chosen=winner is None)
    best = front([(row.error, row.comparison.ratio if row.comparison else 1.0) for row in confirmed])
    on_front = {confirmed[i].plan.id for i in best}
    return _by_error([msgspec.structs.replace(row, pareto=row.plan.id in on_front) for row in rows])


def _by_error(rows: Sequence[FrontRow]) -> tuple[FrontRow, ...]:
    first, *others = rows
    others.sort(key=lambda row: (row.error, row.comparison.ratio if row.comparison else 2.0))
    return first, *others


def layer_rows(layers: Sensitivity, winner: QuantizedModel | None) -> list[LayerRow]:
    """Return rows in graph order: one for each measured set of layers, and one for each slow layer left unquantized."""
    # Layers that the winner keeps are shown only if these layers are of the winner's method.
    mine = winner is not None and _is_of(winner, layers)
    kept = winner.kept if winner is not None and mine else frozenset[str]()
    finite = [question.error for question in layers.questions if math.isfinite(question.error)]
    # Errors of layers add like independent noise, so shares are of the sum of their squares.
    total, whole_ns = sum(error**2 for error in finite), sum(layers.times_ns)
    times = dict(zip((group.name for group in layers.groups), layers.times_ns, strict=False))
    operators = {group.name: group.op_type for group in layers.groups}
    rows = []
    for question in layers.questions:
        n_kept, time_ns = (
            len(kept & set(question.names)),
            sum(times.get(name, 0.0) for name in question.names),
        )
        reason: KeptReason = ""
        if n_kept:
            reason = "no-gain" if question.saved_ns <= 0 else "error"
        own_error = question.error if layers.asked and math.isfinite(question.error) else None
        error = own_error if question.measured else None
        rows.append(
            LayerRow(
                name=question.names[0],
                op_type=operators[question.names[0]],
                members=question.names,
                error=error,
                expected_error=None if question.measured else own_error,
                error_ratio=error**2 / total if error is not None and total else None,
                time_ns=time_ns if whole_ns else None,
                time_ratio=time_ns / whole_ns if whole_ns else None,
                saved_ns=question.saved_ns if whole_ns else None,
                n_kept=n_kept,
                reason=reason,
            )
        )
    decided = {name for question in layers.questions for name in question.names}
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
