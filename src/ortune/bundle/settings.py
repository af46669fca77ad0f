"""A plan's settings as stored in a bundle: with their channels, and thread counts for any machine."""

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
"""Commands that make a process setting, keyed by the setting; each precedes the command of the program."""
_MARK = "<folder>"


def portable(plan: Plan) -> Plan:
    """Return the plan with every thread count as ``min(n, cpus)``: n, or one per CPU if there are fewer."""
    settings = {name: _stored(knobs.find(name), value) for name, value in plan.settings.items()}
    return msgspec.structs.replace(plan, settings=settings)


def resolve(plan: Plan) -> tuple[Applied, ...]:
    """Return every setting with its channel, key and value in the form of the channel, sorted by name."""
    return tuple(knobs.find(name).applied(value) for name, value in sorted(plan.settings.items()))


def measured(applied: Iterable[Applied]) -> tuple[Applied, ...]:
    """Return the settings with the measured thread counts: numbers instead of ``min(n, cpus)``."""
    counts = [(s, thread_cap(s.value)) for s in applied]
    return tuple(s if n is None else msgspec.structs.replace(s, value=n) for s, n in counts)


def of_channel(applied: Iterable[Applied], channel: str) -> list[Applied]:
    """Return the settings of a channel."""
    return [s for s in applied if s.channel == channel]


def arena(applied: Iterable[Applied]) -> dict[str, int]:
    """Return the options of the arena that all sessions of a process share; empty if the plan has none."""
    return {s.key: int(s.value) for s in of_channel(applied, "env_allocator")}


def providers(
    plan: Plan, applied: Iterable[Applied], *, keeps_buffers: bool = True
) -> list[tuple[str, dict[str, str]]]:
    """Return the plan's execution providers, each with all its options, including those that settings define.

    If ``keeps_buffers`` is False, the option that captures a graph is omitted: without device buffers at fixed
    addresses, replayed runs would return old results.
    """
    options_of: dict[str, dict[str, str]] = {name: {} for name in plan.provider_names}
    for spec in plan.providers:
        options_of[spec.name].update(spec.options)
    for setting in of_channel(applied, "provider_option"):
        if setting.provider in options_of:
            put_option(options_of[setting.provider], setting.key, as_text(setting.value))
    if not keeps_buffers:
        for name, options in options_of.items():
            if options.get(find(name).graph_option) == "1":
                del options[find(name).graph_option]
    return list(options_of.items())


def caches(plan: Plan, applied: Iterable[Applied]) -> dict[str, str]:
    """Map each execution provider that stores compiled models to its option for their folder.

    A key with "/" is a path into the JSON text of an option.
    """
    own = of_channel(applied, "provider_option")
    return {
        s.provider: s.key for s in own if knobs.find(s.knob).is_cache and s.provider in plan.provider_names
    }


class CacheOption(NamedTuple):
    """The folder of compiled models, with the text before and after it in its option (JSON, or nothing)."""

    option: str
    before: str
    folder: str
    after: str


def cache_folder_in(options: Mapping[str, str], key: str) -> CacheOption:
    """Return the location of the folder of compiled models in a provider's options, by its key from ``caches``."""
    name, *way = key.split("/")
    if not way:
        return CacheOption(name, "", options[name], "")
    node = json.loads(options[name])
    for part in way:
        node = node[part]
    marked = dict(options)
    put_option(marked, key, _MARK)
    before, _, after = marked[name].partition(_MARK)
    return CacheOption(name, before, str(node), after)


def is_capture(setting: Applied) -> bool:
    """Return whether a setting is a session config entry that replays captured runs.

    DirectML has such an entry; other providers have a provider option for this.
    """
    is_option = setting.channel == "session_config" and setting.key == find(setting.provider).graph_option
    return is_option and as_text(setting.value) == "1"


def tuned_on(host: Host | None) -> dict[str, Any]:
    """Return the facts that ``machine.other_hardware`` compares, and the number of CPUs; empty if unknown."""
    if host is None:
        return {}
    return {
        "machine": host.machine,
        "cpu": host.cpu,
        "features": list(host.features),
        "cpus": host.effective_cpus,
    }


def needed_instructions(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Map the settings of a plan that need an instruction set to the sets of which the processor needs one."""
    needed = {}
    for name, value in plan.settings.items():
        sets = knobs.find(name).instructions.get(str(value), ())
        if sets:
            needed[assignment(name, value)] = sets
    return needed


def preload(name: str) -> str:
    """Return shell code for the path of an allocator's library on Linux, with any version suffix."""
    return f"$(/sbin/ldconfig -p | grep -oE '/.*/lib{name}(_minimal)?[.]so.*' | head -n 1)"


def process_line(setting: Applied) -> str:
    """Return an instruction for starting the program with a process setting; "" if nothing needs to be done."""
    if setting.key in COMMANDS:
        return f"start it with: {COMMANDS[setting.key]} {as_text(setting.value)} PROGRAM"
    if as_text(setting.value) == "never":
        return "start it from a program that calls prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)"
    return ""


def names_cpus(setting: Applied) -> bool:
    """Return whether a setting names CPUs by number, which has no meaning on another machine."""
    return knobs.find(setting.knob).cpu_numbers


def needs_allocator(setting: Applied, applied: Sequence[Applied]) -> bool:
    """Return whether a setting is valid only with the allocator that the plan preloads."""
    preloaded = (knobs.find(other.knob) for other in of_channel(applied, "preload"))
    return any(as_assignment(setting) == one.setting for knob in preloaded for one in knob.together)


def no_huge_pages(applied: Sequence[Applied]) -> bool:
    """Return whether the process should disable transparent huge pages, which it can do at any time."""
    return any((s.key, s.value) == (HUGE_PAGES, "never") for s in applied)


def as_assignment(setting: Applied) -> str:
    """Return a setting as "name=value", such as ``intra_op_num_threads=4``."""
    return assignment(setting.knob, setting.value)


def _stored(knob: Knob, value: Value) -> Value:
    # 0 is ONNX Runtime's default, not a count; a provider option is plain text in every language.
    count = knob.threads and knob.channel != "provider_option" and isinstance(value, int) and value > 0
    return f"min({value}, cpus)" if count else value


def is_default(info: BundleInfo, custom_ops: Sequence[str]) -> bool:
    """Return whether the model only has to be opened on the CPU, without any settings."""
    needs = info.applied or custom_ops or info.requirements or info.hardware_bound or info.calibration
    return not needs and info.plan.provider_names == (CPU.name,)
