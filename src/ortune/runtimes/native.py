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
"""Version symbol among a Linux build's exports."""
_PROVIDER = re.compile(
    r"(?:lib)?onnxruntime_providers_(?:nv_)?(\w+?)(?:_plugin)?(?:\.so(?:\.[\d.]+)?|\.dylib|\.dll)"
)
"""File name of the library of a provider or plug-in; for NVIDIA's provider it contains the vendor ("nv")."""
_SHARED = "shared"
"""Name of the library shared by providers, which is not a provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """Contents of a folder with ONNX Runtime's native libraries.

    Attributes:
        version: Release of ONNX Runtime; "" if unknown.
        providers: Providers with a library in the folder, named as the library without prefix and vendor.
    """

    version: str
    providers: tuple[str, ...]


def native(folder: Path) -> Native | None:
    """Return the contents of a folder or its ``lib``; None without a library, or with a Python interpreter."""
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
    """Return the release of a library from its name, else from its exports, without loading it; "" if unknown."""
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
