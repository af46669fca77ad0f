"""Reads the plans that users name, in canonical form: a plan file, the current configuration, or a bundle's plan."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortune import files
from ortune.bundle import format as bundle_format
from ortune.bundle import machine
from ortune.bundle.shared import refused_option, thread_cap
from ortune.catalogue import knobs
from ortune.catalogue.option_values import refused_value
from ortune.catalogue.providers import find as find_provider
from ortune.errors import UsageError
from ortune.records import BundleInfo, Plan, Value, read_json
from ortune.search.plan_edits import merge


def read_plan(path: Path) -> Plan:
    """Return the plan in a file, with settings in canonical form.

    The file may name its schema for editors.

    Raises:
        UsageError: The file cannot be read or is not a plan, or has an unknown field or setting.
    """
    example = 'e.g. {"settings": {"intra_op_num_threads": 4}}'
    try:
        text = files.read(path)
        plan = read_json(text, Plan)
        allowed = {*Plan.__struct_fields__, "$schema", "schema"}
        unknown = sorted(set(read_json(text, dict[str, msgspec.Raw])) - allowed)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"is not a plan: {error}", where=str(path), do=example) from error
    if unknown:
        fields = ", ".join(Plan.__struct_fields__)
        raise UsageError(f"has no field {unknown[0]!r}; a plan has {fields}", where=str(path), do=example)
    return canonical(plan, str(path))


def current_plan(text: str, default: Plan) -> Plan:
    """Return the user's current plan from the value of ``--current``: the default, settings, a plan file or a bundle.

    Raises:
        UsageError: The text is none of these.
    """
    if text == "default":
        return default
    path = Path(text)
    if bundle_format.is_bundle(path):
        return bundle_plan(bundle_format.read(path))
    if path.suffix == ".json":
        return read_plan(path)
    if "=" not in text:
        raise UsageError(
            f"{text!r} is not a plan",
            where="--current",
            do="default, 'intra=4,spin=0', a plan.json or a NAME.ortune",
        )
    settings = knobs.parse_settings([part for part in text.split(",") if part.strip()], "--current")
    return canonical(merge(default, Plan(settings=settings)), "--current")


def canonical(plan: Plan, where: str = "the plan") -> Plan:
    """Return the plan with aliases resolved and values in the types of their settings.

    A plan may come from an untrusted file, so every setting and value that is not on a closed list is refused.

    Raises:
        UsageError: A plan may not set one of its settings or provider options, or not to this value.
    """
    for spec in plan.providers:
        refused = refused_option(spec.options, find_provider(spec.name).options)
        if refused:
            options = ", ".join(sorted(find_provider(spec.name).options)) or "none"
            raise UsageError(
                f"{refused} of {spec.name} cannot be set by a plan",
                where="providers of the plan",
                do=f"omit it; a plan can set: {options}",
            )
        wrong = refused_value(spec.name, spec.options)
        if wrong:
            raise UsageError(
                f"{spec.name} cannot have {wrong[0]}",
                where="providers of the plan",
                do=f"allowed: {wrong[1]}",
            )
    pairs = [f"{name}={value}" for name, value in plan.settings.items()]
    settings = knobs.parse_settings(pairs, where)
    devices = {
        spec.name: spec.options[knobs.DEVICE] for spec in plan.providers if knobs.DEVICE in spec.options
    }
    return msgspec.structs.replace(plan, settings=knobs.check_devices(settings, devices, where))


def bundle_plan(info: BundleInfo) -> Plan:
    """Return a bundle's plan for this machine, with the thread counts that the bundle's loaders compute."""
    tuned_cpus = info.host.effective_cpus if info.host else 1

    def value(stored: Value) -> Value:
        count = thread_cap(stored)
        return stored if count is None else machine.threads(count, tuned_cpus)

    return canonical(
        msgspec.structs.replace(info.plan, settings={k: value(v) for k, v in info.plan.settings.items()})
    )
