"""Translates the recorded settings of sessions and processes, limited to settings that a replay may set."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ortune.catalogue import knobs
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.catalogue.providers import CPU
from ortune.records import Applied, ProviderSpec, RecordedProcess, RecordedSession, Value

_CHANNELS = ("session_option", "session_config")
_NUMBERS = ("ORT_INTRA_OP_NUM_THREADS", "ORT_INTER_OP_NUM_THREADS", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX")
_FLAGS = ("ORT_LOAD_CONFIG_FROM_MODEL",)
_WORD = re.compile(r"[A-Za-z0-9_.,;:-]{0,200}")


def settings_of(session: RecordedSession) -> dict[str, Value]:
    """Return the settings that the program passed and that differ from the default, by their names in plans.

    A recording may be from another machine, so only settings of the catalogue with valid values are used.
    """
    found: dict[str, Value] = {}
    by_key = {knob.key: knob for knob in knobs.all_knobs().values() if knob.channel in _CHANNELS}
    for key, value in (session.options or {}).items():
        knob = by_key.get(key)
        # A number of threads of 0 leaves it to ONNX Runtime, as does a session without options.
        if knob is None or not _WORD.fullmatch(str(value)) or (knob.threads and value == 0):
            continue
        named = {str(knob.applied(choice).value): choice for choice in knob.choices}
        text = named.get(str(value), str(int(value)) if isinstance(value, bool) else str(value))
        if knob.choices and text not in knob.choices:
            continue
        setting = knobs.parse_settings([f"{knob.name}={text}"], "the recording")
        if str(setting[knob.name]).lower() not in _defaults(knob.default):
            found |= setting
    if session.inherited:
        found[THREADS.name] = 1  # its threads do not exist after a fork
    return found


def _defaults(text: str) -> Collection[str]:
    """Return the spellings of a default value, from the text that describes it."""
    first = text.lower().split()[0].strip(",;.()") if text else ""
    return {"on": ("1", "true", "on"), "off": ("0", "false", "off")}.get(first, (first,))


def providers_of(session: RecordedSession, available: Collection[str]) -> tuple[ProviderSpec, ...]:
    """Return the session's execution providers that are available here; () if that is only the CPU's."""
    names = [name for name in session.providers_used if name in available]
    return () if names == [CPU.name] else tuple(ProviderSpec(name=name) for name in names)


def variables_of(process: RecordedProcess, changed: Mapping[str, str]) -> tuple[Applied, ...]:
    """Return the environment variables of a process that a replay sets: thread counts and flags.

    Args:
        process: The recorded process.
        changed: Variables of a variant, which override recorded variables.
    """
    return tuple(
        Applied(knob=name, channel="env", key=name, value=value)
        for name, value in sorted({**process.variables, **changed}.items())
        if (name in _NUMBERS and re.fullmatch(r"\d{1,4}", value)) or (name in _FLAGS and value in ("0", "1"))
    )


def affinity_of(process: RecordedProcess, cpus: Collection[int]) -> tuple[Applied, ...]:
    """Return the CPU affinity of a process that was bound to some of the CPUs here; () for other processes."""
    bound = set(process.cpus)
    if not bound or not bound < set(cpus):
        return ()
    text = ",".join(map(str, sorted(bound)))
    return (Applied(knob="affinity", channel="process", key="affinity", value=text),)


def applied(settings: Mapping[str, Value]) -> tuple[Applied, ...]:
    """Return the settings of a session with their channels."""
    return tuple(knobs.find(name).applied(value) for name, value in sorted(settings.items()))
