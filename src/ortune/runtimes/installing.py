"""Installs wheels with uv or pip: into an environment of this machine, or for the Python of another machine."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
import sysconfig
from pathlib import Path

from ortune import launcher
from ortune.errors import RuntimeNotFound
from ortune.runtimes.packages import Recipe
from ortune.runtimes.runtimes import interpreter

PART = ".part-"
"""Prefix of the names of unfinished folders."""
_INSTALL_S = 1800.0
_PIP = ("--no-input", "--disable-pip-version-check", "--retries", "1", "--progress-bar", "off")
_OLDEST_GLIBC, _NEWEST_GLIBC = 17, 39
"""Minor versions of glibc 2 that wheels may require; on an older system, importing the build fails."""
# Variables that would make an installer or an interpreter use an environment other than the new one.
_NOT_PASSED = frozenset({
    "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_ROOT",
    "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV", "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_PREFIX",
})  # fmt: skip
_SILENCE_S = 3
"""Time limit in seconds of each of two requests to a package index; a blocked index is detected within ten seconds."""
_NO_NETWORK = re.compile(
    r"connection|resolve|name resolution|timed? ?out|unreachable|dns error|error sending request",
    re.IGNORECASE,
)
_NO_SUCH = re.compile(
    r"no matching distribution|could not find a version|no version of|no solution found", re.I
)


class UnusableBuild(RuntimeNotFound):
    """The installed runtime does not work here, but an older build may."""


def install(wanted: Recipe, part: Path, home: Path) -> None:
    """Create an environment on this machine with a recipe's packages.

    Args:
        wanted: The recipe.
        part: Folder of the new environment.
        home: Working directory; uv reads settings, such as the package index, from a project that contains it.

    Raises:
        RuntimeNotFound: The packages cannot be installed.
    """
    run = _Installer(wanted, home, _platform())
    uv = launcher.program("uv")
    if uv:
        run(uv, "venv", "--quiet", "--python", sys.executable, str(part))
        run(uv, "pip", "install", "--python", interpreter(str(part)), *_wheels(wanted))
        return
    ours = _pip_installs_for_others()
    run(sys.executable, "-I", "-m", "venv", *(["--without-pip"] if ours else []), str(part))
    python = interpreter(str(part))
    pip = [sys.executable, "-m", "pip", "--python", python] if ours else [python, "-I", "-m", "pip"]
    run(*pip, "install", *_PIP, *run.patience, *_wheels(wanted))
    if not ours and not wanted.converter:
        run(*pip, "uninstall", "--yes", "--quiet", "--disable-pip-version-check", "setuptools", "pip")


def install_for(wanted: Recipe, part: Path, *, python: str, machine: str, home: Path) -> None:
    """Unpack a recipe's wheels for the Python of another Linux machine.

    Args:
        wanted: The recipe.
        part: The new folder, which becomes an entry of that Python's search path.
        python: Version of that Python, "3.11".
        machine: Architecture of the other machine, as in the names of wheels.
        home: Working directory, as for ``install``.

    Raises:
        RuntimeNotFound: The packages cannot be installed.
    """
    run = _Installer(wanted, home, f"Python {python} on {machine} Linux")
    target = ["--target", str(part), "--python-version", python, *_wheels(wanted)]
    uv = launcher.program("uv")
    if uv:
        run(uv, "pip", "install", "--python-platform", f"{machine}-manylinux_2_28", *target)
        return
    if not _has_pip():
        raise RuntimeNotFound(
            "there is no installer", where=f"--runtime {wanted.name}", do="install uv or pip"
        )
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1)]
    tags = [word for tag in (*platforms, f"manylinux2014_{machine}") for word in ("--platform", tag)]
    run(sys.executable, "-m", "pip", "install", *_PIP, *run.patience, *tags, *target)


class _Installer:
    """Runs the steps of an installation.

    Args:
        wanted: The recipe, for errors.
        home: Working directory.
        system: The Python for which the packages are installed, for errors.
    """

    def __init__(self, wanted: Recipe, home: Path, system: str) -> None:
        self._wanted, self._home, self._system = wanted, home, system
        own = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
        # uv's timeout for connections is ten seconds by default and independent of its timeout for responses.
        waits = dict.fromkeys(("UV_HTTP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT"), str(_SILENCE_S))
        self._environment = {**waits, "UV_HTTP_RETRIES": "1", **own}
        self.patience = [] if "PIP_DEFAULT_TIMEOUT" in own else ["--timeout", str(_SILENCE_S)]

    def __call__(self, *command: str) -> None:
        """Run one command of the installation, such as pip or uv, in the folder of all runtimes.

        Raises:
            RuntimeNotFound: The command failed.
        """
        try:
            done = launcher.run(command, limit_s=_INSTALL_S, environment=self._environment, folder=self._home)
        except OSError as error:
            raise _failed(self._wanted, str(error), self._system) from error
        if done.code != 0:
            output = (done.output + b"\n" + done.log).decode("utf-8", "replace")
            raise _failed(self._wanted, output, self._system)


def _wheels(wanted: Recipe) -> list[str]:
    """Return the installer arguments for a recipe's packages."""
    alone = () if wanted.converter else ("--no-deps",)
    return ["--only-binary", ":all:", *alone, *wanted.requirements]


def _platform() -> str:
    return f"Python {sys.version_info.major}.{sys.version_info.minor} on {sysconfig.get_platform()}"


def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None


def _pip_installs_for_others() -> bool:
    """Return whether this environment's pip can install packages for an interpreter that has no pip."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
        return (int(major), int(minor)) >= (22, 3)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def _failed(wanted: Recipe, output: str, system: str) -> RuntimeNotFound:
    where = f"--runtime {wanted.name}"
    if _NO_NETWORK.search(output):
        return RuntimeNotFound(
            "it is not installed yet, and the package index is unreachable",
            where=where,
            do=f"run ortune runtime add {wanted.name} once with network access",
        )
    if _NO_SUCH.search(output):
        return UnusableBuild(
            f"the package index has no {wanted.package}=={wanted.version} for {system}",
            where=where,
            do=f"pip index versions {wanted.package} lists the available versions",
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")] or lines[-1:] or ["no message"]
    do = "fix that, and try again"
    if "space" in output.lower():
        do = "free space, and try again"
    elif "venv" in output or "ensurepip" in output:
        do = "install uv or python3-venv, and try again"
    return RuntimeNotFound(
        f"installation failed: {errors[-1]}", where=where, do=f"{do}: ortune runtime add {wanted.name}"
    )
