"""Builds of ONNX Runtime, and converters, that ortune can install: names from a closed list, and versions.

Installers receive only packages from this list, or an ONNX Runtime wheel that the user names by path; they never
receive a URL or an option. A name comes from the user's own command line, never from a plan, a bundle or a lock. Size
and licence of each wheel are in ``wheels.json``, which ``tools/make_wheels.py`` writes from the package index.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import json
import platform
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ortune import files
from ortune.catalogue.provider import Build, Provider
from ortune.catalogue.providers import CPU, of_target, providers_with
from ortune.errors import UsageError
from ortune.printable import operand
from ortune.records import AddableRuntime
from ortune.runtimes import nncf
from ortune.runtimes.converters import CONVERTERS, Converter
from ortune.runtimes.local_support import lacking
from ortune.runtimes.native import native
from ortune.runtimes.runtimes import interpreter

RELEASES = ("1.32.0", "1.31.1", "1.30.0", "1.29.0", "1.28.0", "1.27.0")
"""The latest patch release of each recent minor version, newest first."""

NUMPY, OLD_NUMPY = "numpy<3", "numpy<2"
AT = "@"
"""Separator between a release and the script of the machine that it is sent to: ``onnxruntime==1.31.1@./on-board``."""
LOCAL = "+local"
"""Name suffix of a runtime that was made from the user's own wheel."""

_PACKAGE = re.compile(r"([a-z-]+)==(\d{1,3}(?:\.\d{1,3}){2})(\+local)?")
_WHEEL = re.compile(r"(onnxruntime[a-z_]*)-(\d{1,3}(?:\.\d{1,3}){2})-[\w.-]+\.whl")
_PLAIN_BYTES = 150_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Packages of an environment for a runtime or a converter.

    Attributes:
        name: Value of ``--runtime``.
        package: Wheel with ONNX Runtime, or its plug-in.
        version: The version of ONNX Runtime.
        requirements: Packages to install; ONNX Runtime is installed without its dependencies, which trials do not need.
        provider: The execution provider that the name refers to; None if the name refers to a build.
        build: The build; None for a release of the plain onnxruntime.
        converter: The framework with its converter, if the environment converts models; None for a runtime.
        note: Message shown before the installation; "" for none.
    """

    name: str
    package: str
    version: str
    requirements: tuple[str, ...]
    provider: Provider | None = field(default=None)
    build: Build | None = None
    converter: Converter | None = None
    note: str = ""

    @property
    def kind(self) -> str:
        """Kind of the environment, in a few words."""
        if self.converter is not None:
            return self.converter.what
        if self.name == nncf.NNCF:
            return nncf.WHAT
        return "a plug-in for a standard onnxruntime" if self.build and self.build.beside else "a whole build"

    @property
    def download_bytes(self) -> int:
        """Sum of the known download sizes in bytes."""
        wanted = [whole(self.requirements)] if self.converter else self.requirements
        return sum(wheels().get(wheel, (0, ""))[0] for wheel in wanted)

    @property
    def cost(self) -> str:
        """Description of the download: each wheel with its licence and size, and the sum of the known sizes."""
        listed = wheels()
        parts = ", ".join(
            _priced(wheel, *listed[wheel]) if wheel in listed else wheel for wheel in self.requirements
        )
        unknown = not self.converter and not set(self.requirements) <= set(listed)
        total = f"{'more than ' if unknown else ''}{self.download_bytes / 1e6:.0f} MB to download"
        disk = f", about {self.converter.about_bytes / 1e6:.0f} MB on disk" if self.converter else ""
        return f"{parts}; {total}{disk}"


def _priced(wheel: str, size: int, license: str) -> str:
    return f"{wheel} ({license}, {size / 1e6:.{0 if size > 1e6 else 1}f} MB)"


@functools.cache
def wheels() -> dict[str, tuple[int, str]]:
    """Return the size in bytes and the licence of each wheel that can be installed by name, by ``name==version``."""
    text = importlib.resources.files("ortune.runtimes").joinpath("wheels.json").read_text("utf-8")
    return {wheel: (size, license) for wheel, (size, license) in json.loads(text).items()}


def whole(requirements: Collection[str]) -> str:
    """Return the key in ``wheels.json`` for packages together with all their dependencies."""
    return f"{' '.join(requirements)} and dependencies"


def recipes(name: str) -> tuple[Recipe, ...]:
    """Return the recipes for a name, newest first; () if the name is not that of an installable runtime."""
    if name in CONVERTERS:
        return _of_converter(CONVERTERS[name])
    if name == nncf.NNCF:
        return (Recipe(name=name, package=name, version=nncf.ORT, requirements=nncf.REQUIREMENTS),)
    if name.endswith(".whl"):
        return _of_wheel(Path(name))
    provider = of_target(name)
    if provider.builds:
        return tuple(
            _recipe(name, build.wheel, build.releases[0][0], build, provider) for build in provider.builds
        )
    match = _PACKAGE.fullmatch(name)
    build_of = {build.wheel: build for _, build in builds() if not build.beside}
    if match is None or match[1] not in (CPU.wheel, *build_of):
        return _of_native(Path(name)) if name and files.is_folder(Path(name)) else ()
    recipe = _recipe(name, match[1], match[2], build_of.get(match[1]))
    if match[3]:  # installed from a wheel file that no index has
        recipe = replace(recipe, requirements=(name, *recipe.requirements[1:]))
    return (recipe,)


def sendable(name: str) -> Recipe | None:
    """Return the recipe for a release or a wheel, which can be sent to another machine; None for all other names."""
    found = recipes(name)
    if len(found) != 1 or found[0].provider or found[0].converter or found[0].name == nncf.NNCF:
        return None
    return found[0]


def placed(script: str, release: str | None) -> str:
    """Return the value of ``--runtime`` for another machine's script and, if given, a release that is sent there."""
    return f"{release}{AT}{script}" if release else script


def split_placed(named: str) -> tuple[str, str]:
    """Return the release and the script in ``RELEASE@SCRIPT``; ("", "") for any other value."""
    for place, letter in enumerate(named):
        if letter == AT and sendable(named[:place]) is not None:
            return named[:place], named[place + 1 :]
    return "", ""


def require_recipes(name: str) -> tuple[Recipe, ...]:
    """Return the recipes for a name; if there are none, raise UsageError with the reason or the known names."""
    choices = recipes(name)
    provider = of_target(name)
    if not choices and provider.target:
        brought = "onnxruntime-web" if provider.in_page else f"every {CPU.wheel}"
        raise UsageError(
            f"no package can be installed for {name}: "
            f"{provider.by_hand or provider.otherwise or f'it is part of {brought}'}",
            do="pass an environment that has it: --runtime PATH",
        )
    if not choices and name.endswith(".whl"):
        raise UsageError(
            "it is not a readable ONNX Runtime wheel with a version such as 1.31.1",
            where=name,
            do="install it in an environment of your own and pass that: --runtime PATH",
        )
    there = not choices and bool(name) and files.is_folder(Path(name))
    if there and (found := native(Path(name))):
        what = (
            f"no released wheel has {', '.join(found.providers)}" if found.version else "no release is named"
        )
        raise UsageError(
            f"trials need a Python package, which these libraries lack, and {what}",
            where=name,
            do="build a wheel from the same sources and add that: ortune runtime add PATH.whl",
        )
    if there and not interpreter(name):
        raise UsageError(
            "no Python interpreter and no ONNX Runtime library was found there",
            where=name,
            do="pass a virtual environment, or the folder with libonnxruntime",
        )
    if there:
        raise UsageError(
            "an environment of your own is used as it is, so nothing is added",
            where=name,
            do=f"pass it to any command: --runtime {operand(name)}",
        )
    if not choices and "://" not in name and Path(name).name != name:
        raise UsageError("no such file or folder", where=name, do="check the path")
    if not choices:
        names = ", ".join(
            [*dict.fromkeys(provider.target for provider, _ in builds()), nncf.NNCF, *CONVERTERS]
        )
        raise UsageError(
            f"no runtime is called {name!r}", do=f"{names}, or a release such as {CPU.wheel}=={RELEASES[0]}"
        )
    return choices


def usable(name: str) -> tuple[list[Recipe], list[str]]:
    """Return the recipes for a name that may work on this machine, and the reasons why the others cannot."""
    fit: list[Recipe] = []
    why: list[str] = []
    for recipe in require_recipes(name):
        reason = lacking(recipe.provider, recipe.build) if recipe.provider and recipe.build else ""
        if reason:
            why.append(f"{recipe.package} {recipe.build.releases[0][0] if recipe.build else ''}: {reason}")
        else:
            fit.append(recipe)
    return fit, why


def addable(there: Collection[str] = ()) -> tuple[AddableRuntime, ...]:
    """Return the runtimes recommended for this machine, with their commands; ``there`` lists the installed versions."""
    offered = []
    for name in dict.fromkeys(provider.target for provider, _ in builds()):
        fit, _ = usable(name)
        offered += [
            (recipe, recipe.build.what, recipe.build.about_bytes)
            for recipe in fit[:1]
            if recipe.build and platform.machine() not in recipe.build.emulated_on
        ]
    # Only newer releases are recommended; `ortune history` compares with older ones.
    newer = list(itertools.takewhile(lambda release: release not in there, RELEASES))[:1]
    what = "a newer release of ONNX Runtime, to compare with yours"
    offered += [
        (recipe, what, _PLAIN_BYTES)
        for release in newer
        for recipe in require_recipes(f"{CPU.wheel}=={release}")
    ]
    offered.append((require_recipes(nncf.NNCF)[0], nncf.WHAT, nncf.ABOUT_BYTES))
    for converter in CONVERTERS.values():
        offered.append((_of_converter(converter)[0], converter.what, converter.about_bytes))
    return tuple(
        AddableRuntime(
            name=recipe.name,
            what=what,
            packages=recipe.requirements,
            about_bytes=about_bytes,
            download_bytes=recipe.download_bytes,
            command=f"ortune runtime add {recipe.name}",
            converts=recipe.name in CONVERTERS,
        )
        for recipe, what, about_bytes in offered
    )


def builds() -> Iterator[tuple[Provider, Build]]:
    """Yield each pair of a provider and one of its builds that are installed under the name of its target."""
    for provider in providers_with(lambda p: p.builds):
        for build in provider.builds:
            yield provider, build


def _of_wheel(path: Path) -> tuple[Recipe, ...]:
    """Return the recipe for the user's own wheel; () if it is not a build of ONNX Runtime."""
    match = _WHEEL.fullmatch(path.name)
    if match is None or not path.is_file():
        return ()
    named = recipes(f"{match[1].replace('_', '-')}=={match[2]}{LOCAL}")
    return tuple(replace(one, requirements=(str(path.resolve()), *one.requirements[1:])) for one in named)


def _of_native(folder: Path) -> tuple[Recipe, ...]:
    """Return the recipe for the released wheel with a library folder's release and providers; () if none exists."""
    found = native(folder)
    if found is None or not found.version:
        return ()
    targets = [of_target(name.replace("_", "-")) for name in found.providers]
    plugins = [p.target for p in targets if any(build.beside for build in p.builds)]
    wheels = {p.wheel for p in targets if p.target not in plugins}
    if len(wheels) > 1:
        return ()
    named = recipes(f"{next(iter(wheels), CPU.wheel)}=={found.version}")
    also = f"; its plug-ins are added by name: {', '.join(plugins)}" if plugins else ""
    return tuple(
        replace(one, note=f"{folder} has no Python package, so the released wheel {one.name} is used{also}")
        for one in named
    )


def _of_converter(converter: Converter) -> tuple[Recipe, ...]:
    return tuple(
        Recipe(
            name=converter.name,
            package=wanted[0].partition("==")[0],
            version=wanted[0].partition("==")[2],
            requirements=wanted,
            converter=converter,
        )
        for wanted in converter.requirements
    )


def _recipe(
    name: str, package: str, version: str, build: Build | None, provider: Provider | None = None
) -> Recipe:
    beside = build.beside if build else ""
    ort = beside or version
    # Releases before 1.19 were built against numpy 1.
    numpy = OLD_NUMPY if tuple(int(part) for part in ort.split(".")) < (1, 19) else NUMPY
    wanted = [*([f"{CPU.wheel}=={beside}"] if beside else []), f"{package}=={version}", numpy]
    if build is not None and build.library and sys.platform != "linux":
        # On Linux the wheel contains the library.
        libraries = dict(build.releases)
        if version not in libraries:
            choices = ", ".join(f"{package}=={release}" for release in libraries)
            raise UsageError(f"it is unknown which {build.library} {name} needs", do=f"one of {choices}")
        wanted.append(f"{build.library}=={libraries[version]}")
    if build is not None and provider is not None:
        wanted += build.brings
    return Recipe(
        name=name,
        package=package,
        version=ort,
        requirements=tuple(wanted),
        provider=provider,
        build=build,
    )
