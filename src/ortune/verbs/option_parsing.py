"""What a user writes, on the command line or from Python, as the values that verbs work with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ortune.errors import UsageError
from ortune.inputs.workload import parse_dim, parse_shape
from ortune.platform.pod import PodSize
from ortune.trials.baseline import InputOptions

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(text: str | float, option: str) -> float:
    """Reads 90s, 2m, 30ms or a plain number of seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h|)\s*", str(text))
    if not found:
        raise UsageError(f"{text!r} is not a time", where=option, do="write e.g. 30ms, 90s or 2m")
    return float(found.group(1)) * _UNITS[found.group(2)]


def share(text: str | float | None, option: str) -> float | None:
    """Reads 5% or 0.05, both as 0.05."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(text))
    if not found:
        raise UsageError(f"{text!r} is not a share", where=option, do="write e.g. 5%")
    value = float(found.group(1)) / (100 if found.group(2) else 1)
    if not 0 <= value < 1:
        raise UsageError(f"{text!r} is not below 100 %", where=option, do="write e.g. 5%")
    return value


def size_bytes(text: str | int, option: str) -> int:
    """Reads 512m, 2g, 2Gi or a plain number of bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgKMG]?)(?:i?[bB])?\s*", str(text))
    if not found:
        raise UsageError(f"{text!r} is not a size", where=option, do="write e.g. 512m or 2g")
    return int(float(found.group(1)) * 1024 ** " kmg".index(found.group(2).lower() or " "))


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``a=b`` options."""
    found = {}
    for text in texts:
        left, sign, right = text.partition("=")
        if not (left and sign and right):
            raise UsageError(f"{text!r} is not a=b", where=option)
        found[left] = right
    return found


def path(given: str | Path | None) -> Path | None:
    """A path, or None."""
    return None if given is None else Path(given)


def inputs(given: dict[str, Any]) -> InputOptions:
    """The options about inputs and load, by their names on the command line.

    Raises:
        UsageError: A value cannot be read, or ``--workload`` stands beside what it already says.
    """
    fixed = [
        f"--{name.replace('_', '-')}" for name in ("shape", "dim", "inputs", "custom_ops") if given[name]
    ]
    if given["workload"] and fixed:
        raise UsageError(
            f"the workload file already says what {fixed[0]} says", where="--workload", do="give one of them"
        )
    cpus, memory = given["cpus"], given["memory"]
    pod = None
    if cpus is not None or memory is not None:
        pod = PodSize(cpus=cpus, memory_bytes=None if memory is None else size_bytes(memory, "--memory"))
    gap = seconds(given["gap"], "--gap")
    return InputOptions(
        shapes=dict(parse_shape(text) for text in given["shape"]),
        dims=dict(parse_dim(text) for text in given["dim"]),
        inputs=path(given["inputs"]),
        workload=path(given["workload"]),
        save_workload=path(given["save_workload"]),
        gap_ns=int(gap * 1e9),
        sessions=given["sessions"],
        callers=given["callers"],
        pod=pod,
        custom_ops=tuple(str(Path(library).resolve()) for library in given["custom_ops"]),
        seed=given["seed"],
        tolerance=given["tolerance"],
    )
