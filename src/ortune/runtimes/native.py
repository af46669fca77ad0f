"""A folder with ONNX Runtime's libraries and no Python: its release, and the providers that have libraries there."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from pathlib import Path

from ortune.runtimes.runtimes import interpreter

_LIBRARY = re.compile(r"libonnxruntime(?:\.so|\.dylib)?(?:\.[\d.]+)?(?:\.dylib)?|onnxruntime\.dll")
_IN_NAME = re.compile(r"\.(\d+\.\d+\.\d+)\b")
_EXPORTED = re.compile(rb"\0VERS_(\d+\.\d+\.\d+)\0")
"""What a build for Linux calls the version of all that it exports."""
_PROVIDER = re.compile(
    r"(?:lib)?onnxruntime_providers_(?:nv_)?(\w+?)(?:_plugin)?(?:\.so(?:\.[\d.]+)?|\.dylib|\.dll)"
)
"""A provider's library, or that of its plug-in; NVIDIA's has the maker in its name."""
_SHARED = "shared"
"""Is what providers with libraries of their own have in common, and no provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """What is in such a folder.

    Attributes:
        version: Of ONNX Runtime; "" if unknown.
        providers: Those with a library there, as the library is called without what says whose or which kind it is.
    """

    version: str
    providers: tuple[str, ...]


def native(folder: Path) -> Native | None:
    """Return what is in a folder, or in its ``lib``; None if there is no library, or a Python next to it."""
    if interpreter(str(folder)):
        return None
    for place in (folder, folder / "lib"):
        files = sorted(file for file in place.iterdir() if file.is_file()) if place.is_dir() else []
        libraries = [file for file in files if _LIBRARY.fullmatch(file.name)]
        if libraries:
            matches = (_PROVIDER.fullmatch(file.name) for file in files)
            found = {match[1] for match in matches if match} - {_SHARED}
            versions = (_version(library) for library in libraries)
            return Native(version=next(filter(None, versions), ""), providers=tuple(sorted(found)))
    return None


def _version(library: Path) -> str:
    """Return the release of a library by its name, else by what it exports; it is never loaded."""
    named = _IN_NAME.search(library.name)
    if named:
        return named[1]
    with library.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                exported = _EXPORTED.search(data)
                return exported[1].decode() if exported else ""
        except ValueError:  # an empty file
            return ""
