"""A plan's settings as a bundle stores them: with their channels, and thread counts that fit any machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ortune import knobs
from ortune.knobs import Knob
from ortune.knobs.cpu.transparent_huge_pages import KNOB as HUGE_PAGES
from ortune.records import Applied, Plan, Value

_THREADS = re.compile(r"min\((\d+), ?cpus\)")


def portable(plan: Plan) -> Plan:
    """The plan with every thread count as ``min(n, cpus)``: n, where there are fewer CPUs at most one for each."""
    settings = {name: _stored(knobs.find(name), value) for name, value in plan.settings.items()}
    return msgspec.structs.replace(plan, settings=settings)


def resolve(plan: Plan) -> tuple[Applied, ...]:
    """Every setting with its channel and key, and the value as the channel wants it, in the order of names."""
    return tuple(knobs.find(name).applied(value) for name, value in sorted(plan.settings.items()))


def providers(plan: Plan, applied: Sequence[Applied]) -> list[tuple[str, dict[str, str]]]:
    """The plan's execution providers, each with its options and those among the settings that are its own."""
    found: dict[str, dict[str, str]] = {name: {} for name in plan.provider_names}
    for spec in plan.providers:
        found[spec.name].update(spec.options)
    for setting in applied:
        if setting.channel == "provider_option" and setting.provider in found:
            found[setting.provider][setting.key] = as_text(setting.value)
    return list(found.items())


def threads(value: Value) -> int | None:
    """The 4 of ``min(4, cpus)``; None for any other value."""
    found = _THREADS.fullmatch(value) if isinstance(value, str) else None
    return int(found.group(1)) if found else None


def is_bound(setting: Applied) -> bool:
    """Whether it names CPUs by number, which means nothing on another machine."""
    return knobs.find(setting.knob).cpu_numbers


def needs_allocator(setting: Applied, applied: Sequence[Applied]) -> bool:
    """Whether a setting is right only with the allocator that the plan preloads."""
    text = f"{setting.knob}={as_text(setting.value)}"
    preloaded = (knobs.find(other.knob) for other in applied if other.channel == "preload")
    return any(text == one.setting for knob in preloaded for one in knob.together)


def no_huge_pages(applied: Sequence[Applied]) -> bool:
    """Whether the process is to do without transparent huge pages, which it can say at any time."""
    return any((s.key, s.value) == (HUGE_PAGES.key, "never") for s in applied)


def as_text(value: Value) -> str:
    """A value as ONNX Runtime's string options want it."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _stored(knob: Knob, value: Value) -> Value:
    # 0 is ONNX Runtime's own choice, not a count.
    return f"min({value}, cpus)" if knob.threads and isinstance(value, int) and value > 0 else value
