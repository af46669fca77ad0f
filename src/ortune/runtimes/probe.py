"""Examines the packages of another interpreter: each task runs in a short process, which isolates its failures."""

from __future__ import annotations

import importlib.resources
import json
import re
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ortune import assigned_host, launcher
from ortune.records import Record
from ortune.runtimes.environment import clean_environment
from ortune.runtimes.probe_script import MARKER

OLDEST_PYTHON = (3, 8)
"""The oldest Python that a worker runs under."""

_TIMEOUT_S = 20.0
_LOADING_TIMEOUT_S = 60.0  # of a task that loads a provider or libraries

# Runs with any Python since 2.6, so that a Python too old for the rest can report its version.
_BOOTSTRAP = """\
import sys
if sys.path and sys.path[0] == "":
    del sys.path[0]
if sys.version_info < {oldest!r}:
    version = '{{"python_version": "%d.%d.%d", "complete": true}}' % sys.version_info[:3]
    sys.stdout.write("\\n" + {marker!r} + version + "\\n")
else:
    import types
    plugins = types.ModuleType("plugins")
    exec(compile({plugins!a}, "plugins", "exec"), vars(plugins))
    script = {{"__name__": "probe_script", "plugins": plugins}}
    exec(compile({source!a}, "probe_script", "exec"), script)
    script["main"]({task!r}, {argument!a})
"""


class Wheel(Record, frozen=True, kw_only=True, array_like=True):
    """One installed wheel; ``build`` is whether it contains an ``onnxruntime`` package."""

    name: str
    version: str
    build: bool


class RemoteHost(Record, frozen=True, kw_only=True):
    """The machine of a remote interpreter, as the arguments of ``platform.remote_machine.remote_host``."""

    texts: dict[str, str]
    system: str
    machine: str
    affinity: int
    memory_bytes: int


class ProbeReport(Record, frozen=True, kw_only=True):
    """The facts that a probe process reported, and how the process ended.

    Attributes:
        stage: The last step that the process began.
        error: The exception that ended the process; "" if there was none.
        absent: Which of onnxruntime and numpy are not installed.
        complete: Whether the process finished its task.
        ended: How the process ended if it did not finish, in words.
        log: The last informative line of the process's stderr.
        library: Path of the provider's own library; "" if the build has none.
        not_found: Requested shared libraries that the loader did not find.
        library_error: Why the provider's own library did not load.
        missing: The first shared library that any message reports as not found.
        preloaded: Whether the provider's library loaded after ``onnxruntime.preload_dlls()``.
        plugins: For each plug-in provider of a plain onnxruntime, the wheel that contains it, with its version.
        elsewhere: The interpreter's machine, if it cannot read this machine's files; else, or if not tested, None.
        devices: Devices that a plug-in provider offers; None if they were not requested or not reported.
    """

    python_version: str = ""
    wheels: tuple[Wheel, ...] = ()
    ort_version: str = ""
    package: str = ""
    providers: tuple[str, ...] = ()
    session_providers: tuple[str, ...] = ()
    plugins: dict[str, str] = msgspec.field(default_factory=dict)
    elsewhere: RemoteHost | None = None
    devices: tuple[str, ...] | None = None
    library: str = ""
    not_found: tuple[str, ...] = ()
    library_error: str = ""
    preloaded: bool = False
    missing: str = ""
    stage: str = "start"
    error: str = ""
    absent: tuple[str, ...] = ()
    complete: bool = False
    ended: str = ""
    log: str = ""


ProbeTask = Literal["look", "use", "absent"]
"""Tasks of the probe script.

"look": report the packages, as in ``look``. "use": create a session with a provider, as in ``use``. "absent": find
missing shared libraries, as in ``missing_libraries``.
"""


def script(task: ProbeTask, argument: str = "") -> bytes:
    """Return a Python program that runs one task and prints facts for ``report``."""
    package = importlib.resources.files("ortune")
    text = _BOOTSTRAP.format(
        oldest=OLDEST_PYTHON,
        marker=MARKER,
        source=package.joinpath("runtimes", "probe_script.py").read_text("utf-8"),
        plugins=package.joinpath("worker", "plugins.py").read_text("utf-8"),
        task=task,
        argument=argument,
    )
    return text.encode("ascii")


def ask(python: str, task: ProbeTask, argument: str = "", timeout_s: float = _TIMEOUT_S) -> ProbeReport:
    """Run one task of the probe script under an interpreter, and return its report.

    Args:
        python: The interpreter.
        task: The task.
        argument: Argument of the task.
        timeout_s: Seconds after which the process is ended.
    """
    try:
        done = launcher.run(
            [python, "-"], limit_s=timeout_s, stdin=script(task, argument), environment=clean_environment()
        )
    except OSError as error:
        return ProbeReport(ended=f"cannot be started: {error.strerror or error}")
    ended = f"gave no answer within {timeout_s:g} s" if done.code is None else _ending(done.code)
    return report(done.output, done.log, ended)


def examine(python: str) -> ProbeReport:
    """Report an interpreter's packages and, if it cannot read this machine's files, the machine that it runs on."""
    text = uuid.uuid4().hex
    try:
        with tempfile.TemporaryDirectory(prefix="ortune-") as folder:
            path = Path(folder, "here")
            path.write_text(text, encoding="utf-8")
            if assigned_host.assigned.get() is not None:
                path.unlink()  # hosts of a cluster count as other machines even if they share this file system
            return ask(python, "look", json.dumps([str(path), text]))
    except OSError:
        # No writable folder: later steps report that. The interpreter is assumed to run on this machine.
        return ask(python, "look")


def try_provider(python: str, provider: str, options: Mapping[str, str]) -> ProbeReport:
    """Return the result of creating a session with a provider, from the build or a separate wheel."""
    return ask(python, "use", json.dumps([provider, dict(options)]), _LOADING_TIMEOUT_S)


def missing_libraries(python: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return which of the named shared libraries an interpreter's processes do not find."""
    return ask(python, "absent", json.dumps(list(names)), _LOADING_TIMEOUT_S).not_found


def report(stdout: bytes, stderr: bytes, ended: str) -> ProbeReport:
    """Return the facts that a process of the probe script printed.

    Args:
        stdout: Output of the process.
        stderr: Log of the process.
        ended: How the process ended, in words, in case it did not finish its task.
    """
    facts: dict[str, Any] = {}
    for line in stdout.decode("utf-8", errors="replace").splitlines():
        if line.startswith(MARKER):
            facts.update(_decode(line.removeprefix(MARKER)))
    if not facts.get("complete"):
        facts["ended"] = ended
    log = stderr.decode("utf-8", errors="replace")
    messages = "\n".join((str(facts.get("library_error", "")), str(facts.get("error", "")), log))
    match = re.search(r"(\S+): cannot open shared object file", messages)
    return msgspec.convert(
        {**facts, "log": _last_words(log), "missing": match[1] if match else ""}, ProbeReport
    )


def _decode(text: str) -> dict[str, Any]:
    """Return the JSON object of a line; {} if the line was cut off when the process ended."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _ending(returncode: int) -> str:
    if returncode < 0:
        return f"was killed by {launcher.signal_name(returncode)}"
    return f"exited with status {returncode} and no answer"


def _last_words(log: str) -> str:
    """Return the last error that ONNX Runtime logged, or else the last line of the log."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "[E:onnxruntime" in line]
    return (errors or lines or [""])[-1]
