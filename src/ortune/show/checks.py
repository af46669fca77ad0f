"""Limits of a claim: the controls and guards that failed or could not be judged."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ortune.records import Comparison, Control, Finding, Guard
from ortune.show import finding_words
from ortune.show.document import Line
from ortune.show.numbers import change, percent, span

GUARD_NAMES = {"mean": "mean", "p95": "p95", "memory": "peak memory", "cpu": "CPU time per run"}


def checks(
    controls: Sequence[Control],
    comparison: Comparison | None,
    findings: Sequence[Finding],
    *more: str,
    allowed: Collection[str] = (),
) -> list[Line]:
    """Return a line with "checks: passed" or the problems, followed by a line for each finding about the measurement.

    Args:
        controls: The A/A checks and the sensitivity check.
        comparison: The comparison with the guards; None if nothing was compared.
        findings: Findings; only the ones about the measurement are used.
        more: Further limits of the claim; "" is ignored.
        allowed: Names of guards that may get worse.
    """
    missing = "controls not run" if comparison is not None and not controls else ""
    limits = [
        text
        for text in (missing, *map(control_problem, controls), *_guards(comparison, allowed), *more)
        if text
    ]
    lines = []
    if limits:
        lines = [Line(f"checks: {'; '.join(limits)}", "look")]
    elif controls:
        lines = [Line("checks: passed", "faint")]
    about = [f.sentence() for f in findings if finding_words.about_measurement(f)]
    return [*lines, *(Line(text, "look") for text in about)]


def control_problem(control: Control) -> str:
    """Return a phrase for a control that failed or an artificial slowdown that was not detected; "" if it passed."""
    if control.name == "spike-in":
        if not control.ok:
            return f"sensitivity check FAILED: an artificial {change(control.expected_ratio or 1)} slowdown was missed"
        if control.detected is False and control.expected_ratio:
            slowdown = f"an artificial {percent(control.expected_ratio - 1)} slowdown"
            n = control.n_blocks
            text = f"{slowdown} was too small to detect in {n} blocks (sensitivity check)"
            return f"{text}; real changes that small may be missed"
        return ""
    return (
        ""
        if control.ok
        else f"the A/A check FAILED{' over the whole run' if control.name != 'identical' else ''}"
    )


def _guards(comparison: Comparison | None, allowed: Collection[str]) -> list[str]:
    """Return a phrase for each guard that is worse than allowed or undecided; unknown guards are left out.

    Empty if the verdict is "slower", because other metrics get worse with the time.
    """
    if comparison is not None and comparison.verdict == "slower":
        return []
    return [
        _guard(g)
        for g in (comparison.guards if comparison else ())
        if g.figure not in allowed and guard_state(g) in ("WORSE than allowed", "undecided")
    ]


def _guard(item: Guard) -> str:
    interval = f" ({span(item.ratio_low, item.ratio_high)})" if item.ratio_low is not None else ""
    said, limit = f"{GUARD_NAMES[item.figure]} {change(item.ratio or 1)}{interval}", change(item.limit_ratio)
    if guard_state(item) == "undecided":
        return f"{said} is undecided: more than the limit of {limit} is possible"
    return f"{said} is WORSE than allowed (limit {limit})"


def guard_state(item: Guard) -> str:
    """Return one of "better", "no worse", "worse, within the limit", "WORSE than allowed", "undecided", "not known"."""
    if not item.known or item.ratio is None:
        return "not known"
    if item.failed:
        return "WORSE than allowed"
    if item.ratio_high is None or item.ratio_high > item.limit_ratio:
        return "undecided"
    if item.ratio_low is not None and item.ratio_high < 1:
        return "better"
    return "worse, within the limit" if (item.ratio_low or 0) > 1 else "no worse"


def control_words(controls: Sequence[Control]) -> list[str]:
    """Return a phrase for each control, with its result and its p-value or measured slowdown."""
    parts = []
    for control in controls:
        if control.name == "spike-in" and control.expected_ratio and control.ratio is not None:
            interval = f" ({span(control.ratio_low or 0.0, control.ratio_high)})"
            note = "" if control.detected else f", undetected in its {control.n_blocks} blocks"
            missed = "" if control.ok else ", MISSED"
            measured = f"{change(control.ratio)}{interval}{note}{missed}"
            parts.append(
                f"sensitivity check: an artificial {change(control.expected_ratio)} slowdown measured as {measured}"
            )
        elif control.p is not None:
            late = " over the whole run" if control.name == "identical-late" else ""
            outcome = "passed" if control.ok else "FAILED"
            parts.append(f"A/A check {outcome}{late} (p = {control.p:.2g})")
    return parts


def noise_words(controls: Sequence[Control], n_dropped: int) -> str:
    """Return the results of the controls and the number of dropped blocks, as one sentence."""
    parts = control_words(controls)
    if n_dropped:
        parts.append("one block dropped" if n_dropped == 1 else f"{n_dropped} blocks dropped")
    return "; ".join(parts)


def guard(item: Guard, allowed: Collection[str] = ()) -> str:
    """Format a guard with its interval and state: "p95 -3.1 % (-5.0 % to -1.2 %) no worse".

    A guard that failed and is in ``allowed`` is "worse, but accepted".
    """
    name, state = GUARD_NAMES[item.figure], guard_state(item)
    if item.failed and item.figure in allowed:
        state = "worse, but accepted"
    if item.ratio is None or state == "not known":
        return f"{name} not known"
    interval = f" ({span(item.ratio_low, item.ratio_high)})" if item.ratio_low is not None else ""
    return f"{name} {change(item.ratio)}{interval} {state}"
