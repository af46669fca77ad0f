"""Discovers the other execution providers of a browser, and runs the model once on each."""

from __future__ import annotations

from collections.abc import Sequence

from ortune import monotonic, targets
from ortune.durations import in_words
from ortune.measuring import output_check
from ortune.measuring.measuring import Measuring
from ortune.records import BrowserPlace, Failed, Plan


def places(baseline: Measuring, most_s: float, *, races: bool) -> tuple[BrowserPlace, ...]:
    """Return the state of every browser target, the baseline's target first.

    Discovery always runs; the model runs on each target as long as there is time.

    Args:
        baseline: The timed baseline, which runs in the browser.
        most_s: Seconds for all other targets together.
        races: Whether plans are raced on the targets that run the model.
    """
    here, until_s = targets.target_of(baseline.side.plan).name, monotonic.now_s() + most_s
    others = [_place(baseline, name, until_s, races=races) for name in targets.in_browsers() if name != here]
    baseline.limits.expect(baseline.pilot.trial_ns)
    return (BrowserPlace(target=here, state="raced" if races else "timed"), *others)


def raced(places: Sequence[BrowserPlace]) -> tuple[str, ...]:
    """Return the names of the targets, other than the baseline's, on which plans are raced."""
    return tuple(place.target for place in places[1:] if place.state == "raced")


def _place(baseline: Measuring, name: str, until_s: float, *, races: bool) -> BrowserPlace:
    target = targets.find(name)
    report = target.discover(baseline.side.runtime, baseline.machine.browser)
    if not report.usable:
        return BrowserPlace(target=name, state="absent", why=report.why)
    left_s = until_s - monotonic.now_s()
    if left_s < 1e-9 * baseline.pilot.start_ns:
        return BrowserPlace(target=name, state="not-tried")
    arm = baseline.arm(name, plan=Plan(providers=target.providers))
    baseline.limits.set(left_s)
    outcome = baseline.executor.untimed(arm)
    if isinstance(outcome, Failed) and outcome.reason == "timeout":
        return BrowserPlace(target=name, state="not-tried", why=f"no result in {in_words(left_s)}")
    if isinstance(outcome, Failed):
        line = (outcome.what.strip().splitlines() or ["no message"])[0]
        return BrowserPlace(target=name, state="failed", why=f"{outcome.reason}: {line[:240]}")
    page, outputs = outcome.done.page, output_check.difference(baseline, outcome, again=arm)
    assert page is not None
    joins = races and target.provider.ships and outputs.ok
    return BrowserPlace(
        target=name,
        state="functional-only" if page.software else "raced" if joins else "ran",
        adapter=page.adapter,
        placement=outcome.done.placement,
        outputs=outputs,
    )
