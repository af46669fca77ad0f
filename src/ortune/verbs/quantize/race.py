"""Which of the models in fewer bits are raced, and which of those are confirmed: as ``tune`` confirms its plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ortune.engines.racing.confirming import confirm_winner
from ortune.engines.racing.entering import enter
from ortune.engines.racing.tuning import Tuning
from ortune.records import Plan
from ortune.search.halving import Entry
from ortune.search.precision import ALIKE, Interval, front, to_ship
from ortune.search.proposals.plans import PlanProposal
from ortune.search.reasons import Reason
from ortune.show import finding_words
from ortune.verbs.quantize import words as quantize_words
from ortune.verbs.quantize.held_out import HeldOut
from ortune.verbs.quantize.precision import Model

MOST_RACED = 6
MOST_RIGHT = 3
"""Of them, the fastest that keep the tolerance, before the rest of the front."""
MOST_WHOLE = 2
"""Models without a layer in float, which come first: their times were observed, those of all others are predicted."""
MOST_ELSEWHERE = 3
"""Models on other execution providers that are raced besides; those of the side's own runtime are then one more."""
RACE_BLOCKS = 4
"""Of each model, those of the calibration among them: which points of the front are worth fresh blocks."""
USUAL = 0.95
"""How likely a model in fewer bits is to pay: it was seen to run, and how long it takes."""


def race(
    run: Tuning, models: Sequence[Model], held_out: HeldOut, ships: Callable[[Plan], bool]
) -> dict[str, Model]:
    """Race the candidates against float; then confirm the winner, and with it the other models of the front.

    Args:
        run: Before its race.
        models: All that were made.
        held_out: Compares the models that may be the answer once more.
        ships: Whether a plan may be the answer. The best of the others is confirmed too.

    Returns:
        What was raced, by plan: a model that may be the answer with its outputs on all held-out inputs.
    """
    wanted = contestants(models)
    by_arm = {model.plan.id: model for model in wanted}
    if not wanted or not run.baseline.check.claims:
        run.refuse(quantize_words.NOTHING_TO_RACE if not wanted else finding_words.NO_CLAIMS)
        return by_arm
    proposed = [PlanProposal(plan=model.plan, origin="fewer bits", prior=USUAL) for model in wanted]
    if not enter(run, proposed, (), required=Plan()):
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
    # Where nothing keeps the tolerance, the front is confirmed all the same: it tells what another tolerance brings.
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


def _right(ranked: Sequence[Entry], by_arm: dict[str, Model], held_out: HeldOut) -> list[Entry]:
    """Return what keeps the tolerance; the first of them on all held-out inputs, if there is time for that."""
    for entry in ranked:
        if is_right(by_arm[entry.arm]):
            _look_at(entry, by_arm, held_out)
            if is_right(by_arm[entry.arm]):
                break
    return [entry for entry in ranked if is_right(by_arm[entry.arm])]


def _look_at(entry: Entry, by_arm: dict[str, Model], held_out: HeldOut) -> None:
    model = by_arm[entry.arm] = held_out.looked_at(by_arm[entry.arm])
    entry.outputs = model.outputs


def contestants(models: Sequence[Model]) -> list[Model]:
    """Return what may be the answer: what keeps the tolerance, the fastest first; the front of error and time.

    Where there is room, what is nearly as fast is raced too: its time is a single observation.
    """
    elsewhere = _of_one_place([model for model in models if model.plan.providers])[:MOST_ELSEWHERE]
    most = MOST_RACED + 1 - len(elsewhere) if elsewhere else MOST_RACED
    return [*_of_one_place([model for model in models if not model.plan.providers])[:most], *elsewhere]


def _of_one_place(models: Sequence[Model]) -> list[Model]:
    timed = [m for m in models if m.time_ns is not None and m.outputs is not None and m.outputs.comparable]
    on_front = [timed[i] for i in front([(m.error, m.time_ns or 0.0) for m in timed])]
    right = sorted(
        (m for m in timed if m.outputs is not None and m.outputs.ok), key=lambda m: m.time_ns or 0.0
    )
    # A prediction adds up layers, and a border between int8 and float costs time of its own: every model of 53
    # convolutions with some in float was predicted to be faster than the whole one, and was slower.
    whole = [model for model in right if model.ratio is not None][:MOST_WHOLE]
    # Three that are right, as the fastest may not be confirmed; what is left of the six shows the trade.
    wanted = [*whole, *right[:MOST_RIGHT], *on_front]
    near = [m for m in right if (m.time_ns or 0.0) <= ALIKE * (right[0].time_ns or 0.0)]
    return list({m.plan.id: m for m in (*wanted, *near)}.values())


def is_right(model: Model | None) -> bool:
    """Return whether a model runs, its outputs keep the tolerance, and they are more than nearly nothing."""
    outputs = model.outputs if model is not None else None
    return outputs is not None and outputs.ok and not outputs.unjudged


def _on_front(ranked: Sequence[Entry], by_arm: Mapping[str, Model]) -> list[Entry]:
    """Return what the race saw on the front of error and time, the fastest first; float is a point of it too."""
    points = [(by_arm[entry.arm].error, entry.middle) for entry in ranked]
    # The float model has no error and a log ratio of 0: what is slower than that is on no front.
    best = set(front([(0.0, 0.0), *points]))
    return [entry for place, entry in enumerate(ranked, 1) if place in best]


def _choose_confirmed(
    run: Tuning, by_arm: dict[str, Model], held_out: HeldOut, ships: Callable[[Plan], bool]
) -> None:
    """Choose among the right models that are confirmed to be faster the one to ship, whichever the race had first.

    If none is confirmed, the winner of the race stays. A model that was compared on all held-out inputs takes
    precedence over one for which there is no time for that.
    """
    search = run.search
    if search.winner is None or not search.confirmation:
        return
    faster: list[tuple[Entry, Interval]] = []
    for entry in (search.winner, *search.others):
        may_ship = ships(entry.plan) and is_right(by_arm[entry.arm])
        comparison = search.comparison(entry.arm) if may_ship else None
        if comparison is not None and comparison.verdict == "faster":
            error = by_arm[entry.arm].error
            # A bound that is missing or beyond 1 tells no more of a faster model than 1 does.
            faster.append(
                (
                    entry,
                    Interval(
                        error=error,
                        low=comparison.ratio_low,
                        at=comparison.ratio,
                        high=comparison.ratio_high or 1.0,
                    ),
                )
            )
    while faster:
        best = faster[to_ship([interval for _, interval in faster])][0]
        _look_at(best, by_arm, held_out)
        if not is_right(by_arm[best.arm]):
            faster = [pair for pair in faster if pair[0] is not best]
            continue
        final = [pair for pair in faster if held_out.has_seen(pair[0].plan)]
        if not final or held_out.has_seen(best.plan):
            _ship(run, best)
            return
        faster = final


def _ship(run: Tuning, best: Entry) -> None:
    search = run.search
    if search.winner is not None and best is not search.winner:
        # Repeated one process at a time, and started, was the model that the race had first.
        others = [search.winner, *(entry for entry in search.others if entry is not best)]
        search.winner, search.others, search.alone, search.starts = best, others, [], []
