"""Recorder for programs other than Python: one C file, compiled on this machine and loaded by LD_PRELOAD."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ortune import launcher, temporary
from ortune.records import SessionChange

SOURCE = Path(__file__).with_name("native.c")
VARIABLE = "LD_PRELOAD"
CHANGES = "native.txt"
"""Name of the file with the changes, in the format that the C code reads."""
COMPILERS = ("cc", "gcc", "clang")
LIMIT_S = 60.0
_NUMBERS = {
    "ORT_DISABLE_ALL": 0, "ORT_ENABLE_BASIC": 1, "ORT_ENABLE_EXTENDED": 2, "ORT_ENABLE_LAYOUT": 3, "ORT_ENABLE_ALL": 99,
    "ORT_SEQUENTIAL": 0, "ORT_PARALLEL": 1,
}  # fmt: skip
"""Values in C of ONNX Runtime's enumeration members, by name."""
_UNSAFE = frozenset("\t\n")


@cache
def library() -> str:
    """Compile the recorder and return its path; "" without a C compiler, or if the compilation fails.

    The recorder is compiled once per process and removed when the process ends. A path with spaces or colons counts as
    a failure, since LD_PRELOAD is split at these.
    """
    compiler = next(filter(None, map(launcher.program, COMPILERS)), "")
    if not compiler:
        return ""
    kept = contextlib.ExitStack()
    atexit.register(kept.close)
    place = kept.enter_context(temporary.folder()) / "ortune_native.so"
    options = ["-O2", "-w", "-shared", "-fPIC", "-fvisibility=hidden"]
    try:
        done = launcher.run(
            [compiler, *options, "-o", str(place), str(SOURCE), "-ldl", "-lpthread"], limit_s=LIMIT_S
        )
    except OSError:
        return ""
    return str(place) if done.code == 0 and " " not in str(place) and ":" not in str(place) else ""


def preloaded(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variable LD_PRELOAD with the recorder after the user's libraries; {} if there is no recorder."""
    path = library()
    return {VARIABLE: ":".join(filter(None, (given.get(VARIABLE, ""), path)))} if path else {}


def without(value: str) -> str:
    """Return a recorded value of LD_PRELOAD without the recorder."""
    return ":".join(path for path in value.replace(" ", ":").split(":") if path and path != library())


def lines(changes: Sequence[SessionChange]) -> str:
    """Return changes as tab-separated lines: index, model sha256, model size, kind, key, value, setting in words."""
    found = []
    for number, change in enumerate(changes):
        settings = [("option", key, _number(value)) for key, value in change.options.items()]
        settings += [("entry", key, value) for key, value in change.entries.items()]
        settings += [("share", "", "")] if change.share else []
        settings += [("provider", "", "")] if change.providers else []
        settings += [("model", "", "")] if change.replacement else []
        words = {what.partition("=")[0]: what for what in change.what}
        for place, sha256 in enumerate(change.sha256):
            size = change.sizes[place] if place < len(change.sizes) else 0
            for kind, key, value in settings or [("none", "", "")]:
                what = words.get(key.rpartition(".")[2], f"{key}={value}")
                fields = (str(number), sha256, str(size), kind, key or "-", str(value) or "-", what or "-")
                if not _UNSAFE & set("".join(fields)):
                    found.append("\t".join(fields))
    return "".join(f"{line}\n" for line in found)


def _number(value: object) -> int | str:
    if isinstance(value, bool | int):
        return int(value)
    return _NUMBERS.get(str(value), str(value))
