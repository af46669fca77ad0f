"""From a plan to what a worker is sent: settings through their channels, and the process's environment."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from ortune import knobs, platform
from ortune.fleet.environment import clean_environment
from ortune.records import Applied, FailureReason, Plan, Runtime

PRELOAD_VARIABLE = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"


class CannotApply(Exception):
    """A plan that cannot be tried with this runtime on this machine; becomes a ``Failed`` outcome."""

    def __init__(self, reason: FailureReason, what: str) -> None:
        super().__init__(what)
        self.reason: FailureReason = reason


def applied(plan: Plan, runtime: Runtime) -> tuple[Applied, ...]:
    """Every setting of the plan as data for the worker. Raises CannotApply."""
    return tuple(_one(name, value, runtime) for name, value in sorted(plan.settings.items()))


def _one(name: str, value: bool | int | float | str, runtime: Runtime) -> Applied:
    knob = knobs.find(name)
    if version(runtime.ort_version) < version(knob.since):
        raise CannotApply(
            "unsupported", f"{name} needs onnxruntime {knob.since}; this is {runtime.ort_version}"
        )
    if knob.channel == "preload":
        library = _allocator(str(value))
        if library is None:
            raise CannotApply("unsupported", f"no {value} library here: {platform.INSTALL_HINTS[str(value)]}")
        value = str(library)
    elif knob.channel == "session_config" and isinstance(value, bool):
        value = int(value)
    value = dict(knob.spelled).get(str(value), value)
    return Applied(knob=name, channel=knob.channel, key=knob.key, value=value, probe=knob.probe)


def environment(settings: tuple[Applied, ...]) -> dict[str, str]:
    """The worker's whole environment: the scrubbed one of this process plus the plan's own variables."""
    extra = {item.key: str(item.value) for item in settings if item.channel == "env"}
    preloads = [str(item.value) for item in settings if item.channel == "preload"]
    if preloads:
        extra[PRELOAD_VARIABLE] = ":".join(preloads)
    return clean_environment(extra)


@functools.cache
def _allocator(name: str) -> Path | None:
    return platform.allocator_library(name)


def version(text: str) -> tuple[int, ...]:
    """A version for comparing: "1.31.1" -> (1, 31, 1); an unreadable part ends it."""
    parts = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)
