"""A plan's settings as a bundle stores them: with their channels, and thread counts that fit any machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ortune import knobs
from ortune.records import Applied, Knob, Plan, Value

HUGE_PAGES = "transparent_huge_pages"
_THREADS = re.compile(r"min\((\d+), ?cpus\)")
_THREAD_KNOBS = re.compile(r"num_threads|thread_pool")


def portable(plan: Plan) -> Plan:
    """The plan with every thread count as ``min(n, cpus)``: n, where there are fewer CPUs at most one for each."""
    settings = {name: _stored(knobs.find(name), value) for name, value in plan.settings.items()}
    return msgspec.structs.replace(plan, settings=settings)


def resolve(plan: Plan) -> tuple[Applied, ...]:
    """Every setting with its channel and key, and the value as the channel wants it, in the order of names."""
    return tuple(_resolved(knobs.find(name), value) for name, value in sorted(plan.settings.items()))


def threads(value: Value) -> int | None:
    """The 4 of ``min(4, cpus)``; None for any other value."""
    found = _THREADS.fullmatch(value) if isinstance(value, str) else None
    return int(found.group(1)) if found else None


def is_bound(setting: Applied) -> bool:
    """Whether it names CPUs by number, which means nothing on another machine."""
    return "affinit" in setting.key


def needs_allocator(setting: Applied, applied: Sequence[Applied]) -> bool:
    """Whether a setting is right only with the allocator that the plan preloads.

    Without its arena ONNX Runtime is slower on the C library's malloc.
    """
    arena_off = setting.key == "enable_cpu_mem_arena" and not setting.value
    return arena_off and any(other.channel == "preload" for other in applied)


def no_huge_pages(applied: Sequence[Applied]) -> bool:
    """Whether the process is to do without transparent huge pages, which it can say at any time."""
    return any((s.key, s.value) == (HUGE_PAGES, "never") for s in applied)


def as_text(value: Value) -> str:
    """A value as ONNX Runtime's string options want it."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _stored(knob: Knob, value: Value) -> Value:
    counts = knob.kind == "int" and _THREAD_KNOBS.search(knob.name)
    # 0 is ONNX Runtime's own choice, not a count.
    return f"min({value}, cpus)" if counts and isinstance(value, int) and value > 0 else value


def _resolved(knob: Knob, value: Value) -> Applied:
    if isinstance(value, bool) and knob.channel != "session_option":
        value = int(value)
    value = dict(knob.spelled).get(str(value), value)
    return Applied(knob=knob.name, channel=knob.channel, key=knob.key, value=value, probe=knob.probe)
