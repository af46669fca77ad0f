"""Environments that ortune creates once in the cache folder, each with one build of ONNX Runtime.

An environment is created under a temporary name and renamed after its ONNX Runtime was imported and has the requested
version, so an existing environment is complete.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.metadata
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil

from ortune import launcher
from ortune.catalogue.providers import CPU
from ortune.errors import RuntimeNotFound, UsageError
from ortune.records import AddableRuntime, Adoption, InstalledPackage, MadeRuntime, Runtime
from ortune.runtimes import node, packages
from ortune.runtimes.converters import CONVERTERS
from ortune.runtimes.environment import clean_environment
from ortune.runtimes.installing import PART, UnusableBuild, install
from ortune.runtimes.packages import Recipe, recipes, require_recipes
from ortune.runtimes.probe import try_provider
from ortune.runtimes.runtimes import find_runtime, interpreter, probe
from ortune.store.places import cache_folder

ABOUT = "runtime.json"
_GONE = ".gone-"
_PYTHON = f"py{sys.version_info.major}.{sys.version_info.minor}"
_ARCHIVE = re.compile(r"(?:-[0-9a-f]{16})?-py3\.[0-9]+-linux-\w+\.zip")
"""End of an archive's name; it contains a digest if the archive was made from the user's own wheel."""
_IMPORT_S = 300.0  # TensorFlow, from a cold disk


def folder() -> Path:
    """Return the folder that contains the environments."""
    return cache_folder() / "runtimes"


def packed_folder() -> Path:
    """Return the folder that contains the archives for other machines."""
    return folder() / "packed"


def installed() -> list[MadeRuntime]:
    """Return every complete environment, sorted by name, including those made by ortune under another Python."""
    places = sorted(folder().glob("*/" + ABOUT))
    runtimes = (_read(place.parent) for place in places if not place.parent.name.startswith("."))
    return [runtime for runtime in runtimes if runtime is not None]


def require_installed(name: str, say: Callable[[str], None]) -> MadeRuntime:
    """Return the environment with a name, installing it if necessary.

    Args:
        name: Name of a recipe in ``packages``.
        say: Callback for progress messages.

    Raises:
        UsageError: The name is unknown.
        RuntimeNotFound: The environment could not be installed; the message gives the reason.
    """
    wanted, passed_over = packages.usable(name)
    home = folder()
    name = wanted[0].name if wanted else name  # not for a path, which is not the name of a release
    if wanted and wanted[0].note:
        say(wanted[0].note)
    place = home / f"{name}-{_PYTHON}"
    existing = _read(place)
    if existing is not None:
        return existing
    if not wanted:
        raise RuntimeNotFound(
            f"not supported on this machine: {'; '.join(passed_over)}", where=f"--runtime {name}"
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeNotFound(
            f"cannot create an environment there: {error.strerror}",
            where=str(home),
            do="set XDG_CACHE_HOME to a writable folder",
        ) from error
    sweep(home)
    for number, recipe in enumerate(wanted, 1):
        try:
            return _make(recipe, place, passed_over, say)
        except UnusableBuild as error:
            if number == len(wanted):
                raise
            passed_over.append(f"{recipe.package}: {error.what}")
    raise AssertionError("a recipe makes an environment or raises")


def _make(wanted: Recipe, place: Path, passed_over: Sequence[str], say: Callable[[str], None]) -> MadeRuntime:
    """Create one environment from a recipe, after reporting the recipes that were skipped."""
    home = place.parent
    for reason in passed_over:
        say(f"passed over: {reason}")
    say(f"installing the runtime {wanted.name} ({wanted.kind}) once, {wanted.cost}, in {place}")
    part = home / f"{PART}{os.getpid()}-{wanted.name}"
    try:
        install(wanted, part, home)
        about = msgspec.structs.replace(_described(wanted, part, place), passed_over=tuple(passed_over))
        (part / ABOUT).write_bytes(msgspec.json.encode(about))
        # Another process may have made the environment meanwhile. It is equivalent and may be in use, so it stays.
        if _read(place) is None:
            if place.exists():  # an environment without its interpreter
                _discard(place)
            with contextlib.suppress(OSError):
                part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    done = _read(place)
    if done is None:
        raise RuntimeNotFound("the environment was moved after its creation", where=str(place))
    return done


def addable(versions: Collection[str] = ()) -> tuple[AddableRuntime, ...]:
    """Return the recommended runtimes that are not installed; ``versions`` lists the releases found on this machine."""
    there = {runtime.name for runtime in installed()}
    return tuple(runtime for runtime in packages.addable(versions) if runtime.name not in there)


def find(named: str | None, say: Callable[[str], None]) -> Runtime:
    """Return the runtime that ``--runtime`` names, installing it if necessary, or the user's own.

    onnxruntime-node is combined with the usual interpreter, which rewrites models and computes reference outputs.

    Raises:
        RuntimeNotFound: The runtime cannot be installed or is not usable, or no runtime was found.
    """
    if named in CONVERTERS:
        do = "pass an environment with onnxruntime, or omit --runtime"
        raise UsageError("it converts models and has no onnxruntime", where=f"--runtime {named}", do=do)
    if named is not None and recipes(named):
        return require_installed(named, say).runtime
    if named is not None and node.named(named):
        return msgspec.structs.replace(find_runtime(), node=node.find(named, say))
    return find_runtime(named)


def canonical_name(name: str) -> str:
    """Return the canonical name of a runtime that is given by its name or by the path of a wheel or folder."""
    return require_recipes(name)[0].name


def remove(name: str) -> bool:
    """Remove an environment and its archives; return whether any existed.

    Raises:
        UsageError: The name is unknown.
    """
    name = canonical_name(name)
    places = [environment for environment in folder().glob(f"{name}-py*") if environment.is_dir()]
    for place in places:
        _discard(place)
    archives = [
        archive
        for archive in packed_folder().glob(f"{glob.escape(name)}-*.zip")
        if _ARCHIVE.fullmatch(archive.name.removeprefix(name))
    ]
    for archive in archives:
        archive.unlink(missing_ok=True)
    return bool(places or archives)


def _discard(place: Path) -> None:
    # Renamed first, so that a half-removed folder is never taken for an environment.
    gone = place.with_name(f"{_GONE}{os.getpid()}-{place.name}")
    place.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def sweep(home: Path) -> None:
    """Remove unfinished folders left by processes that have ended."""
    for left in (*home.glob(f"{PART}*"), *home.glob(f"{_GONE}*")):
        owner = left.name.split("-")[1]
        if not owner.isdigit() or not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)


def _read(place: Path) -> MadeRuntime | None:
    """Return the description of an environment; None if it has no description or interpreter."""
    try:
        about = msgspec.json.decode((place / ABOUT).read_bytes(), type=MadeRuntime)
    except (OSError, msgspec.MsgspecError):
        return None
    # The folder may be a copy from another machine, so only an interpreter inside it is started.
    python = interpreter(str(place))
    if not python:
        return None
    return msgspec.structs.replace(about, runtime=msgspec.structs.replace(about.runtime, python=python))


def _described(wanted: Recipe, part: Path, place: Path) -> MadeRuntime:
    """Return the description of an environment after checking that it works."""
    probed = _converter(wanted, part) if wanted.converter else probe(str(part))
    if wanted.converter:
        return _about(wanted, part, place, probed)
    if probed.error or probed.ort_version != wanted.version:
        what = probed.error or f"it holds onnxruntime {probed.ort_version}"
        raise RuntimeNotFound(f"it is installed but does not work: {what}", where=f"--runtime {wanted.name}")
    emulated = False
    if wanted.provider:
        provider = wanted.provider
        answer = try_provider(probed.python, provider.name, dict(provider.needs))
        if provider.name not in answer.session_providers:
            why = answer.error or answer.log or "the session fell back to the CPU"
            raise UnusableBuild(
                f"it was installed but {provider.name} is not usable: {why}", where=f"--runtime {wanted.name}"
            )
        emulated = provider.emulated_by(answer.devices)
    return _about(wanted, part, place, probed, emulated)


def _converter(wanted: Recipe, part: Path) -> Runtime:
    """Return a converter's interpreter as a runtime, after checking that the converter's modules can be imported."""
    assert wanted.converter is not None
    python = interpreter(str(part))
    code = f"import sys, {', '.join(wanted.converter.imports)}; print(sys.version.split()[0])"
    # Isolated: with -c alone, modules of the current folder would be imported in place of the framework's.
    ended = launcher.run([python, "-I", "-c", code], limit_s=_IMPORT_S, environment=clean_environment())
    if ended.code != 0:
        lines = ended.log.decode("utf-8", "replace").split("\n")
        why = next((line.strip() for line in reversed(lines) if line.strip()), "it exited without a message")
        raise UnusableBuild(
            f"it is installed but does not work: {why}", where=f"ortune runtime add {wanted.name}"
        )
    version = ended.output.decode("utf-8", "replace").split()[-1]
    return Runtime(python=python, python_version=version, origin="made")


def _about(wanted: Recipe, part: Path, place: Path, probed: Runtime, emulated: bool = False) -> MadeRuntime:
    size = sum(file.stat().st_size for file in part.rglob("*") if file.is_file() and not file.is_symlink())
    runtime = msgspec.structs.replace(
        probed,
        python=str(place / Path(probed.python).relative_to(part)),
        origin="--runtime",
        name=wanted.name,
    )
    return MadeRuntime(
        name=wanted.name,
        requirements=wanted.requirements,
        runtime=runtime,
        packages=tuple(_packages(part)),
        size_bytes=size,
        emulated=emulated,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _packages(environment: Path) -> Iterator[InstalledPackage]:
    variables = {"base": str(environment), "platbase": str(environment)}
    site = sysconfig.get_path("purelib", "venv", variables)
    for wheel in sorted(importlib.metadata.distributions(path=[site]), key=lambda wheel: wheel.name):
        files = (Path(str(file.locate())) for file in wheel.files or ())
        yield InstalledPackage(
            name=wheel.name,
            version=wheel.version,
            license=_license(wheel),
            size_bytes=sum(file.stat().st_size for file in files if file.is_file()),
        )


def _license(wheel: importlib.metadata.Distribution) -> str:
    """Return the licence in a wheel's metadata: the expression, else the classifiers, else the text's first line."""

    def said(field: str) -> list[str]:
        return [str(value) for value in wheel.metadata.get_all(field) or ()]

    named = [text.rpartition(" :: ")[2] for text in said("Classifier") if text.startswith("License ::")]
    own = [text.strip().partition("\n")[0] for text in said("License")]
    return ", ".join(said("License-Expression") or named or own)


def _adopted(environment: MadeRuntime) -> list[InstalledPackage]:
    return [package for package in environment.packages if package.name != "numpy"]


def pinned(environment: MadeRuntime) -> tuple[str, ...]:
    """Return an environment's packages as ``name==version`` requirements, for a bundle tuned in the environment."""
    return tuple(f"{package.name}=={package.version}" for package in _adopted(environment))


def adoption(runtime: Runtime, today: Runtime) -> Adoption | None:
    """Return the requirements for replacing today's runtime with one made by ortune; None for any other runtime."""
    about = (
        next((environment for environment in installed() if environment.name == runtime.name), None)
        if runtime.name
        else None
    )
    if about is None:
        return None
    new = _adopted(about)
    return Adoption(
        requirements=pinned(about),
        instead_of="" if today.package in {package.name for package in new} else today.package or CPU.wheel,
        size_bytes=sum(package.size_bytes for package in new),
        licenses=tuple(package.license for package in new),
    )


def check_names(names: tuple[str, ...]) -> None:
    """Raise UsageError if there are no names or a name is unknown, before anything is installed or removed."""
    if not names:
        raise UsageError("no runtime was given", do=f"e.g. {packages.addable()[0].command}")
    for name in names:
        require_recipes(name)
