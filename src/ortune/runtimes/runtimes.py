"""Finds the interpreter with the ONNX Runtime to measure, and describes it.

The build that the user runs is measured, so ortune looks first at ``$VIRTUAL_ENV``, then at its own interpreter, then
at ``python3`` on the path. A ``.venv`` in the current folder may come with untrusted files: it is only reported, and
started only if the user names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune import assigned_host, files, launcher, platform
from ortune.errors import RuntimeNotFound
from ortune.records import Runtime
from ortune.runtimes.probe import OLDEST_PYTHON, ProbeReport, Wheel
from ortune.runtimes.probe import examine as ask_look
from ortune.runtimes.probe_script import OTHERS

LOCAL = ".venv"
"""Usual name of a project's virtual environment."""

_IN_A_FOLDER = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedPlace:
    """A place to look for an interpreter.

    Attributes:
        origin: How the place was found, in words.
        named: The name or path of the place.
        python: Path of the interpreter; "" if there is none.
    """

    origin: str
    named: str
    python: str


def find_runtime(python: str | None = None) -> Runtime:
    """Return the runtime to measure with.

    Args:
        python: Value of ``--runtime``: an interpreter, a virtual environment's folder, or a command on the path. None
            uses the assigned host of a cluster, or else the first usual place with a usable ONNX Runtime.

    Raises:
        RuntimeNotFound: The named interpreter is not usable, or no place has an ONNX Runtime; the message gives the
            reasons.
    """
    if python is not None:
        place = SearchedPlace(origin="--runtime", named=python, python=interpreter(python))
        runtime = probe_place(place)
        if runtime.error:
            raise RuntimeNotFound(runtime.error, where=f"--runtime {python}", do=_do(runtime))
        return runtime
    host = assigned_host.assigned.get()
    if host is not None:
        runtime = probe_place(SearchedPlace(origin="--on", named=host.python, python=host.python))
        if runtime.error:
            assigned_host.require_alive()
            raise RuntimeNotFound(
                runtime.error,
                where=host.python,
                do="install onnxruntime and numpy for the Python of Ray there, or have a release sent: "
                "--runtime onnxruntime==VERSION",
            )
        return runtime
    looked: list[Runtime] = []
    for place in places():
        runtime = probe_place(place)
        if not runtime.error:
            return runtime
        looked.append(runtime)
    reasons = "; ".join(f"{runtime.origin} ({runtime.python}): {runtime.error}" for runtime in looked)
    do = "pip install onnxruntime, or pass an interpreter that has it: --runtime PATH"
    if local := not_started(looked):
        do = f"{local} in this folder is used only on request: --runtime {local}"
    raise RuntimeNotFound(f"no interpreter with a usable onnxruntime was found. Looked at {reasons}", do=do)


def all_runtimes() -> list[Runtime]:
    """Return the runtime of every place that ``find_runtime`` looks at, once each, usable or with its error."""
    return [probe_place(place) for place in places()]


def not_started(looked: Iterable[Runtime]) -> str:
    """Return ".venv" if the current folder has one whose interpreter is not that of any given runtime; else ""."""
    python = interpreter(LOCAL)
    return (
        LOCAL if python and _identity(python) not in {_identity(runtime.python) for runtime in looked} else ""
    )


def probe(python: str) -> Runtime:
    """Start an interpreter once and return its ONNX Runtime; ``error`` is the reason if none is usable.

    Args:
        python: The interpreter, a virtual environment's folder, or a command on the path.
    """
    return probe_place(SearchedPlace(origin="", named=python, python=interpreter(python)))


def describe(runtime: Runtime, folder: Path | None = None) -> str:
    """Return a description of the runtime, such as ".venv (onnxruntime 1.31.1)".

    Args:
        runtime: A usable runtime.
        folder: Paths inside it are shown relative to it; the current folder by default.
    """
    shown = Path(runtime.python)
    if (shown.parent.parent / "pyvenv.cfg").is_file():
        shown = shown.parent.parent
    base = folder or Path.cwd()
    label = shown.relative_to(base) if shown.is_relative_to(base) and shown != base else shown
    build = ", ".join([runtime.native, *runtime.plugins.values()])
    words = build if runtime.name and runtime.host is None else f"{label} ({build})"
    own = runtime.ort_web_dist or runtime.node is not None
    return f"{runtime.build}, beside it {words}" if own else words


def places(environment: Mapping[str, str] | None = None) -> list[SearchedPlace]:
    """Return the places to look at, in order, without duplicates.

    Args:
        environment: Environment variables to read instead of this process's.
    """
    variables = os.environ if environment is None else environment
    candidates: list[SearchedPlace] = []
    if active := variables.get("VIRTUAL_ENV"):
        candidates.append(SearchedPlace(origin="$VIRTUAL_ENV", named=active, python=interpreter(active)))
    if sys.executable:
        candidates.append(SearchedPlace(origin="ortune's own", named=sys.executable, python=sys.executable))
    for command in ("python3", "python"):
        if path := launcher.program(command, variables.get("PATH")):
            candidates.append(SearchedPlace(origin=f"{command} on PATH", named=path, python=path))
            break
    unique: dict[tuple[str, str], SearchedPlace] = {}
    for place in candidates:
        unique.setdefault(_identity(place.python or place.named), place)
    return list(unique.values())


def interpreter(named: str) -> str:
    """Return the absolute path of the interpreter that a path, folder or command names; "" if there is none.

    Links are not followed: a virtual environment's python is a link, and its target is not in the environment.
    """
    path = Path(named).expanduser()
    if files.is_folder(path):
        inside = (path / name for name in _IN_A_FOLDER)
        return next((os.path.abspath(file) for file in inside if file.is_file()), "")  # noqa: PTH100
    if files.is_file(path):
        return os.path.abspath(path)  # noqa: PTH100  (Path.absolute keeps "..", Path.resolve follows links)
    return launcher.program(named)


def _identity(python: str) -> tuple[str, str]:
    """Return a key that is equal only for names of one environment's interpreter, as ``python`` and ``python3``."""
    path = Path(python)
    return os.path.realpath(path.parent), os.path.realpath(path)


def probe_place(place: SearchedPlace) -> Runtime:
    """Start the interpreter of a place once and return its ONNX Runtime; ``error`` is the reason if none is usable."""
    if not place.python:
        what = "holds no Python interpreter" if Path(place.named).is_dir() else "is not a Python interpreter"
        return Runtime(python=place.named, origin=place.origin, error=f"{place.named} {what}")
    return described(place, ask_look(place.python))


def described(place: SearchedPlace, look: ProbeReport) -> Runtime:
    """Return the runtime of a place, from the report of its interpreter."""
    elsewhere = look.elsewhere
    return Runtime(
        python=place.python,
        python_version=look.python_version,
        ort_version=look.ort_version,
        package=_package(look),
        providers=look.providers,
        plugins=look.plugins,
        origin=place.origin,
        error=_error(look),
        packages={w.name: w.version for w in look.wheels if w.name in OTHERS and w.name != "numpy"},
        host=platform.remote_host(**msgspec.structs.asdict(elsewhere)) if elsewhere else None,
    )


def builds(look: ProbeReport) -> list[Wheel]:
    """Return the wheels that contain a build of ONNX Runtime; two of them overwrite each other."""
    return [wheel for wheel in look.wheels if wheel.build]


def _package(look: ProbeReport) -> str:
    """Return the name of the imported build's wheel: as reported by the build, else the wheel with its version."""
    if look.package:
        return look.package
    installed = builds(look)
    same = [wheel.name for wheel in installed if wheel.version == look.ort_version]
    return (same or [wheel.name for wheel in installed] or [""])[0]


def _error(look: ProbeReport) -> str:
    """Return why the runtime cannot be used, in words; "" if it can."""
    if look.complete and look.python_version and not look.ort_version and not look.error:
        oldest = ".".join(str(part) for part in OLDEST_PYTHON)
        return f"Python {look.python_version} is too old: {oldest} or later is needed"
    if look.absent:
        return f"{look.absent[0]} is not installed"
    if look.error:
        return _numpy_clash(look) or f"{look.stage} failed: {' '.join(look.error.split())}"
    if look.complete:
        return ""
    if look.stage == "start":
        log = f": {look.log}" if look.log else ""
        return f"not a working Python interpreter ({look.ended}{log})"
    return f"{look.stage}: the process {look.ended}"


def _numpy_clash(look: ProbeReport) -> str:
    """Return the error if numpy 2 is installed with a release before 1.19, whose import fails silently; else ""."""
    versions = {wheel.name: wheel.version for wheel in look.wheels}
    numpy, ort = versions.get("numpy", ""), next((wheel.version for wheel in builds(look)), "")
    ort_release = tuple(int(part) for part in ort.split(".")[:2] if part.isdigit())
    if numpy.partition(".")[0] in ("", "0", "1") or not ort_release or ort_release >= (1, 19):
        return ""
    return f"onnxruntime {ort} needs numpy 1 but numpy {numpy} is installed: pip install 'numpy<2'"


def _do(runtime: Runtime) -> str:
    install = f"{runtime.python} -m pip install"
    if runtime.error == "onnxruntime is not installed":
        return f"{install} onnxruntime, or pass another interpreter"
    if runtime.error == "numpy is not installed":
        return f"{install} numpy, or pass another interpreter"
    if runtime.python_version:
        return f"make `{runtime.python} -c 'import onnxruntime'` work, or pass another interpreter"
    return "pass a Python interpreter, or a virtual environment, with onnxruntime"
