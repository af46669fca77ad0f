"""Places where a model can run, and the runners of trials there.

A target is a provider in ``catalogue/`` together with the runner of its trials: a process of this machine, or the class
``KIND`` in ``target.py`` of the folder that the provider's ``place`` names. ``browser`` is such a folder: its trials
are pages. The files in this folder are shared by all targets: ``process`` runs a trial as a process of this machine,
and ``runner`` lets trials of any targets take turns.
"""

from __future__ import annotations

import importlib
from functools import cache

from ortune.catalogue import providers
from ortune.catalogue.providers import CPU
from ortune.errors import UsageError
from ortune.records import Plan
from ortune.targets.target import Target

__all__ = ["WEB", "Target", "all_targets", "find", "in_browsers", "target_of"]

WEB = "web"
"""Value of ``tune --target`` for all targets in a browser."""


@cache
def all_targets() -> dict[str, Target]:
    """Return every target by name; the CPU, the baseline of all comparisons, is first."""
    return {p.target: _target(p.target) for p in providers.providers_with(lambda p: p.target)}


@cache
def _target(name: str) -> Target:
    """Return the target with a name; this imports the code of its folder only."""
    provider = providers.of_target(name)
    if not provider.place:
        return Target(provider)
    kind: type[Target] = importlib.import_module(f"{__name__}.{provider.place}.target").KIND
    return kind(provider)


def find(name: str) -> Target:
    """Return the target with a name; raise UsageError with the valid names if there is none."""
    if providers.of_target(name).target:
        return _target(name)
    if name == WEB:
        raise UsageError(
            "only ortune tune accepts it",
            where="--target web",
            do=f"one of {', '.join(in_browsers())}",
        )
    raise UsageError(f"unknown target {name!r}", where="--target", do=f"one of {', '.join(all_targets())}")


def in_browsers() -> tuple[str, ...]:
    """Return the names of the targets in a browser; WebAssembly, the baseline of their comparisons, is first."""
    in_page = providers.providers_with(lambda p: p.target and p.in_page)
    return tuple(p.target for p in sorted(in_page, key=lambda p: not p.cpu_kernels))


def target_of(plan: Plan) -> Target:
    """Return the target of a plan's first execution provider; the CPU target if the provider is unknown."""
    return _target(providers.find(plan.provider_names[0]).target or CPU.target)
