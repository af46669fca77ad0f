"""All settings, as described by the rows of the catalogue.

``propose`` derives the changes that tuning tries from the settings and the facts of a model.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from ortune.catalogue import computed
from ortune.catalogue.files import provider_tables, setting_tables
from ortune.catalogue.knob import OFTEN, SELDOM, Knob
from ortune.catalogue.versions import parse_version, why_too_old
from ortune.errors import UsageError
from ortune.records import Value, assignment

__all__ = [
    "Knob",
    "all_knobs",
    "check_conflicts",
    "check_devices",
    "find",
    "parse_settings",
    "parse_value",
    "parse_version",
    "rows",
    "unmet",
    "why_too_old",
]

_PRIORS = {"often": OFTEN, "seldom": SELDOM}


@cache
def rows() -> dict[str, Knob]:
    """Return the settings by name, with conflicts as in the rows, where only one of two settings names the other."""
    knobs = {knob.name: knob for knob in _read()}
    for info in pkgutil.iter_modules(computed.__path__):
        module = importlib.import_module(f"{computed.__name__}.{info.name}")
        knobs[info.name] = msgspec.structs.replace(knobs[info.name], **module.COMPUTED)
    return dict(sorted(knobs.items()))


def _read() -> Iterator[Knob]:
    for file, table in setting_tables().items():
        provider = provider_tables()[file].get("provider", {}).get("name", "")
        for name, row in table.get("general", {}).items():
            yield _knob(file, {"name": name, **row})
        for name, row in table.get("settings", {}).items():
            yield _knob(file, {"name": name, "provider": provider, "channel": "provider_option", **row})


def _knob(file: str, row: dict[str, Any]) -> Knob:
    try:
        return msgspec.convert(
            {**row, **_in_numbers({k: row[k] for k in ("prior", "priors") if k in row})}, Knob
        )
    except msgspec.ValidationError as error:
        raise ValueError(f"{file}.toml: {row['name']}: {error}") from error


def _in_numbers(priors: Mapping[str, Any]) -> dict[str, Any]:
    """Return priors as numbers; rows may give them in words."""
    return {
        name: _in_numbers(value) if isinstance(value, Mapping) else _PRIORS.get(value, value)
        for name, value in priors.items()
    }


@cache
def all_knobs() -> dict[str, Knob]:
    """Return the settings by name, with symmetric conflicts."""
    knobs = rows()
    against = {name: set(knob.conflicts) for name, knob in knobs.items()}
    for name, knob in knobs.items():
        for other in knob.conflicts:
            against[other].add(name)
    return {
        name: msgspec.structs.replace(knob, conflicts=tuple(sorted(against[name])))
        for name, knob in knobs.items()
    }


DEVICE = "device_type"
"""The provider option that selects its device."""


def find(name: str, where: str = "--set") -> Knob:
    """Return the setting with a name or alias; raise UsageError with the closest names, including ONNX Runtime's keys.

    Args:
        name: Name or alias of a setting.
        where: The option or file that contains the name, for error messages.
    """
    import difflib

    knobs = all_knobs()
    if name in knobs:
        return knobs[name]
    for knob in knobs.values():
        if name in knob.aliases:
            return knob
    # A name may be a provider's key too, and then means the setting of that name.
    names = {knob.key: knob.name for knob in knobs.values()}
    names |= {alias: knob.name for knob in knobs.values() for alias in knob.aliases}
    names |= {name: name for name in knobs}
    near = dict.fromkeys(names[match] for match in difflib.get_close_matches(name, names, n=3))
    family = sorted(other for other in knobs if other.startswith(f"{name.partition('_')[0]}_"))
    do = (
        f"did you mean {', '.join(near)}?"
        if near
        else f"the settings are {', '.join(family or sorted(knobs))}"
    )
    raise UsageError(f"no setting is called {name!r}", where=where, do=do)


def parse_value(knob: Knob, text: str, where: str = "--set") -> Value:
    """Convert text to the type of a setting; raise UsageError with the allowed values if it is invalid."""
    value = text.strip()
    if knob.kind == "bool":
        yes, no = ("1", "true", "on", "yes"), ("0", "false", "off", "no")
        if value.lower() in yes + no:
            return value.lower() in yes
        raise _refused(knob, where, text, "0 or 1")
    if knob.kind == "int":
        try:
            number = int(value)
        except ValueError:
            raise _refused(knob, where, text, "an integer") from None
        if knob.minimum is not None and number < knob.minimum:
            raise _refused(knob, where, text, f"at least {knob.minimum}")
        if number > knob.maximum:
            raise _refused(knob, where, text, f"at most {knob.maximum}")
        return number
    if knob.choices and value.lower() not in knob.choices:
        raise _refused(knob, where, text, " | ".join(knob.choices))
    if knob.pattern and not re.fullmatch(knob.pattern, value):
        raise _refused(knob, where, text, f"what matches {knob.pattern}")
    return value.lower() if knob.choices else value


def parse_settings(pairs: list[str], where: str = "--set") -> dict[str, Value]:
    """Convert ``KNOB=VALUE`` pairs to a plan's settings with canonical names; raise UsageError for conflicts.

    Args:
        pairs: The pairs as the user wrote them.
        where: The option or file that contains the pairs, for error messages.
    """
    settings: dict[str, Value] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            example = f"{where} intra=4" if where.startswith("--") else "intra=4"
            raise UsageError(f"{pair!r} is not KNOB=VALUE", where=where, do=f"write e.g. {example}")
        knob = find(name.strip(), where)
        settings[knob.name] = parse_value(knob, text, where)
    return check_conflicts(settings, where)


def check_conflicts(settings: dict[str, Value], where: str = "--set") -> dict[str, Value]:
    """Return the settings unchanged; raise UsageError if two of them are mutually exclusive."""
    for name in settings:
        for other in find(name).conflicts:
            if other in settings:
                raise UsageError(
                    f"{name} and {other} are mutually exclusive", where=where, do="omit one of them"
                )
    chosen = {find(name).provider: str(value) for name, value in settings.items() if find(name).key == DEVICE}
    return check_devices(settings, chosen, where)


def unmet(settings: Mapping[str, Value]) -> dict[str, list[str]]:
    """Map each setting with unmet needs to the settings that the plan lacks; all are written as ``knob=value``."""
    found = {}
    for name, value in sorted(settings.items()):
        needs = parse_settings(list(find(name).needs)).items()
        missing = [assignment(other, least) for other, least in needs if not _meets(settings, other, least)]
        if missing:
            found[assignment(name, value)] = missing
    return found


def _meets(settings: Mapping[str, Value], other: str, least: Value) -> bool:
    """Return whether a plan meets a need: it sets ``other`` to ``least``, or to at least as many threads if several."""
    value = settings.get(other)
    threads = bool(find(other).threads) and isinstance(value, int) and isinstance(least, int)
    return value == least or (threads and value >= least > 1)  # type: ignore[operator]


def check_devices(
    settings: dict[str, Value], chosen: Mapping[str, str], where: str = "--set"
) -> dict[str, Value]:
    """Return the settings unchanged; raise UsageError if one is for a different device than its provider's.

    Args:
        settings: The settings of a plan.
        chosen: The device of each execution provider for which one is set.
        where: The option or file that contains the settings, for error messages.
    """
    for knob in map(find, settings):
        device = chosen.get(knob.provider, knob.device).upper()
        if knob.device and device != knob.device:
            raise UsageError(
                f"{knob.name} is a setting of the {knob.device} device and has no effect in a session on {device}",
                where=where,
                do=f"omit it, or run on {knob.device}",
            )
    return settings


def _refused(knob: Knob, where: str, text: str, allowed: str) -> UsageError:
    return UsageError(f"{text!r} is not a value of {knob.name}", where=where, do=f"allowed: {allowed}")


def lower_precisions(provider: str, features: Collection[str] = ()) -> list[dict[str, Value]]:
    """Return the sets of settings with which a provider computes float models in fewer bits, one for each value to try.

    Args:
        provider: ONNX Runtime's name.
        features: Instruction sets of the processor; values without effect on it are excluded. Empty if they are
            unknown.
    """
    strict = strict_settings(provider)
    return [
        {**strict, knob.name: parse_value(knob, value)}
        for knob in all_knobs().values()
        if knob.strict and knob.provider == provider
        for value in knob.tries
        if value != knob.strict and takes_effect(knob, value, features)
    ]


def takes_effect(knob: Knob, value: str, features: Collection[str]) -> bool:
    """Return whether a processor has an instruction set that a value needs; True if its sets are unknown (empty)."""
    needed = knob.instructions.get(value, ())
    return not needed or not features or any(name in features for name in needed)


def without_instructions(settings: Mapping[str, Value], features: Collection[str]) -> str:
    """Return the first setting whose value has no effect on a processor, with the reason; "" if there is none.

    Args:
        settings: Settings of a plan.
        features: Instruction sets of the processor; empty if they are unknown.
    """
    for name, value in settings.items():
        knob = find(name)
        if not takes_effect(knob, str(value), features):
            needed = " or ".join(knob.instructions[str(value)])
            return f"{name}={value} has no effect: it needs {needed}, which this processor lacks"
    return ""


def strict_settings(provider: str) -> dict[str, Value]:
    """Return the settings with which a provider computes in the model's own types; empty if it always does."""
    strict = (knob for knob in all_knobs().values() if knob.strict and knob.provider == provider)
    return {knob.name: parse_value(knob, knob.strict) for knob in strict}
