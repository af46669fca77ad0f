"""What ``tune`` is asked, read: what may be let through, and what runs today."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ortune import rewrites
from ortune.bundle import format as bundle_format
from ortune.errors import UsageError
from ortune.knobs import all_knobs, parse_settings
from ortune.records import Plan
from ortune.trials.sides import bundle_plan, canonical, read_plan

GUARDS = ("mean", "p95", "memory", "cpu")


def check_allowed(names: Sequence[str]) -> None:
    """``--allow``: UsageError for what is no safety class, guard, setting or rewrite."""
    known = {"numerics", "behaviour", *GUARDS, *all_knobs(), *rewrites.all_rewrites()}
    for name in names:
        if name not in known:
            raise UsageError(
                f"{name!r} is nothing that can be allowed",
                where="--allow",
                do=f"numerics, behaviour, {', '.join(GUARDS)}, or the name of a setting or rewrite",
            )


def parse_current(text: str | None) -> Plan | None:
    """``--current``: a plan, or None when it was not given. UsageError says what can be written."""
    if text is None:
        return None
    path = Path(text)
    if text == "default":
        return Plan()
    if bundle_format.is_bundle(path):
        return bundle_plan(bundle_format.read(path))
    if path.suffix == ".json":
        return read_plan(path)
    if "=" not in text:
        raise UsageError(
            f"{text!r} is no plan",
            where="--current",
            do="default, 'intra=4,spin=0', a plan.json or a NAME.ortune",
        )
    return canonical(Plan(settings=parse_settings([part for part in text.split(",") if part.strip()])))
