"""A plan's settings as a bundle stores them: with their channels, and thread counts that fit any machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ortune.bundle.shared import as_text, put_option, thread_cap
from ortune.catalogue import knobs
from ortune.catalogue.knobs import Knob
from ortune.catalogue.named import TRANSPARENT_HUGE_PAGES as _HUGE_PAGES
from ortune.catalogue.providers import CPU, find
from ortune.records import Applied, BundleInfo, Host, Plan, Value, assignment

HUGE_PAGES = _HUGE_PAGES.key
COMMANDS = {"affinity": "taskset -c", "nice": "nice -n"}
"""Settings of the process that a command before the program's own makes."""
_MARK = "<folder>"


def portable(plan: Plan) -> Plan:
    """The plan with every thread count as ``min(n, cpus)``: n, where there are fewer CPUs at most one for each."""
    settings = {name: _stored(knobs.find(name), value) for name, value in plan.settings.items()}
    return msgspec.structs.replace(plan, settings=settings)


def resolve(plan: Plan) -> tuple[Applied, ...]:
    """Return every setting with its channel and key, and the value as the channel wants it, in the order of names."""
    return tuple(knobs.find(name).applied(value) for name, value in sorted(plan.settings.items()))


def measured(applied: Iterable[Applied]) -> tuple[Applied, ...]:
    """The settings with the thread counts that were measured: numbers in place of ``min(n, cpus)``."""
    counts = [(s, thread_cap(s.value)) for s in applied]
    return tuple(s if n is None else msgspec.structs.replace(s, value=n) for s, n in counts)


def of(applied: Iterable[Applied], channel: str) -> list[Applied]:
    """Return the settings of a channel."""
    return [s for s in applied if s.channel == channel]


def arena(applied: Iterable[Applied]) -> dict[str, int]:
    """Return options of the arena that all sessions of a process share, empty if the plan has none."""
    return {s.key: int(s.value) for s in of(applied, "env_allocator")}


def providers(
    plan: Plan, applied: Iterable[Applied], *, keeps_buffers: bool = True
) -> list[tuple[str, dict[str, str]]]:
    """Return the plan's execution providers, each with its options and those among the settings that are its own.

    Without buffers that keep their addresses on the device, runs that replay a captured graph would give old results:
    then nothing is captured.
    """
    options_of: dict[str, dict[str, str]] = {name: {} for name in plan.provider_names}
    for spec in plan.providers:
        options_of[spec.name].update(spec.options)
    for setting in of(applied, "provider_option"):
        if setting.provider in options_of:
            put_option(options_of[setting.provider], setting.key, as_text(setting.value))
    if not keeps_buffers:
        for name, options in options_of.items():
            if options.get(find(name).graph_option) == "1":
                del options[find(name).graph_option]
    return list(options_of.items())


def caches(plan: Plan, applied: Iterable[Applied]) -> dict[str, str]:
    """Return the option that holds the folder of compiled models, by execution provider; empty if none stores any.

    The parts of a key lead into the JSON text that such an option is.
    """
    own = of(applied, "provider_option")
    return {
        s.provider: s.key for s in own if knobs.find(s.knob).is_cache and s.provider in plan.provider_names
    }


class Stored(NamedTuple):
    """Return the folder of compiled models, and the text before and after it in its option (JSON, or nothing)."""

    option: str
    before: str
    folder: str
    after: str


def stored_in(options: Mapping[str, str], key: str) -> Stored:
    """Where a provider's options have the folder of compiled models, by its key as ``caches`` gives it."""
    name, *way = key.split("/")
    if not way:
        return Stored(name, "", options[name], "")
    node = json.loads(options[name])
    for part in way:
        node = node[part]
    marked = dict(options)
    put_option(marked, key, _MARK)
    before, _, after = marked[name].partition(_MARK)
    return Stored(name, before, str(node), after)


def is_capture(setting: Applied) -> bool:
    """Return whether a session's entry replays captured runs, as DirectML's does; others' are provider options."""
    is_option = setting.channel == "session_config" and setting.key == find(setting.provider).graph_option
    return is_option and as_text(setting.value) == "1"


def tuned_on(host: Host | None) -> dict[str, Any]:
    """Return what ``machine.other_hardware`` compares, and the CPUs there were."""
    if host is None:
        return {}
    return {
        "machine": host.machine,
        "cpu": host.cpu,
        "features": list(host.features),
        "cpus": host.effective_cpus,
    }


def instructions(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the settings of a plan that need an instruction set, with those of which the processor needs one."""
    needed = {}
    for name, value in plan.settings.items():
        sets = knobs.find(name).instructions.get(str(value), ())
        if sets:
            needed[assignment(name, value)] = sets
    return needed


def preload(name: str) -> str:
    """Shell words that give the path of an allocator's library on Linux, whatever its version's ending."""
    return f"$(/sbin/ldconfig -p | grep -oE '/.*/lib{name}(_minimal)?[.]so.*' | head -n 1)"


def process_line(setting: Applied) -> str:
    """Return how to start the program with a setting of the process; "" if nothing need be done."""
    if setting.key in COMMANDS:
        return f"start it with: {COMMANDS[setting.key]} {as_text(setting.value)} PROGRAM"
    if as_text(setting.value) == "never":
        return "start it from a program that calls prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)"
    return ""


def is_bound(setting: Applied) -> bool:
    """Return whether a setting names CPUs by number, which means nothing on another machine."""
    return knobs.find(setting.knob).cpu_numbers


def needs_allocator(setting: Applied, applied: Sequence[Applied]) -> bool:
    """Return whether a setting is right only with the allocator that the plan preloads."""
    preloaded = (knobs.find(other.knob) for other in of(applied, "preload"))
    return any(named(setting) == one.setting for knob in preloaded for one in knob.together)


def no_huge_pages(applied: Sequence[Applied]) -> bool:
    """Return whether the process is to do without transparent huge pages, which it can say at any time."""
    return any((s.key, s.value) == (HUGE_PAGES, "never") for s in applied)


def named(setting: Applied) -> str:
    """Return a setting in words: ``intra_op_num_threads=4``."""
    return assignment(setting.knob, setting.value)


def _stored(knob: Knob, value: Value) -> Value:
    # 0 is ONNX Runtime's own choice, not a count; a provider's option is a plain text in every language.
    count = knob.threads and knob.channel != "provider_option" and isinstance(value, int) and value > 0
    return f"min({value}, cpus)" if count else value


def is_default(info: BundleInfo, custom_ops: Sequence[str]) -> bool:
    """Return whether nothing has to be done but to open the model on the CPU."""
    needs = info.applied or custom_ops or info.requirements or info.hardware_bound or info.calibration
    return not needs and info.plan.provider_names == (CPU.name,)
