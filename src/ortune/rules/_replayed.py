"""Code shared by rules on changes that a replay measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ortune.printable import amount
from ortune.records import Finding, Frame, RecordedCalls, ReplayedGain, ReplayedKind
from ortune.rules._recordings import frames_of, place, stack
from ortune.rules.facts import Facts


def of_sessions(facts: Facts, kind: ReplayedKind, code: str, what: str) -> Iterator[Finding]:
    """Yield findings on a session setting, for the gains that a replay confirmed.

    Args:
        facts: Facts with the recording and the gains.
        kind: The kind of gain.
        code: Code of the rule.
        what: The cause of the cost, as the beginning of a sentence.
    """
    recording, gains = facts.recording, [gain for gain in facts.gains if gain.kind == kind]
    if recording is None or not gains:
        return
    worst = max(recording.sessions, key=lambda session: sum(calls.total_ns for calls in session.calls))
    frames = frames_of(recording, worst)
    for gain in gains:
        yield _finding(gain, code, what, frames, f"set {gain.change}")


def of_calls(
    facts: Facts, kind: ReplayedKind, code: str, what: str, fix: str, weight: Callable[[RecordedCalls], int]
) -> Iterator[Finding]:
    """Yield findings on the form of calls, for the gains that a replay confirmed.

    Args:
        facts: Facts with the recording and the gains.
        kind: The kind of gain.
        code: Code of the rule.
        what: The cause of the cost, as the beginning of a sentence.
        fix: The fix, as an imperative.
        weight: Returns how much calls contribute; the place with the most is named.
    """
    recording, gains = facts.recording, [gain for gain in facts.gains if gain.kind == kind]
    calls = [calls for session in recording.sessions for calls in session.calls] if recording else []
    if recording is None or not calls:
        return
    worst = max(calls, key=weight)
    frames = recording.places[worst.place] if worst.place >= 0 else ()
    for gain in gains:
        yield _finding(gain, code, what, frames, fix)


def _finding(gain: ReplayedGain, code: str, what: str, frames: Sequence[Frame], fix: str) -> Finding:
    return Finding(
        code=code,
        what=f"{what} ({place(frames)}): {_saved(gain)}",
        where=stack(frames),
        evidence=_evidence(gain),
        fix=fix,
    )


def _saved(gain: ReplayedGain) -> str:
    (cpu, _, cpu_high), (wall, _, wall_high) = gain.cpu, gain.wall
    parts = [f"{100 * (1 - cpu):.0f} % of CPU time"] if cpu_high < 1 else []
    parts += [f"{100 * (1 - wall):.0f} % of time in ONNX Runtime"] if wall_high < 1 else []
    others = f" with {', '.join(gain.others)}" if gain.others else ""
    return f"in a replay, the fix{others} saves {' and '.join(parts)}"


def _evidence(gain: ReplayedGain) -> str:
    (cpu, *cpu_ends), (wall, *wall_ends) = gain.cpu, gain.wall
    return (
        f"CPU time x{cpu:.2f} ({cpu_ends[0]:.2f} to {cpu_ends[1]:.2f}), time in ONNX Runtime x{wall:.2f} "
        f"({wall_ends[0]:.2f} to {wall_ends[1]:.2f}), {amount(gain.n_blocks, 'block')}"
    )
