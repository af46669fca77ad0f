"""Default values of options from a project's ``ortune.toml`` or ``[tool.ortune]`` of ``pyproject.toml``.

The file has a table per command and a table per model. The command line takes precedence over the model's table, and
this over the command's table. The file comes with a checkout and may be untrusted: it can only set the options listed
here, and its paths must stay in its folder.
"""

from __future__ import annotations

import difflib
import os
import pkgutil
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortune import files, verbs
from ortune.errors import OrtuneError, UsageError
from ortune.printable import visible
from ortune.verbs._shared.spelling import Argument, Option, OptionField, as_written, option_fields, written

if TYPE_CHECKING:
    from ortune.records import Configured

MODELS = "models"
"""Name of the table that contains one table per model."""
OF_MODELS = frozenset({"dim", "shape", "inputs", "image", "data", "tolerance", "metric", "target", "budget"})
"""Options that a model's table can set."""
OF_COMMANDS = OF_MODELS | {
    "arrival", "callers", "cpus", "fail_on", "gap", "ignore", "max_blocks", "max_memory", "memory", "objective",
    "preview", "processes", "providers", "rate", "runs", "seed", "select", "sessions", "targets", "threshold",
    "undecided", "wait_quiet", "worth", "worth_adopting",
}  # fmt: skip
"""Options that a command's table can set."""
PATHS = frozenset({"inputs", "data"})
NAMES = ("ortune.toml", "pyproject.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Default values from a project's file for one command.

    Attributes:
        file: Path of the file; "" if there is no file.
        values: Values keyed by field name, in the form that the command line produces.
        said: The values as command-line options.
    """

    file: str = ""
    values: Mapping[str, Any]
    said: tuple[str, ...] = ()


def configurable(options: type) -> bool:
    """Return whether a project's file can set options of a command; False if the command reads the file itself."""
    names = {field.name for field in option_fields(options) if isinstance(field.spelling, Option)}
    return bool(names & OF_COMMANDS) and "no_config" not in names


def found_from(folder: Path) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """Yield the tables and the path of each configuration file in a folder and its parents, the nearest file first.

    Raises:
        UsageError: A file cannot be read.
    """
    for place in (folder, *folder.parents):
        for name in NAMES:
            path = place / name
            if files.is_file(path) and (tables := tables_of(path)) is not None:
                yield tables, path


def tables_of(path: Path) -> Mapping[str, Any] | None:
    """Return the tables of a file that configure ortune; None if the file has no such tables.

    Raises:
        UsageError: The file cannot be read, or ``tool.ortune`` is not a table.
    """
    try:
        tables: Any = tomllib.loads(files.read(path).decode())
    except (OSError, ValueError, RecursionError) as error:  # lists within lists
        raise UsageError(f"cannot be read: {error}", where=str(path), do="correct the file") from error
    if path.name == NAMES[1]:
        tool = tables.get("tool")
        tables = tool.get("ortune") if isinstance(tool, dict) else None
    if tables is None:
        return None
    if not isinstance(tables, dict):
        raise UsageError(
            "tool.ortune is not a table", where=str(path), do="write [tool.ortune.tune], for example"
        )
    return tables


def defaults(
    verb: str, options: type, typed: Collection[str], given: Mapping[str, Any], folder: Path
) -> Defaults:
    """Return the default values that a project's file adds to a command line.

    Args:
        verb: The command.
        options: Options class of the command.
        typed: Names of the fields that the command line sets.
        given: Values of the command line, keyed by field name.
        folder: The working directory.

    Raises:
        UsageError: The file sets an option that files cannot set, or a value that cannot be parsed.
    """
    tables, path = next(found_from(folder), ({}, None))
    if path is None:
        return Defaults(values={})
    _require_known(tables, path)
    fields = {_key(field): field for field in option_fields(options) if isinstance(field.spelling, Option)}
    settable = {key for key, field in fields.items() if field.name in OF_COMMANDS}
    values = dict(_table(tables.get(verb, {}), f"[{verb}]", path, settable))
    for key, each in _table(tables.get(MODELS, {}), f"[{MODELS}]", path).items():
        of_model = _table(each, f'[{MODELS}."{key}"]', path, OF_MODELS)
        if _same_file(path.parent / key, _model(options, given)):
            values |= {name: value for name, value in of_model.items() if name in fields}
    added = {
        key: _value(fields[key], value, path)
        for key, value in values.items()
        if fields[key].name not in typed
    }
    return Defaults(
        file=str(path),
        values={fields[key].name: value for key, value in added.items()},
        said=tuple(f"--{key} {_shown(value)}" for key, value in added.items()),
    )


def unmatched(folder: Path) -> list[str]:
    """Return a sentence for each model table whose name matches no file; empty if the configuration cannot be read.

    Args:
        folder: The working directory.
    """
    try:
        tables, path = next(found_from(folder), ({}, None))
    except UsageError:
        return []  # raised again where its values are read
    models = tables.get(MODELS)
    if path is None or not isinstance(models, dict):
        return []
    lost = [key for key in models if not files.exists(path.parent / key)]
    return [f'{path}: [{MODELS}."{visible(key)}"] matches no file' for key in lost]


def name_file(error: OrtuneError, configured: Configured | None) -> None:
    """Extend an error about an option that the project's file set by the name of this file.

    Args:
        error: The command's error, extended in place.
        configured: Options that the file set; None if it set none.
    """
    flags = (
        {} if configured is None else {said.partition(" ")[0]: configured.file for said in configured.options}
    )
    named = [flag for flag in error.where.replace(",", " ").split() if flag in flags]
    if named:
        do = f"{named[0]} is set by {flags[named[0]]}, which --no-config ignores"
        error.do = f"{error.do}; {do}" if error.do else do


def _require_known(tables: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError for an unknown table, such as ``[tunes]``, and for an option outside of any table."""
    commands = {info.name for info in pkgutil.iter_modules(verbs.__path__) if not info.name.startswith("_")}
    for name, value in tables.items():
        if name not in {*commands, MODELS}:
            near = difflib.get_close_matches(name, commands, n=1)
            do = (
                f"did you mean [{near[0]}]?"
                if near
                else "write it under the name of a command, such as [tune]"
            )
            raise UsageError(
                f"[{name}] is not a command" if isinstance(value, dict) else f"{name} is in no table",
                where=str(path),
                do=do,
            )


def _key(field: OptionField) -> str:
    """Return the key of an option in a table: its flag without leading dashes."""
    assert isinstance(field.spelling, Option)
    return field.spelling.flag.partition("/")[0].removeprefix("--")


def _table(value: Any, where: str, path: Path, settable: Collection[str] | None = None) -> Mapping[str, Any]:
    """Return ``value`` after checking that it is a table and sets only options in ``settable``; None allows any key."""
    if not isinstance(value, dict):
        raise UsageError(
            f"{where} is not a table", where=str(path), do=f"write {where} and a line for each option"
        )
    for key in value:
        if settable is not None and key not in settable:
            raise UsageError(
                f"{where} cannot set {key}",
                where=str(path),
                do=f"it can set {', '.join(sorted(settable))}",
            )
    return value


def _model(options: type, given: Mapping[str, Any]) -> str:
    """Return the first model of a command line, without its git revision; "" if there is no model."""
    for field in option_fields(options):
        value = given.get(field.name)
        if isinstance(field.spelling, Argument) and value:
            first = value[0] if isinstance(value, list | tuple) else value
            return str(first).partition("@")[0]
    return ""


def _same_file(ours: Path, theirs: str) -> bool:
    return bool(theirs) and os.path.realpath(ours) == os.path.realpath(theirs)


def _value(field: OptionField, value: Any, path: Path) -> Any:
    """Convert a value from the file to the form that the command line produces.

    Raises:
        UsageError: The value has a type that options do not accept, or its path is outside of the file's folder.
    """
    name = _key(field)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    flat = [part for item in parts for part in (item if isinstance(item, list) else [item])]
    many = isinstance(value, dict | list)
    if not all(isinstance(part, str | int | float) for part in flat) or (many and not field.many):
        raise UsageError(
            f"{name} = {value!r} is not understood", where=str(path), do=f"write it as --{name} takes it"
        )
    if field.name == "metric" and ":" in str(value):
        raise UsageError(
            "a configuration file cannot name a function of yours",
            where=str(path),
            do=f"pass --metric {value} on the command line",
        )
    if field.name in PATHS:
        return _inside(str(value), name, path)
    spelled = as_written(field, value)
    if field.many:
        return [written(part) for part in ([spelled] if isinstance(spelled, str) else spelled)]
    return written(spelled) if field.takes_text and not isinstance(spelled, bool) else spelled


def _inside(value: str, name: str, path: Path) -> str:
    """Resolve a path relative to the configuration file, and check that it is inside the file's folder.

    Raises:
        UsageError: The path is outside of the folder, possibly through a link.
    """
    home = os.path.realpath(path.parent)
    place = os.path.realpath(Path(home, value))
    if os.path.commonpath((home, place)) != home:
        raise UsageError(
            f"{name} = {value!r} is outside the folder of the file",
            where=str(path),
            do=f"pass --{name} on the command line",
        )
    return place


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
