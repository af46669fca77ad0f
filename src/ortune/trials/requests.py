"""From a plan to what a worker is sent: settings through their channels, and the process's environment."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from ortune import knobs, platform
from ortune.fleet.environment import clean_environment
from ortune.records import Applied, FailureReason, Plan, Runtime, Value

PRELOAD_VARIABLE = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"


class CannotApply(Exception):
    """A plan that cannot be tried with this runtime on this machine; becomes a ``Failed`` outcome."""

    def __init__(self, reason: FailureReason, what: str) -> None:
        super().__init__(what)
        self.reason: FailureReason = reason


def applied(plan: Plan, runtime: Runtime) -> tuple[Applied, ...]:
    """Every setting of the plan as data for the worker. Raises CannotApply."""
    return tuple(_one(name, value, plan, runtime) for name, value in sorted(plan.settings.items()))


def _one(name: str, value: Value, plan: Plan, runtime: Runtime) -> Applied:
    knob = knobs.find(name)
    too_old = knobs.too_old(knob, runtime.ort_version)
    if too_old:
        raise CannotApply("unsupported", too_old)
    if knob.system not in ("", sys.platform):
        raise CannotApply("unsupported", f"{name} needs {knob.system.capitalize()}; this is {sys.platform}")
    if knob.provider and knob.provider not in plan.provider_names:
        raise CannotApply(
            "unsupported", f"{name} is a setting of {knob.provider}, which the plan does not have"
        )
    if knob.channel == "preload":
        library = _allocator(str(value))
        if library is None:
            raise CannotApply("unsupported", f"no {value} library here: {platform.INSTALL_HINTS[str(value)]}")
        value = str(library)
    return knob.applied(value)


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
