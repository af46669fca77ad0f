"""From a plan to what a worker is sent: settings through their channels, and the process's environment."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from ortune import knobs, platform
from ortune.fleet.environment import clean_environment
from ortune.records import Applied, FailureReason, Plan, Runtime

PRELOAD_VARIABLE = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"

_TEXT = ("session_config", "run_config", "provider_option", "env")
"""Channels that carry text, where on and off are written 1 and 0."""


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
    too_old = knobs.too_old(knob, runtime.ort_version)
    if too_old:
        raise CannotApply("unsupported", too_old)
    if knob.channel == "preload":
        library = _allocator(str(value))
        if library is None:
            raise CannotApply("unsupported", f"no {value} library here: {platform.INSTALL_HINTS[str(value)]}")
        value = str(library)
    elif knob.channel == "process" or knob.key == "GLIBC_TUNABLES":
        if sys.platform != "linux":
            raise CannotApply("unsupported", f"{name} needs Linux; this is {sys.platform}")
    elif knob.channel in _TEXT and isinstance(value, bool):
        value = int(value)
    value = dict(knob.spelled).get(str(value), value)
    return Applied(knob=name, channel=knob.channel, key=knob.key, value=value, probe=knob.probe)


def environment(settings: tuple[Applied, ...]) -> dict[str, str]:
    """The worker's whole environment: the scrubbed one of this process plus the plan's own variables."""
    extra = {item.key: str(item.value) for item in settings if item.channel == "env"}
    preloads = [str(item.value) for item in settings if item.channel == "preload"]
    if preloads:
        extra[PRELOAD_VARIABLE] = ":".join(preloads)
    found = clean_environment(extra)
    for name in {"PYTHONPATH", "LD_LIBRARY_PATH"} & found.keys():
        # Relative folders are the user's, and the worker has a working directory of its own.
        found[name] = os.pathsep.join(str(Path(part).absolute()) for part in found[name].split(os.pathsep))
    return found


@functools.cache
def _allocator(name: str) -> Path | None:
    return platform.allocator_library(name)
