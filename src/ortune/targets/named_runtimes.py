"""Runtimes by the value of ``--runtime``: runtimes of this machine, and releases sent to another machine."""

from __future__ import annotations

import os
import queue
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from ortune import assigned_host, monotonic
from ortune.errors import RuntimeNotFound, UsageError
from ortune.records import Runtime
from ortune.runtimes import made
from ortune.runtimes.environment import clean_environment
from ortune.runtimes.packages import recipes, sendable, split_placed
from ortune.runtimes.packed import packed
from ortune.runtimes.probe import ProbeReport, report, script
from ortune.runtimes.runtimes import SearchedPlace, described, interpreter, probe
from ortune.targets.remote_process import RelayLost, RemoteChild

_ANSWER_S = 600.0
"""Time limit in seconds for each response of the other machine, which receives about 40 MB the first time."""
_LOOK_S = 300.0
"""Time limit in seconds for unpacking and importing the build on the other machine."""
_OUTPUT_BYTES = 4 << 20
"""Maximum bytes that are kept from the end of the other machine's output and of its log."""
_sent_before: dict[tuple[str, str], Runtime] = {}
_there: dict[str, Runtime] = {}  # by interpreter; cached, since each start is a connection


def prepare(named: str, say: Callable[[str], None]) -> None:
    """Install or send a named runtime, unless this was done before; do nothing for the path of an interpreter.

    Raises:
        RuntimeNotFound, UsageError: The runtime cannot be installed or sent.
    """
    if split_placed(named)[0] or (assigned_host.assigned.get() is not None and sendable(named) is not None):
        find(named, say)
    elif recipes(named):
        made.require_installed(named, say)


def find(named: str | None, say: Callable[[str], None]) -> Runtime:
    """Return the runtime that ``--runtime`` names, installing or sending it if necessary; the user's own for None.

    If a cluster host is assigned, the name of a release means this release on that host.

    Raises:
        RuntimeNotFound, UsageError: The runtime cannot be installed, sent or used, or no runtime was found.
    """
    release, python = split_placed(named or "")
    host = assigned_host.assigned.get()
    if release:
        return _sent(release, interpreter(python), named or "", say)
    if host is not None and named and sendable(named) is not None:
        return _sent(named, host.python, named, say)
    return made.find(named, say)


def machine_of(named: str) -> Runtime:
    """Return an interpreter of another machine, which is started once; ``error`` is the reason if it cannot start."""
    python = interpreter(named)
    there = _there.get(python) or probe(named)
    if there.python_version:
        _there[python] = there
    return there


def _sent(release: str, python: str, named: str, say: Callable[[str], None]) -> Runtime:
    """Send a release to another machine, import it there, and return it as a runtime.

    Args:
        release: Name of the release, or path of its wheel.
        python: The interpreter of the other machine; "" if there is none.
        named: Value of ``--runtime``.
        say: Callback for progress messages.
    """
    known = _sent_before.get((release, python))
    if known is not None:
        return known
    where = f"--runtime {named}"
    place = SearchedPlace(origin="--runtime", named=python, python=python)
    missing = Runtime(python="", error="no Python interpreter is there")
    there = machine_of(python) if python else missing
    if not there.python_version:
        assigned_host.require_alive()
        raise RuntimeNotFound(there.error, where=where, do="pass a script that starts a Python there")
    if there.host is None:
        raise UsageError(
            "the script starts a Python of this machine", where=where, do=f"pass --runtime {release} alone"
        )
    archive = packed(release, there, say)
    say(f"sending {release} to {python}, unless it is there already")
    found = described(place, _look(python, archive, where))
    if found.error:
        raise RuntimeNotFound(
            f"{release} was sent there but cannot be imported: {found.error}",
            where=where,
            do="pass a release that supports that machine, or install one there and omit the release",
        )
    runtime = msgspec.structs.replace(found, name=named, host=there.host, packed=str(archive))
    _sent_before[release, python] = runtime
    return runtime


def _look(python: str, archive: Path, where: str) -> ProbeReport:
    """Send a build to an interpreter of another machine, and return the probe's report on the build."""
    with tempfile.TemporaryDirectory(prefix="ortune-") as folder, Path(folder, "log").open("w+b") as log:
        child = RemoteChild(python, log=log, folder=Path(folder), limit_s=_ANSWER_S)
        try:
            child.begin(script("look"), (), clean_environment(base={}), str(archive))
            output, ended = _output(child)
        except RelayLost as error:
            assigned_host.require_alive()
            raise RuntimeNotFound(f"{python} {error}", where=where, do="check its connection") from error
        finally:
            child.end()
        log.seek(max(0, log.seek(0, os.SEEK_END) - _OUTPUT_BYTES))
        return report(output, log.read(), ended)


def _output(child: RemoteChild) -> tuple[bytes, str]:
    """Return the last lines that a process printed, and a description of how it ended."""
    lines, output = child.lines(), bytearray()
    deadline_s = monotonic.now_s() + _LOOK_S
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline_s - monotonic.now_s()))
        except queue.Empty:
            return bytes(output), f"gave no answer within {_LOOK_S:.0f} s"
        if line is None:
            return bytes(output), "ended without an answer"
        output += line
        del output[:-_OUTPUT_BYTES]
