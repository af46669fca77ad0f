"""The builds of ONNX Runtime that ortune can install: names from a closed list, and versions.

Nothing else is ever handed to an installer: no address, no path, no option. A name comes from the user's own command
line, never from a plan, a bundle or a lock.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ortune.errors import UsageError
from ortune.providers import CPU, Provider, that
from ortune.providers.provider import Build
from ortune.records import AddableRuntime

RELEASES = ("1.32.0", "1.31.1", "1.30.0", "1.29.0", "1.28.0", "1.27.0")
"""The newest patch of each of the last minor releases that were known when this was written, newest first."""

_PACKAGE = re.compile(r"([a-z-]+)==(\d{1,3}(?:\.\d{1,3}){2})")
_PLAIN_BYTES = 150_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What one environment is made of.

    Attributes:
        name: What ``--runtime`` calls it.
        package: The wheel that brings ONNX Runtime.
        version: Its version.
        requirements: All that is installed, none of it with what it depends on in turn: a trial needs no more.
        provider: The execution provider that the name stands for; "" where it names a build alone.
    """

    name: str
    package: str
    version: str
    requirements: tuple[str, ...]
    provider: str = ""


def recipe(name: str) -> Recipe | None:
    """What is to be installed for a name; None for what is no name of a runtime, such as a path."""
    for provider, build in _builds():
        if name == provider.target:
            return _recipe(name, provider.wheel, build.releases[0][0], build, provider=provider.name)
    wheels = {CPU.wheel: None} | {provider.wheel: build for provider, build in _builds()}
    found = _PACKAGE.fullmatch(name)
    if found is None or found[1] not in wheels:
        return None
    return _recipe(name, found[1], found[2], wheels[found[1]])


def require_recipe(name: str) -> Recipe:
    """What is to be installed for a name; UsageError says which names there are."""
    found = recipe(name)
    if found is None:
        names = ", ".join(provider.target for provider, _ in _builds())
        raise UsageError(
            f"no runtime is called {name!r}", do=f"{names}, or a release such as {CPU.wheel}=={RELEASES[0]}"
        )
    return found


def addable(there: Collection[str] = ()) -> tuple[AddableRuntime, ...]:
    """What is worth adding on this system, with the command for each; ``there`` are versions that it has."""
    offered = [
        (require_recipe(provider.target), build.what, build.about_bytes)
        for provider, build in _builds()
        if platform.system() in provider.systems
    ]
    others = [release for release in RELEASES if release not in there][:1]
    what = "another release of ONNX Runtime, to compare with yours"
    offered += [(require_recipe(f"{CPU.wheel}=={release}"), what, _PLAIN_BYTES) for release in others]
    return tuple(
        AddableRuntime(
            name=each.name,
            what=what,
            packages=each.requirements,
            about_bytes=about_bytes,
            command=f"ortune runtime add {each.name}",
        )
        for each, what, about_bytes in offered
    )


def _builds() -> Iterator[tuple[Provider, Build]]:
    """The providers with a build that is made under the name of their target."""
    for provider in that(lambda p: p.build):
        if provider.build is not None:
            yield provider, provider.build


def _recipe(name: str, package: str, version: str, build: Build | None, *, provider: str = "") -> Recipe:
    release = tuple(int(part) for part in version.split("."))
    # Releases before 1.19 were built against numpy 1.
    wanted = [f"{package}=={version}", "numpy<2" if release < (1, 19) else "numpy<3"]
    if build is not None and sys.platform != "linux":
        # On Linux the wheel brings the library itself.
        libraries = dict(build.releases)
        if version not in libraries:
            known = ", ".join(f"{package}=={each}" for each in libraries)
            raise UsageError(f"it is not known which {build.library} {name} needs", do=f"one of {known}")
        wanted.append(f"{build.library}=={libraries[version]}")
    return Recipe(name=name, package=package, version=version, requirements=tuple(wanted), provider=provider)
