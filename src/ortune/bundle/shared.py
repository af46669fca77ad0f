"""What the writer of ``ortune.json``, its reader and ``ortune.load`` must agree on. Standard library alone.

A bundle is a stranger's file: what it may set is a closed list, ``allowed.json``, which ``tools/make_allowed.py`` makes
of the settings and the targets, since their own files need more than the standard library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from ortune.errors import UsageError
from ortune.files import inside
from ortune.printable import operand

SCHEMA = "ortune/bundle/1"
APP_SCHEMA = "ortune/app-bundle/1"
"""Of the bundle of an application, which has changes for several models."""
INDEX = "ortune.json"
WORKLOAD = "workload.json"

ALLOWED = Path(__file__).with_name("allowed.json")

_OPTION = re.compile(r"[A-Za-z0-9_.:,;+-]*")  # no path, no variable, no text in a format of its own
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z,]+\])?==[0-9][A-Za-z0-9.+]*")
_THREADS = re.compile(r"min\((\d{1,9}), ?cpus\)")


def is_inside(name: str) -> bool:
    """Return whether a path is relative and stays in its folder, read as a path of either kind of system."""
    readings = (PurePosixPath(name), PureWindowsPath(name))
    return bool(name) and not any(path.anchor or ".." in path.parts for path in readings)


def require_no_way_out(folder: Path, name: str) -> None:
    """Refuse a file of a bundle that is a link to a place outside of it.

    Raises:
        UsageError: It leaves the bundle.
    """
    if not inside(folder / name, folder):
        raise UsageError(
            "it is a link to a file outside of the bundle", where=str(folder / name), do="copy the file there"
        )


def require_schema(schema: object, index: Path) -> None:
    """Refuse the index of a bundle that is not of one model, or of another version.

    Raises:
        UsageError: It is.
    """
    if schema == APP_SCHEMA:
        raise UsageError(
            "it is the bundle of an application, not of one model",
            where=str(index.parent),
            do=f"ortune run --with {operand(str(index.parent))} -- COMMAND",
        )
    if schema != SCHEMA:
        raise UsageError(
            f"the bundle has schema {schema!r}; {SCHEMA!r} is required",
            where=str(index),
            do="create the bundle again with ortune tune",
        )


def thread_cap(value: object) -> int | None:
    """Return the 4 of ``min(4, cpus)``; None for any other value."""
    match = _THREADS.fullmatch(value) if isinstance(value, str) else None
    return int(match.group(1)) if match else None


def as_text(value: object) -> str:
    """Return a value as ONNX Runtime's string options want it."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def put_option(options: dict[str, str], key: str, text: str) -> None:
    """Put a value into a provider's options; the parts of a key lead into the JSON text that such an option is."""
    name, *way = key.split("/")
    tree = json.loads(options.get(name, "{}")) if way else {}
    node = tree
    for part in way[:-1]:
        node = node.setdefault(part, {})
    if way:
        node[way[-1]] = text
    options[name] = json.dumps(tree) if way else text


@cache
def allowed() -> dict[str, Any]:
    """Return what a bundle may set: ``settings`` by name, and ``providers`` with the names of their options."""
    allowed_settings: dict[str, Any] = json.loads(ALLOWED.read_text(encoding="utf-8"))
    return allowed_settings


def applied(settings: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return a plan's settings as ``Knob.applied`` gives them, from the closed list alone.

    Raises:
        ValueError: One is not in the list, or has a value that it cannot have.
    """
    allowed_settings, entries = allowed()["settings"], []
    for name, value in sorted(settings.items()):
        if name not in allowed_settings:
            raise ValueError(f"{name!r} is not a setting")
        about = allowed_settings[name]
        own = {"knob": name, "channel": about["channel"], "key": about["key"], "provider": about["provider"]}
        entries.append({**own, "value": _value(name, about, value)})
    return entries


def _value(name: str, about: Mapping[str, Any], value: object) -> Any:
    """Return a stored value as its channel wants it."""
    if "values" in about and as_text(value) in about["values"]:
        return about["values"][as_text(value)]
    if "pattern" in about and isinstance(value, str) and re.fullmatch(about["pattern"], value):
        return value
    if "minimum" in about and type(value) is int and value >= about["minimum"]:
        return value
    if about.get("threads") and thread_cap(value) is not None:
        return value
    raise ValueError(f"{value!r} is not a value of {name}")


def refused_option(options: Mapping[str, object], names: Collection[str]) -> str:
    """Return the first option of a provider that no file may set, "" if it may set all.

    Refused are names that are not in the closed list, and values that are more than a number or a word.
    """
    for name, value in options.items():
        if name not in names or not (isinstance(value, str) and _OPTION.fullmatch(value)):
            return f"{name}={value!r}"
    return ""


def pip_words(requirements: object) -> str:
    """What a bundle says is to be installed, as words of pip: names with versions, and nothing else that pip takes."""
    words = requirements if isinstance(requirements, list) else []
    return " ".join(word for word in words if isinstance(word, str) and _REQUIREMENT.fullmatch(word))
