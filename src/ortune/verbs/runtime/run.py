"""``ortune runtime``: additional builds of ONNX Runtime, each in its own environment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, cast

from ortune.errors import RuntimeNotFound, UsageError
from ortune.measuring.document import document
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, MadeRuntime
from ortune.runtimes import made
from ortune.runtimes.packages import recipes
from ortune.runtimes.runtimes import find_runtime
from ortune.targets.machine import Machine
from ortune.verbs._shared.watching import with_words
from ortune.verbs.runtime.options import Options
from ortune.verbs.runtime.result import RuntimeResult


def run(options: Options | None = None, watcher: Watcher | None = None) -> Envelope[RuntimeResult]:
    """Add, remove or list runtimes, each in a separate environment.

    Raises:
        UsageError: The action or a name is unknown.
        RuntimeNotFound: A runtime could not be installed: the package index is unreachable or lacks it.
    """
    o, watch = options or Options(), with_words(watcher)
    names = tuple(dict.fromkeys(o.names))
    if o.action not in ("add", "list", "remove"):
        raise UsageError(f"unknown subcommand {o.action!r}", do="use add, list or remove")
    changed: list[str] = []
    if o.action == "list" and names:
        raise UsageError("list takes no name", where=names[0], do="omit the name")
    if o.action != "list":
        before = {environment.name for environment in made.installed()}
        if o.action == "remove":
            _require_removable(names, before)
        made.check_names(names)
        for name in names:
            if o.action == "add":
                made.require_installed(name, watch.say)
            called = made.canonical_name(name)
            changed += [called] * (made.remove(name) if o.action == "remove" else called not in before)
    there = made.installed()
    result = RuntimeResult(
        action=cast("Literal['add', 'list', 'remove']", o.action),
        folder=str(made.folder()),
        runtimes=tuple(there),
        changed=tuple(changed),
        addable=made.addable(_releases(there)),
    )
    return document("runtime", result, host=Machine().host)


def _require_removable(names: Sequence[str], there: Collection[str]) -> None:
    """Raise UsageError for a name that is not a runtime that ortune can add, such as a folder of the user."""
    for name in names:
        if name not in there and not recipes(name):
            raise UsageError(
                "not a runtime that ortune added, so nothing was removed",
                where=name,
                do=f"the names are {', '.join(sorted(there))}" if there else "no runtime is installed",
            )


def _releases(there: Sequence[MadeRuntime]) -> set[str]:
    """Return the available ONNX Runtime releases: the user's release, and the releases that ortune installed."""
    own = {environment.runtime.ort_version for environment in there}
    try:
        return own | {find_runtime().ort_version}
    except RuntimeNotFound:
        return own
