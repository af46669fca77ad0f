"""The builds of ONNX Runtime that ortune can install: names from a closed list, and versions.

Nothing else is ever handed to an installer: no address, no path, no option. A name comes from the user's own command
line, never from a plan, a bundle or a lock.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from dataclasses import dataclass

from ortune.errors import UsageError
from ortune.records import AddableRuntime

RELEASES = ("1.32.0", "1.31.1", "1.30.0", "1.29.0", "1.28.0", "1.27.0")
"""The newest patch of each of the last minor releases that were known when this was written, newest first."""

_MB = 1_000_000
_PACKAGE = re.compile(r"(onnxruntime(?:-openvino)?)==(\d{1,3}(?:\.\d{1,3}){2})")
_OPENVINO = {"1.24.1": "2025.4.1", "1.23.0": "2025.3.0", "1.22.0": "2025.1.0"}
"""Releases of onnxruntime-openvino with the OpenVINO that each was built against."""
_ABOUT_BYTES = {"onnxruntime": 150 * _MB, "onnxruntime-openvino": 370 * _MB}


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
    if name == "openvino":
        newest = next(iter(_OPENVINO))
        return _recipe(name, "onnxruntime-openvino", newest, provider="OpenVINOExecutionProvider")
    found = _PACKAGE.fullmatch(name)
    return _recipe(name, found[1], found[2]) if found else None


def require_recipe(name: str) -> Recipe:
    """What is to be installed for a name; UsageError says which names there are."""
    found = recipe(name)
    if found is None:
        raise UsageError(
            f"no runtime is called {name!r}", do=f"openvino, or a release such as onnxruntime=={RELEASES[0]}"
        )
    return found


def addable(there: Collection[str] = ()) -> tuple[AddableRuntime, ...]:
    """What is worth adding on this system, with the command for each; ``there`` are versions that it has."""
    others = [release for release in RELEASES if release not in there][:1]
    offered = [
        (f"onnxruntime=={r}", "another release of ONNX Runtime, to compare with yours") for r in others
    ]
    if sys.platform in ("linux", "win32"):
        what = "OpenVINO's kernels for the CPU, Intel's and AMD's; on some models half the time, on others nothing"
        offered.insert(0, ("openvino", what))
    made = [(require_recipe(name), what) for name, what in offered]
    return tuple(
        AddableRuntime(
            name=each.name,
            what=what,
            packages=each.requirements,
            about_bytes=_ABOUT_BYTES[each.package],
            command=f"ortune runtime add {each.name}",
        )
        for each, what in made
    )


def _recipe(name: str, package: str, version: str, *, provider: str = "") -> Recipe:
    release = tuple(int(part) for part in version.split("."))
    # Releases before 1.19 were built against numpy 1.
    wanted = [f"{package}=={version}", "numpy<2" if release < (1, 19) else "numpy<3"]
    if package == "onnxruntime-openvino" and sys.platform != "linux":
        # On Linux the wheel brings OpenVINO's libraries itself.
        if version not in _OPENVINO:
            known = ", ".join(f"{package}=={each}" for each in _OPENVINO)
            raise UsageError(f"it is not known which OpenVINO {name} needs", do=f"one of {known}")
        wanted.append(f"openvino=={_OPENVINO[version]}")
    return Recipe(name=name, package=package, version=version, requirements=tuple(wanted), provider=provider)
