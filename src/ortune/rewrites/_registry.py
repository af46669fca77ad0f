"""Discovery of rewrites: every module of this folder without a leading underscore."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from pathlib import Path

from ortune.errors import UsageError
from ortune.records import RewriteSpec
from ortune.rewrites._base import Rewrite


@cache
def all_rewrites() -> dict[str, Rewrite]:
    """Return all rewrites, keyed by name."""
    rewrites: dict[str, Rewrite] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            rewrite: Rewrite = importlib.import_module(f"{__package__}.{module.name}").REWRITE
            rewrites[rewrite.name] = rewrite
    return dict(sorted(rewrites.items()))


def find(name: str) -> Rewrite:
    """Return the rewrite with a name; raise UsageError with the closest names if there is none."""
    rewrites = all_rewrites()
    if name in rewrites:
        return rewrites[name]
    near = difflib.get_close_matches(name, rewrites, n=3, cutoff=0.5)
    do = f"did you mean {', '.join(near)}?" if near else f"the rewrites are {', '.join(rewrites)}"
    raise UsageError(f"unknown rewrite {name!r}", where="--rewrite", do=do)


def canonical(spec: RewriteSpec) -> RewriteSpec:
    """Return the spec with validated, canonical parameters, so that equal plans have equal ids."""
    return RewriteSpec(name=spec.name, params=find(spec.name).canonical(spec.params))
