"""Partial measurements of an unfinished session, grouped by the configuration that was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ortune.records import Failed, Measured, Outcome, Plan
from ortune.search.blocks import IDENTICAL, LETTERS, SPIKE
from ortune.search.figures import describe
from ortune.search.halving import CURRENT
from ortune.store.db import Event
from ortune.verbs.report.result import SoFar

ARM_NAMES = {"compare": LETTERS}
"""Maps a verb to the names of its arms, which are shown in addition to the arms' plans."""


class _TrialEvent(msgspec.Struct):
    trial: str
    arm: str
    plan: Plan = Plan()


class _OutcomeEvent(msgspec.Struct):
    trial: str
    outcome: Outcome | None = None


class _BlockEvent(msgspec.Struct):
    order: list[str]
    case: str = ""


def so_far(verb: str, events: Sequence[Event]) -> tuple[SoFar, ...]:
    """Return the measurements of each configuration in complete blocks before the session ended, without controls.

    A plan alone does not identify a configuration: two models may run the same plan, and a bench runs one plan with
    several shapes.
    """
    arms = ARM_NAMES.get(verb, {CURRENT: "current"})
    contestants: dict[tuple[str, str, str], tuple[Plan, list[Outcome]]] = {}
    for case, trial, outcome in _in_blocks(events):
        if trial.arm not in (IDENTICAL, SPIKE):
            contestants.setdefault((case, trial.arm, trial.plan.id), (trial.plan, []))[1].append(outcome)
    return tuple(
        _described(case or arms.get(arm, ""), plan, outcomes)
        for (case, arm, _), (plan, outcomes) in contestants.items()
    )


def _in_blocks(events: Sequence[Event]) -> Iterator[tuple[str, _TrialEvent, Outcome]]:
    """Yield (shape of the block, or "" for all shapes; trial; outcome) for the trials of complete blocks.

    Trials before and between the blocks use different timing or inputs, so they are not part of the result.
    """
    begun: dict[str, _TrialEvent] = {}
    ended: list[tuple[_TrialEvent, Outcome]] = []
    for event in events:
        if event.kind == "trial":
            trial = msgspec.json.decode(event.body, type=_TrialEvent)
            begun[trial.trial] = trial
        elif event.kind == "outcome":
            outcome = msgspec.json.decode(event.body, type=_OutcomeEvent)
            if outcome.trial in begun and outcome.outcome is not None:
                ended.append((begun[outcome.trial], outcome.outcome))
        elif event.kind == "block":
            block = msgspec.json.decode(event.body, type=_BlockEvent)
            mine = ended[len(ended) - len(block.order) :]
            # A resumed session reports its earlier blocks again, without their trials.
            if [trial.arm for trial, _ in mine] == block.order:
                yield from ((block.case, trial, measured) for trial, measured in mine)
                ended = []


def _described(name: str, plan: Plan, outcomes: Sequence[Outcome]) -> SoFar:
    timed = [o for o in outcomes if isinstance(o, Measured) and o.done.n_runs]
    failed = sum(isinstance(o, Failed) for o in outcomes)
    return SoFar(name=name, plan=plan, figures=describe(timed, "median") if timed else None, n_failed=failed)
