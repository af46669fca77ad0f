"""Where a model can run, one folder a target; found by walking the folder.

A target is a folder here with one constant ``TARGET``: its execution provider and where that comes from, what it
can be told, and what runs a trial on it. The files beside the folders are what targets share: ``process`` runs a
trial as a process of this machine, ``browser`` as a page, ``runner`` lets trials of any targets take turns.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ortune.errors import UsageError
from ortune.records import Plan
from ortune.targets.target import CPU, PAGE, Target

__all__ = ["CPU", "WEB", "Target", "all_targets", "find", "in_browsers", "of", "options"]

WEB = "web"
"""What ``tune --target`` calls all that a browser offers."""


@cache
def all_targets() -> dict[str, Target]:
    """Every target by name, the CPU first: all others are held against it."""
    folders = [
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
        if info.ispkg
    ]
    found = [folder.TARGET for folder in folders if hasattr(folder, "TARGET")]
    return {target.name: target for target in sorted(found, key=lambda t: (t.name != "cpu", t.name))}


def find(name: str) -> Target:
    """The target of that name; UsageError lists all."""
    found = all_targets().get(name)
    if found is None and name == WEB:
        raise UsageError(
            "all that a browser offers is for tune alone",
            where="--target web",
            do=f"one of {', '.join(in_browsers())}",
        )
    if found is None:
        raise UsageError(
            f"no target is called {name!r}", where="--target", do=f"one of {', '.join(all_targets())}"
        )
    return found


def in_browsers() -> tuple[str, ...]:
    """The names of the targets in a browser, WebAssembly's first: all others are told beside it."""
    found = [name for name, target in all_targets().items() if target.channels == PAGE]
    return tuple(sorted(found, key=lambda name: (name != "web-wasm", name)))


def of(plan: Plan) -> Target:
    """The target that a plan runs on, by its first execution provider; one that is nobody's runs like the CPU's."""
    named = {target.provider: target for target in all_targets().values()}
    return named.get(plan.provider_names[0]) or all_targets()["cpu"]


def options(provider: str) -> frozenset[str]:
    """What a file may set of an execution provider; nothing of one that is nobody's."""
    return frozenset().union(*(t.options for t in all_targets().values() if t.provider == provider))
