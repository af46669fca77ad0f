"""What ``tune`` can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ortune import rewrites
from ortune.bundle import format as bundle_format
from ortune.errors import UsageError
from ortune.knobs import all_knobs, parse_settings
from ortune.records import Plan
from ortune.trials.baseline import InputOptions
from ortune.trials.sides import bundle_plan, canonical, read_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``tune`` can be asked; the names are those of the command line.

    Attributes:
        settings, rewrites: Pinned: part of every plan that is tried (not of the default).
        current: What the user runs today: "default", "intra=4,spin=0", a plan file or a bundle; None is not told.
        worth: The smallest gain that is worth a change, as a share.
        allow: Safety classes ("numerics", "behaviour") and guards ("p95", "memory", ...) that are let through.
        resume: Session to go on with: "newest", an id, or None.
        directory: Where the bundle goes; None makes none.
    """

    model: str
    settings: Sequence[str] = ()
    rewrites: Sequence[str] = ()
    plan: Path | None = None
    current: str | None = None
    python: str | None = None
    target: str = "cpu"
    objective: str = "latency"
    inputs: InputOptions = field(default_factory=InputOptions)
    budget_s: float = 180.0
    worth: float = 0.01
    allow: Sequence[str] = ()
    seed: int = 0
    store: Path | None = None
    wait: bool = True
    resume: str | None = None
    directory: Path | None = Path()
    force: bool = False


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
