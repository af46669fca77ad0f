"""Sessions could not be created.

What it is: creations of sessions that raised an error, also those that failed before a session existed, because an
    execution provider could not be added to the settings.
Why it costs: a program that then continues with other settings runs on another execution provider than it requests,
    and each failed attempt takes time.
Evidence: the number of failed creations, their errors and the requested execution providers, as recorded.
Fix and its safety: advice: install the package of ONNX Runtime that has the provider, or do not request it.
Example: ``executionProviders: ["cuda"]`` in a Node.js program whose package has no libraries of CUDA
References: ONNX Runtime documentation, "Execution Providers".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import CPU
from ortune.printable import amount
from ortune.records import Finding, RecordedSession
from ortune.rules._recordings import frames_of, model_name, place, stack
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "APP018"
_ENDS = ("KeyboardInterrupt", "SystemExit")
"""Errors that end the program and are no failure of the creation."""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each model and place of a recording with creations that failed with the same error."""
    recording = facts.recording
    if recording is None:
        return
    groups: dict[tuple[object, ...], list[RecordedSession]] = {}
    for session in recording.sessions:
        if session.error and session.error not in _ENDS:
            key = session.model, session.place, session.error, session.providers
            groups.setdefault(key, []).append(session)
    for sessions in groups.values():
        first, n = sessions[0], len(sessions)
        frames = frames_of(recording, first)
        devices = [name for name in first.providers or () if name != CPU.name]
        requested = f" with {listed(devices)}" if devices else ""
        lines = first.error_message.splitlines()
        yield Finding(
            code=CODE,
            severity="note",
            what=(
                f"{amount(n, 'session')} of {model_name(recording.models[first.model])}{requested} could not be "
                f"created ({place(frames)})"
            ),
            where=stack(frames),
            evidence=f"{first.error}: {lines[0]}" if lines else first.error,
            fix=(
                f"install a package of ONNX Runtime with {listed(devices)}, or do not request it"
                if devices
                else "create a session only where the model and its settings are valid"
            ),
        )
