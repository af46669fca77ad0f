"""ORT_LOAD_CONFIG_FROM_MODEL is set, so every session ignores the settings that the program passes.

What it is: the environment variable ORT_LOAD_CONFIG_FROM_MODEL=1 in a process that creates sessions.
Why it costs: ONNX Runtime then discards all settings of every session of the process, also for models that contain
    none of their own: number of threads, memory arena, optimisation level, spinning.
Evidence: the variable, and the settings that the program passed, as recorded.
Fix and its safety: advice: unset the variable, and set what the model needs in the program.
Example: ``ORT_LOAD_CONFIG_FROM_MODEL=1 python app.py``
References: ONNX Runtime source, "inference_session_utils".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.printable import amount
from ortune.records import Finding
from ortune.rules._recordings import frames_of, stack
from ortune.rules.facts import Facts

CODE = "APP005"
_VARIABLE = "ORT_LOAD_CONFIG_FROM_MODEL"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if sessions of a recording took their settings from the model by an environment variable."""
    recording = facts.recording
    if recording is None:
        return
    sessions = [
        session for session in recording.sessions if session.config_from_model and not session.inherited
    ]
    if not sessions:
        return
    asked = [session for session in sessions if session.options is not None]
    many = amount(len(sessions), "session")
    yield Finding(
        code=CODE,
        what=f"{_VARIABLE}=1 discards all settings of {many}",
        where=stack(frames_of(recording, sessions[0])),
        evidence=f"the program passed settings for {len(asked)} of them",
        fix=f"unset {_VARIABLE}",
    )
