"""Memory allocators that can be preloaded in place of the system's."""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from ortune import launcher

INSTALL_HINTS: Mapping[str, str] = {
    "mimalloc": "apt install libmimalloc2.0, dnf install mimalloc or brew install mimalloc",
    "jemalloc": "apt install libjemalloc2, dnf install jemalloc or brew install jemalloc",
    "tcmalloc": "apt install libtcmalloc-minimal4, dnf install gperftools-libs or brew install gperftools",
}
"""The supported allocators, with install commands for messages."""

_LDCONFIG_TIMEOUT_S = 5.0
_USUAL_FOLDERS = (
    "usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
    "usr/local/lib", "usr/local/lib64", "lib", "lib64", "opt/homebrew/lib",
)  # fmt: skip


def allocator_library(
    name: str, root: Path = Path("/"), environment: Mapping[str, str] | None = None
) -> Path | None:
    """Return the shared library to preload for an allocator, or None if it is not installed.

    Looks in ``$LD_LIBRARY_PATH`` (``$DYLD_LIBRARY_PATH`` on macOS), then the linker's cache, then the usual folders. A
    minimal build is preferred: it is the same allocator without a heap profiler and its dependencies. Libraries for
    other processors are skipped, since preloading them would only cause a warning.

    Args:
        name: Name of the allocator.
        root: Root of the file tree.
        environment: Environment variables; by default those of this process.
    """
    variables = os.environ if environment is None else environment
    paths = [variables.get(variable, "") for variable in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")]
    own = [Path(part) for text in paths for part in text.split(os.pathsep) if part]
    usual = [root / folder for folder in _USUAL_FOLDERS]
    cached = _linker_cache() if root == Path("/") else ()
    for stem in (f"lib{name}_minimal", f"lib{name}"):
        candidates = [
            *(path for folder in own for path in _libraries(folder, stem)),
            *(path for path in cached if _is_library(path.name, stem)),
            *(path for folder in usual for path in _libraries(folder, stem)),
        ]
        for path in candidates:
            if _loads_here(path):
                return path
    return None


def allocators(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the installed allocators by name, with the paths of their libraries."""
    libraries = {name: allocator_library(name, root, environment) for name in INSTALL_HINTS}
    return {name: str(path) for name, path in libraries.items() if path is not None}


def _is_library(filename: str, stem: str) -> bool:
    return re.fullmatch(re.escape(stem) + r"(\.so(\.\d+)*|(\.\d+)*\.dylib)", filename) is not None


def _libraries(folder: Path, stem: str) -> list[Path]:
    try:
        names = [entry.name for entry in folder.iterdir() if entry.name.startswith(stem)]
    except OSError:
        return []
    # The shortest versioned name is the one that programs link to (libjemalloc.so.2).
    return [folder / name for name in sorted(names, key=len) if _is_library(name, stem)]


def _linker_cache() -> tuple[Path, ...]:
    # /sbin is not on every user's PATH, and ldconfig may be missing (musl, macOS).
    tool = launcher.program("ldconfig") or launcher.program("ldconfig", "/sbin:/usr/sbin")
    if not tool or sys.platform != "linux":
        return ()
    try:
        done = launcher.run([tool, "-p"], limit_s=_LDCONFIG_TIMEOUT_S)
    except OSError:
        return ()
    lines = done.output.decode("utf-8", "replace").splitlines()
    return tuple(Path(line.rpartition(" => ")[2]) for line in lines if " => " in line)


def _loads_here(path: Path) -> bool:
    """Return whether the library is for this interpreter's processor, by the ELF headers of both."""
    if path.suffix == ".dylib":
        return path.is_file()
    kind = _elf_kind(path)
    return kind is not None and kind == _elf_kind(Path(sys.executable))


def _elf_kind(path: Path) -> tuple[int, int, int] | None:
    """Return word size, byte order and processor of an ELF file; None for other files, such as linker scripts."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return None
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    (processor,) = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])
    return head[4], head[5], processor
