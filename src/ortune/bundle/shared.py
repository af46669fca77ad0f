"""Definitions shared by the writer of ``ortune.json``, its reader and ``ortune.load``. Standard library only.

A bundle may come from a stranger: the settings that it may make are in a closed list, ``allowed.json``.
``tools/make_allowed.py`` generates it from the settings and the targets, since reading their files needs more than the
standard library.
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
"""Schema of an application's bundle, which has changes for several models."""
INDEX = "ortune.json"
WORKLOAD = "workload.json"

ALLOWED = Path(__file__).with_name("allowed.json")

_OPTION = re.compile(r"[A-Za-z0-9_.:,;+-]*")  # no path, no variable, no text with its own format
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z,]+\])?==[0-9][A-Za-z0-9.+]*")
_THREADS = re.compile(r"min\((\d{1,9}), ?cpus\)")


def is_inside(name: str) -> bool:
    """Return whether a path is relative and stays in its folder, on any system."""
    readings = (PurePosixPath(name), PureWindowsPath(name))
    return bool(name) and not any(path.anchor or ".." in path.parts for path in readings)


def require_no_way_out(folder: Path, name: str) -> None:
    """Reject a file of a bundle that is a link to a place outside of it.

    Raises:
        UsageError: The link leaves the bundle.
    """
    if not inside(folder / name, folder):
        raise UsageError(
            "it is a link to a file outside of the bundle", where=str(folder / name), do="copy the file there"
        )


def require_schema(schema: object, index: Path) -> None:
    """Reject an index unless it belongs to a single model's bundle of the supported version.

    Raises:
        UsageError: The schema is a different one.
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
    """Return the number n of a value ``min(n, cpus)``; None for any other value."""
    match = _THREADS.fullmatch(value) if isinstance(value, str) else None
    return int(match.group(1)) if match else None


def as_text(value: object) -> str:
    """Return a value in the form of ONNX Runtime's string options."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def put_option(options: dict[str, str], key: str, text: str) -> None:
    """Set a value in a provider's options; a key with "/" is a path into the JSON text of an option."""
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
    """Return the closed list: ``settings`` by name, and ``providers`` with the names of their options."""
    allowed_settings: dict[str, Any] = json.loads(ALLOWED.read_text(encoding="utf-8"))
    return allowed_settings


def applied(settings: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return a plan's settings in the form of ``Knob.applied``, with the channels from the closed list.

    Raises:
        ValueError: A setting is not in the list, or has an invalid value.
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
    """Return a stored value in the form of its channel; raise ValueError if it is invalid."""
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
    """Return the first provider option that no file may set, as ``name=value``; "" if all are allowed.

    Names that are not in the closed list, and values that are more than a number or a word, are rejected.
    """
    for name, value in options.items():
        if name not in names or not (isinstance(value, str) and _OPTION.fullmatch(value)):
            return f"{name}={value!r}"
    return ""


def pip_words(requirements: object) -> str:
    """Return a bundle's requirements as pip arguments: names with versions only, without any other syntax."""
    words = requirements if isinstance(requirements, list) else []
    return " ".join(word for word in words if isinstance(word, str) and _REQUIREMENT.fullmatch(word))
