"""``ortune run``: runs a program with the changes of a bundle."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ortune.bundle import app
from ortune.errors import UsageError
from ortune.measuring.document import document
from ortune.measuring.watcher import Watcher
from ortune.recorder import applying
from ortune.records import Envelope
from ortune.targets.machine import Machine
from ortune.verbs.run import words
from ortune.verbs.run.options import Options
from ortune.verbs.run.result import RunResult


def run(options: Options, watcher: Watcher | None = None) -> Envelope[RunResult]:
    """Run a program with a bundle's changes to its sessions.

    Returns:
        The document; ``verdict`` is "applied", "nothing-applied" or "missed".

    Raises:
        UsageError: There is no command or no valid bundle, or the program cannot be started.
    """
    if not options.command or options.bundle is None:
        raise UsageError(
            "pass a bundle and a command", do="ortune run --with app.ortune -- python app.py, for example"
        )
    folder = Path(options.bundle)
    bundle = app.read(folder)
    changes, notes = app.changes(folder, bundle)
    host = Machine().host
    done = applying.apply(list(options.command), changes, variables=bundle.variables, given=os.environ)
    result = RunResult(
        **msgspec.structs.asdict(done),
        bundle=str(folder),
        variables=bundle.variables,
        contains=bundle.contains,
        memory=bundle.memory,
        notes=notes,
    )
    result = msgspec.structs.replace(result, headline=words.headline(result))
    return document("run", result, host=host, verdict=verdict(result))


def verdict(result: RunResult) -> str:
    """Return the verdict: "applied", "nothing-applied", or "missed" if a process could not be reached."""
    if result.variables or any(model.created or model.shared for model in result.models):
        return "applied"
    return "missed" if result.missed else "nothing-applied"


def exit_code(envelope: Envelope[RunResult]) -> int:
    """Return the exit code of the program."""
    return envelope.result.code
