"""Selection of the process or page of a soak, by the target of its plan."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.catalogue.named import WEB_PROXY
from ortune.records import Failed
from ortune.targets.machine import Machine
from ortune.targets.requests import CannotApply, applied
from ortune.targets.soaking import Soaking, SoakTask


def prepared(wanted: SoakTask, machine: Machine, group: Sequence[Soaking]) -> Soaking | Failed:
    """Return the process or page of a soak before its start; Failed if its settings cannot be applied here."""
    plan = wanted.task.plan
    try:
        settings = applied(plan, wanted.task.runtime)
    except CannotApply as error:
        return Failed(plan=plan.id, reason=error.reason, what=str(error), phase="preparing")
    if not plan.is_web:
        return Soaking(wanted, settings, machine, group)
    from ortune.targets.browser.soaking_page import (
        SoakingPage,  # imported here, since only browsers need an HTTP server
    )

    if any(setting.knob == WEB_PROXY.name and setting.value for setting in settings):
        what = f"with {WEB_PROXY.name}, the memory is in a worker, where it is not counted"
        return Failed(plan=plan.id, reason="unsupported", what=what, phase="preparing")
    return SoakingPage(wanted, settings, machine, group)
