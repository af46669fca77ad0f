"""Experiments that find causes of rising memory in a recorded application, each with one change to a process."""

from __future__ import annotations

from dataclasses import replace

from ortune.catalogue import named
from ortune.inputs.played import Script
from ortune.measuring.application import RECORDED, Application, Variant
from ortune.measuring.application_soak import PlayedArm
from ortune.measuring.recorded_settings import settings_of
from ortune.measuring.soak_experiments import allocator_of, settings_for
from ortune.records import Plan, SoakChange

CHANNELS = ("session_option", "session_config", "run_config")
"""Channels of the settings that apply to a replayed session."""

Change = tuple[PlayedArm, SoakChange, Plan | None]


def arms(application: Application, as_is: PlayedArm, largest: int) -> list[Change]:
    """Return an arm for an unchanged process, and an arm for each change that applies to the process.

    Args:
        application: The application.
        as_is: The unchanged process.
        largest: Index of the inputs that added the most memory.
    """
    found: list[Change] = []

    def add(change: SoakChange, arm: PlayedArm, delta: Plan | None = None) -> None:
        found.append((arm.renamed(f"experiment-{change}"), change, delta))

    script = as_is.script
    add("as-is", as_is)
    add("same-values", replace(as_is, fresh=False))
    if len({step.feed for step in script.steps if step.do == "call"}) > 1:
        add("one-size", replace(as_is, script=_with_calls_of(script, largest)))
    if any(step.do == "close" for step in script.steps):
        add("kept-sessions", replace(as_is, script=_without_closing(script)))
    add("trim", replace(as_is, trim=True))
    recorded = [settings_of(application.recording.sessions[index]) for index in script.sessions]
    machine = application.opened.machine
    for change, knob, value in settings_for(machine):
        if knob.channel not in CHANNELS:
            continue
        if any(name in own for own in recorded for name in knob.conflicts):
            continue
        if not all(own.get(knob.name) == value for own in recorded):
            settings = {knob.name: value}
            arm = replace(as_is, variant=Variant(name=RECORDED, settings=settings))
            add(change, arm, Plan(settings=settings))
    allocator = allocator_of(machine)
    if allocator is not None:
        knob = named.ALLOCATOR
        preload = (knob.applied(str(machine.allocators[allocator])),)
        add("allocator", replace(as_is, variables=preload), Plan(settings={knob.name: allocator}))
    return found


def _with_calls_of(script: Script, feed: int) -> Script:
    """Return a script in which all calls have one input size.

    Args:
        script: The steps of a process.
        feed: Index of the inputs with this size.
    """
    same = tuple(step for step in script.steps if step.do != "call" or step.feed == feed)
    return replace(script, steps=same)


def _without_closing(script: Script) -> Script:
    """Return a script that never closes a session, so that sessions are created once for all rounds."""
    return replace(script, steps=tuple(step for step in script.steps if step.do != "close"))
