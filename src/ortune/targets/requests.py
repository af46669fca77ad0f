"""Settings of a plan in the form of a request to the worker: one entry per setting, with its channel."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from ortune import platform, targets
from ortune.catalogue import knobs
from ortune.catalogue.computed.web_build import build_of, why_no_effect
from ortune.records import Applied, FailureReason, Plan, Runtime, Value
from ortune.targets import Target


class CannotApply(Exception):
    """A plan cannot be tried with this runtime on this machine; the trial becomes a ``Failed`` outcome."""

    def __init__(self, reason: FailureReason, what: str) -> None:
        super().__init__(what)
        self.reason: FailureReason = reason


def applied(plan: Plan, runtime: Runtime) -> tuple[Applied, ...]:
    """Return the settings of a plan for the worker, by name; raise CannotApply if a setting cannot be used here."""
    target = targets.target_of(plan)
    return tuple(
        _applied(name, value, plan, runtime, target) for name, value in sorted(plan.settings.items())
    )


def _applied(name: str, value: Value, plan: Plan, runtime: Runtime, target: Target) -> Applied:
    knob = knobs.find(name)
    if knob.channel not in target.channels:
        raise CannotApply("unsupported", f"{name} does not apply to the target {target.name}")
    too_old = knobs.why_too_old(knob, runtime.version_of(plan))
    if too_old:
        raise CannotApply("unsupported", too_old)
    if knob.system not in ("", sys.platform):
        raise CannotApply("unsupported", f"{name} needs {knob.system.capitalize()}; this is {sys.platform}")
    if knob.provider and knob.provider not in plan.provider_names:
        raise CannotApply(
            "unsupported", f"{name} is a setting of {knob.provider}, which the plan does not have"
        )
    idle = why_no_effect(knob, build_of(plan.settings, plan.provider_names[0]))
    if idle:
        raise CannotApply("unsupported", idle)
    if not knob.runs_on(str(value), plan.provider_names[0]):
        raise CannotApply("unsupported", f"{name}={value} does not support {plan.provider_names[0]}")
    if runtime.host is not None and (knob.channel == "preload" or knob.is_cache):
        raise CannotApply(
            "unsupported", f"{name} names a file, and the runtime cannot read files on this machine"
        )
    if knob.channel == "preload":
        library = _allocator(str(value))
        if library is None:
            raise CannotApply("unsupported", f"no {value} library here: {platform.INSTALL_HINTS[str(value)]}")
        value = str(library)
    return knob.applied(value)


@functools.cache
def _allocator(name: str) -> Path | None:
    return platform.allocator_library(name)
