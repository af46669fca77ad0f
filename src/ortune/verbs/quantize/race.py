"""Selects the quantized models to race and to confirm; the confirmation is shared with ``ortune tune``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ortune.engines.racing.confirming import confirm_winner
from ortune.engines.racing.entering import enter
from ortune.engines.racing.tuning import Tuning
from ortune.records import Plan
from ortune.search.blocks import BASE
from ortune.search.halving import Entry
from ortune.search.loss import justifies_loss
from ortune.search.phases import LEAST_LEFT_SHARE
from ortune.search.precision import ALIKE, ConfirmedSpeed, front, to_ship
from ortune.search.proposals.plans import PlanProposal
from ortune.search.reasons import Reason
from ortune.show import finding_words
from ortune.verbs.quantize import words as quantize_words
from ortune.verbs.quantize.held_out import HeldOut
from ortune.verbs.quantize.precision import QuantizedModel, is_right

MOST_RACED = 6
MOST_RIGHT = 3
"""Number of the fastest models within the tolerance that enter the race before other Pareto-optimal models."""
MOST_WHOLE = 2
"""Number of fully quantized models that enter first: their times were measured, other times are predicted."""
MOST_ELSEWHERE = 3
"""Maximum number of raced models on other providers. All but one of them reduce the places for CPU models."""
RACE_BLOCKS = 4
"""Race blocks of each model, including calibration, which decide the models that get fresh blocks."""
USUAL = 0.95
"""Prior probability that a quantized model is faster, which is high because the model was already timed once."""


def race(
    run: Tuning,
    models: Sequence[QuantizedModel],
    held_out: HeldOut,
    ships: Callable[[Plan], bool],
    *,
    final: bool = False,
) -> dict[str, QuantizedModel]:
    """Race the candidates against float, then confirm the winner and the other Pareto-optimal models.

    Args:
        run: The tuning, before its race.
        models: All models that were created.
        held_out: Compares possible winners on all held-out inputs.
        ships: Callback that returns whether a plan may win. The best of the other plans is confirmed too.
        final: Whether a larger budget creates no further model.

    Returns:
        The raced models, keyed by plan id; possible winners have the output difference on all held-out inputs.
    """
    wanted = most_promising_first(contestants(models), ships)
    by_arm = {model.plan.id: model for model in wanted}
    if not wanted or not run.baseline.check.claims:
        run.report_no_race(quantize_words.NOTHING_TO_RACE if not wanted else finding_words.NO_CLAIMS)
        return by_arm
    if final and not any(map(is_right, wanted)) and not run.spare_ns(1.0):
        run.report_no_race(quantize_words.NONE_WITHIN)
        return by_arm
    proposed = [PlanProposal(plan=model.plan, origin="fewer bits", prior=USUAL) for model in wanted]
    if not enter(run, proposed, (), required=Plan(), least_share=LEAST_LEFT_SHARE):
        return by_arm
    for entry in run.entries:
        entry.outputs = by_arm[entry.arm].outputs
    if not run.exploring:
        run.calibrate()
    if run.exploring:
        run.explore()
        return by_arm
    run.rank(RACE_BLOCKS)
    ranked = [entry for entry in run.search.race.live() if entry.ratios]
    right = _right([entry for entry in ranked if ships(entry.plan)], by_arm, held_out)
    elsewhere = _right([entry for entry in ranked if not ships(entry.plan)], by_arm, held_out)
    held_out.end()
    on_front = _on_front(ranked, by_arm)
    # The front is confirmed even if no model is within the tolerance: it shows the gain with another tolerance.
    shown = [*elsewhere[:1], *on_front]
    run.search.winner = next(
        iter([*right, *(entry for entry in on_front if ships(entry.plan)), *shown]), None
    )
    confirm_winner(run, shown)
    _choose_confirmed(run, by_arm, held_out, ships)
    best = run.search.winner
    if best is not None and not ships(best.plan):
        run.search.winner, run.search.others = None, [best, *run.search.others]
    elif best is not None and not right:
        outputs = by_arm[best.arm].outputs
        wrong = Reason(code="wrong-outputs", text=outputs.what if outputs is not None else "")
        best.eliminate("wrong-output", wrong)
    return by_arm


def _right(ranked: Sequence[Entry], by_arm: dict[str, QuantizedModel], held_out: HeldOut) -> list[Entry]:
    """Return the entries within the tolerance; the first was compared on all held-out inputs if time allowed."""
    for entry in ranked:
        if is_right(by_arm[entry.arm]):
            _look_at(entry, by_arm, held_out)
            if is_right(by_arm[entry.arm]):
                break
    return [entry for entry in ranked if is_right(by_arm[entry.arm])]


def _look_at(entry: Entry, by_arm: dict[str, QuantizedModel], held_out: HeldOut) -> None:
    model = by_arm[entry.arm] = held_out.compared_on_all(by_arm[entry.arm])
    entry.outputs = model.outputs


def contestants(models: Sequence[QuantizedModel]) -> list[QuantizedModel]:
    """Return the models to race: the fastest within the tolerance, then those Pareto-optimal in error and time.

    Models that are nearly as fast fill the remaining places, because times are single observations or predictions.
    """
    elsewhere = _of_one_place([model for model in models if model.plan.providers])[:MOST_ELSEWHERE]
    most = MOST_RACED + 1 - len(elsewhere) if elsewhere else MOST_RACED
    return [*_of_one_place([model for model in models if not model.plan.providers])[:most], *elsewhere]


def most_promising_first(
    models: Sequence[QuantizedModel], ships: Callable[[Plan], bool]
) -> list[QuantizedModel]:
    """Return the models with the most promising first, because a short budget compares the first alone.

    It is the fastest that was measured to be faster than float and may win, or if there is none, that may not win.
    """
    faster = [
        (not ships(model.plan), model.ratio or 1.0, place)
        for place, model in enumerate(models)
        if is_right(model) and (model.ratio or 1.0) < 1
    ]
    if not faster:
        return list(models)
    _, _, first = min(faster)
    return [models[first], *models[:first], *models[first + 1 :]]


def _of_one_place(models: Sequence[QuantizedModel]) -> list[QuantizedModel]:
    timed = [m for m in models if m.time_ns is not None and m.outputs is not None and m.outputs.comparable]
    on_front = [timed[i] for i in front([(m.error, m.time_ns or 0.0) for m in timed])]
    right = sorted(
        (m for m in timed if m.outputs is not None and m.outputs.ok), key=lambda m: m.time_ns or 0.0
    )
    # A prediction adds the times of layers and omits conversions between int8 and float: every model of 53
    # convolutions with some in float was predicted to be faster than the fully quantized one, and was slower.
    whole = [model for model in right if model.ratio is not None][:MOST_WHOLE]
    # Three within the tolerance, because the fastest may not be confirmed; the others show error against time.
    wanted = [*whole, *right[:MOST_RIGHT], *on_front]
    near = [m for m in right if (m.time_ns or 0.0) <= ALIKE * (right[0].time_ns or 0.0)]
    return list({m.plan.id: m for m in (*wanted, *near)}.values())


def _on_front(ranked: Sequence[Entry], by_arm: Mapping[str, QuantizedModel]) -> list[Entry]:
    """Return the entries that are Pareto-optimal in error and time, also against float, in the order of `ranked`."""
    points = [(by_arm[entry.arm].error, entry.median_log_ratio) for entry in ranked]
    # The float model has an error and a log ratio of 0, so models slower than float are never on the front.
    best = set(front([(0.0, 0.0), *points]))
    return [entry for place, entry in enumerate(ranked, 1) if place in best]


def _choose_confirmed(
    run: Tuning, by_arm: dict[str, QuantizedModel], held_out: HeldOut, ships: Callable[[Plan], bool]
) -> None:
    """Choose the winner among the models within the tolerance whose confirmed gain justifies their loss.

    If there is none, the winner of the race stays, and is refused. A model that was compared on all held-out inputs
    takes precedence over a model that there was no time to compare.
    """
    search = run.search
    if search.winner is None or not search.confirmation:
        return
    faster: list[tuple[Entry, ConfirmedSpeed]] = []
    for entry in (search.winner, *search.others):
        may_ship = ships(entry.plan) and is_right(by_arm[entry.arm])
        comparison = search.comparison(entry.arm) if may_ship else None
        if comparison is not None and comparison.verdict == "faster":
            error = by_arm[entry.arm].error
            # A faster model has a ratio below 1, so a missing upper bound is 1.
            faster.append(
                (
                    entry,
                    ConfirmedSpeed(
                        error=error,
                        low=comparison.ratio_low,
                        at=comparison.ratio,
                        high=comparison.ratio_high or 1.0,
                    ),
                )
            )
    # What loses nothing is no worse a choice than float: a loss must pay over the fastest of these.
    lossy = {entry.arm for entry, _ in faster if search.is_lossy(entry.plan, entry.outputs)}
    exact = [(speed.at, entry.arm) for entry, speed in faster if entry.arm not in lossy]
    _, base = min(exact, default=(1.0, BASE))
    faster = [
        (entry, speed)
        for entry, speed in faster
        if entry.arm not in lossy or justifies_loss(search.comparison(entry.arm, base))
    ]
    while faster:
        best = faster[to_ship([interval for _, interval in faster])][0]
        _look_at(best, by_arm, held_out)
        if not is_right(by_arm[best.arm]):
            faster = [pair for pair in faster if pair[0] is not best]
            continue
        final = [pair for pair in faster if held_out.is_compared_on_all(pair[0].plan)]
        if not final or held_out.is_compared_on_all(best.plan):
            _ship(run, best)
            return
        faster = final


def _ship(run: Tuning, best: Entry) -> None:
    search = run.search
    if search.winner is not None and best is not search.winner:
        # Single-process repetitions and cold starts were measured for the earlier winner only.
        others = [search.winner, *(entry for entry in search.others if entry is not best)]
        search.winner, search.others, search.alone, search.starts = best, others, [], []
