"""Builds of ONNX Runtime for another machine: installed here for its Python, and packed into one archive to send.

The other machine needs no network and no installer.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

from ortune.errors import RuntimeNotFound, UsageError
from ortune.records import Runtime
from ortune.runtimes import made
from ortune.runtimes.installing import PART, install_for
from ortune.runtimes.packages import Recipe, sendable

_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
"""Processor architectures with released wheels, by the name that a system reports."""
_CHUNK = 1 << 20
_one_at_a_time = threading.Lock()


def packed(name: str, there: Runtime, say: Callable[[str], None]) -> Path:
    """Return an archive of ONNX Runtime and numpy for another machine's Python, creating it if necessary.

    Args:
        name: Name of a release, or path of a wheel.
        there: The runtime of the other machine; its own ONNX Runtime is not used.
        say: Callback for progress messages.

    Raises:
        UsageError: The system, architecture or Python version of the other machine is not supported.
        RuntimeNotFound: The package index has no such build for that machine, or it cannot be installed.
    """
    recipe, host = sendable(name), there.host
    assert recipe is not None and host is not None
    machine = _MACHINES.get(host.machine.lower(), "")
    if host.system != "Linux" or not machine:
        raise UsageError(
            f"{host.system} on {host.machine} is not supported: releases are sent to Linux on x86-64 and arm64 only",
            where=f"--runtime {name}",
            do="install it there, and omit the release",
        )
    python = ".".join(there.python_version.split(".")[:2])
    if not re.fullmatch(r"3\.[0-9]{1,2}", python):  # untrusted text from the other machine
        raise UsageError(
            "its version of Python is not supported", where=there.python, do="pass one that starts a Python 3"
        )
    place = made.packed_folder() / f"{_key(recipe)}-py{python}-linux-{machine}.zip"
    with _one_at_a_time:  # hosts of a cluster are examined at the same time
        return place if place.is_file() else _fetched(recipe, place, python, machine, say)


def _fetched(recipe: Recipe, place: Path, python: str, machine: str, say: Callable[[str], None]) -> Path:
    """Install a build for another machine, pack it into an archive, and return the archive's path.

    Raises:
        RuntimeNotFound: The build cannot be installed, or the archive cannot be written.
    """
    part = place.with_name(f"{PART}{os.getpid()}-{place.stem}")
    say(f"fetching the runtime {recipe.name} for Python {python} on {machine} once, {recipe.cost}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made.sweep(place.parent)
        shutil.rmtree(part, ignore_errors=True)  # of an ended process with the same number
        part.mkdir()
        install_for(recipe, part / "packages", python=python, machine=machine, home=made.folder())
        _pack(part / "packages", part / "packed.zip")
        (part / "packed.zip").replace(place)
    except OSError as error:
        raise RuntimeNotFound(
            f"cannot be packed: {error.strerror}",
            where=str(place.parent),
            do="free space, or set XDG_CACHE_HOME",
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place


def _key(recipe: Recipe) -> str:
    """Return the recipe's name, followed by a content digest for the user's own wheel, whose content may change."""
    wheel = Path(recipe.requirements[0])
    if not wheel.is_file():
        return recipe.name
    with wheel.open("rb") as file:
        return f"{recipe.name}-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def _pack(folder: Path, place: Path) -> None:
    """Write a folder's files to an archive; equal files give equal bytes, so an archive is sent only once."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder).as_posix()
            if file.is_file() and "__pycache__" not in name:
                # By name: its date is the first of 1980, and the archive's level applies.
                with archive.open(name, "w", force_zip64=True) as packed_file, file.open("rb") as content:
                    shutil.copyfileobj(content, packed_file, _CHUNK)
