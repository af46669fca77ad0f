"""What the writer of ``ortune.json``, its reader and ``ortune.load`` must agree on. Standard library alone."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath, PureWindowsPath

SCHEMA = "ortune/bundle/1"
INDEX = "ortune.json"

_THREADS = re.compile(r"min\((\d{1,9}), ?cpus\)")


def is_inside(name: str) -> bool:
    """Whether a path is relative and stays in its folder, read as a path of either kind of system."""
    readings = (PurePosixPath(name), PureWindowsPath(name))
    return bool(name) and not any(path.anchor or ".." in path.parts for path in readings)


def thread_cap(value: object) -> int | None:
    """The 4 of ``min(4, cpus)``; None for any other value."""
    found = _THREADS.fullmatch(value) if isinstance(value, str) else None
    return int(found.group(1)) if found else None


def as_text(value: object) -> str:
    """A value as ONNX Runtime's string options want it."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def put_option(options: dict[str, str], key: str, text: str) -> None:
    """Puts a value into a provider's options; the parts of a key lead into the JSON text that such an option is."""
    name, *way = key.split("/")
    tree = json.loads(options.get(name, "{}")) if way else {}
    node = tree
    for part in way[:-1]:
        node = node.setdefault(part, {})
    if way:
        node[way[-1]] = text
    options[name] = json.dumps(tree) if way else text
