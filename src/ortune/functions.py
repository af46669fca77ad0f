"""Presentation of the verbs' Python functions: signature, documentation and errors."""

from __future__ import annotations

import contextlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from ortune.errors import OrtuneError, UsageError
from ortune.verbs._shared.spelling import (
    AnyPath,
    Argument,
    Option,
    OptionField,
    as_written,
    option_fields,
)

ARGUMENTS, PYTHON = "Arguments", "Python alone"
"""Headings of option groups without a panel in the command line's help."""
OF_PYTHON = (
    ("progress", "bool", "Show a bar in a notebook, True by default."),
    ("watcher", "ortune.Watcher", "Receives progress and sentences, and can stop the measurement."),
)
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)(?: ('[^']*'|[^\s,;()]*[0-9=:/.][^\s,;()]*|[A-Z][A-Z.]+\b))?")
_COMMAND = re.compile(r"\bortune(?: [a-z]+)? .*", re.DOTALL)


class ShortSignature(inspect.Signature):
    """A signature that prints only the arguments of most calls; ``parameters`` contains every option."""

    def __str__(self) -> str:
        """Return the positional arguments, ``**options`` and the result."""
        shown = []
        for parameter in self.parameters.values():
            if parameter.kind is parameter.VAR_POSITIONAL:
                shown.append(f"*{parameter.name}")
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
                shown.append(f"{parameter.name}{default}")
        return f"({', '.join([*shown, '**options'])}) -> {self.return_annotation}"

    def format(self, *, max_width: int | None = None) -> str:
        """Return the same text as ``str()``; ``help()`` calls this method from Python 3.13 on."""
        return str(self)


def signature(options: type, result: str) -> ShortSignature:
    """Return the signature of a verb's function: arguments by position, options by name.

    Args:
        options: The options of the verb.
        result: Name of the function's return type.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [_parameter(field) for field in option_fields(options)]
    parameters.append(inspect.Parameter("progress", keyword, default=True, annotation=bool))
    parameters.append(inspect.Parameter("watcher", keyword, default=None))
    return ShortSignature(parameters, return_annotation=result)


def _parameter(field: OptionField) -> inspect.Parameter:
    argument = isinstance(field.spelling, Argument)
    many = argument and field.many
    kind = (
        inspect.Parameter.VAR_POSITIONAL
        if many
        else inspect.Parameter.POSITIONAL_OR_KEYWORD
        if argument
        else inspect.Parameter.KEYWORD_ONLY
    )
    default = inspect.Parameter.empty if field.required or many else field.default
    several = field.many and not argument
    annotation = field.type | str | Mapping[str, object] if several else field.type
    if isinstance(field.spelling, Argument) and field.spelling.each:
        annotation = field.type | Iterable[AnyPath]
    return inspect.Parameter(field.name, kind, default=default, annotation=annotation)


def documentation(about: str, raises: str, options: type, example: str) -> str:
    """Return the docstring of a verb's function: its purpose, its options by group, and an example.

    Args:
        about: Purpose of the verb.
        raises: Text on the return value and the errors.
        options: The options of the verb.
        example: Example call.
    """
    parts = [about]
    for heading, lines in options_by_section(options).items():
        parts.append("\n".join([f"{heading}:", *(_wrapped(*line) for line in lines)]))
    return "\n\n".join([*parts, f"Example:\n    >>> {example}", raises])


def _wrapped(name: str, kind: str, help_: str) -> str:
    return textwrap.fill(f"{name} ({kind}): {help_}", 110, initial_indent=" " * 4, subsequent_indent=" " * 8)


def options_by_section(options: type) -> dict[str, list[tuple[str, str, str]]]:
    """Return (name, type, meaning) of each option, by its section of the help."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    fields = flags(options)
    for field in option_fields(options):
        spelling = field.spelling
        if isinstance(spelling, Option) and spelling.hidden:
            continue
        heading = (
            PYTHON if spelling is None else ARGUMENTS if isinstance(spelling, Argument) else spelling.panel
        )
        groups.setdefault(heading, []).append(
            (field.name, type_words(field), as_arguments(meaning(field), fields))
        )
    groups.setdefault(PYTHON, []).extend(OF_PYTHON)
    groups[PYTHON] = groups.pop(PYTHON)  # last
    return groups


def type_words(field: OptionField) -> str:
    """Describe the types that a function accepts for a field: "path", "str or number", "str, list or dict"."""
    if field.many:
        return "path" if isinstance(field.spelling, Argument) else "str, list or dict"
    if get_origin(field.type) is Literal:
        return "str"
    names = {part.__name__ for part in get_args(field.type) or (field.type,) if part is not NoneType}
    if names == {"str", "Path"}:
        return "path"
    return "str or number" if names in ({"str", "float"}, {"str", "int"}) else " or ".join(sorted(names))


def value_of(field: OptionField, value: Any) -> Any:
    """Return a function's argument in the form of the verb's options.

    Raises:
        UsageError: If the argument does not accept the value's type.
    """
    listed = isinstance(value, list | tuple)
    if isinstance(field.spelling, Option) and field.spelling.metavar.endswith(",T]") and listed:
        value = ",".join(map(str, value))
    if not _takes(field, value):
        raise UsageError(
            f"{type(value).__name__} is not accepted: {value!r}",
            where=field.name,
            do=f"accepted: {type_words(field)}",
        )
    return as_written(field, value)


def _takes(field: OptionField, value: Any) -> bool:
    if field.many:
        parts = value if isinstance(value, Sequence | Set) and not isinstance(value, str) else [value]
        return isinstance(value, Mapping) or all(isinstance(part, str | PathLike | Real) for part in parts)
    kinds = {
        str if isinstance(part, str) or get_origin(part) is Literal else part for part in _parts(field.type)
    }
    taken: dict[Any, Any] = {
        float: Real,
        int: Integral,
        Path: PathLike,
        str: str | PathLike,
        bool: bool | Integral,
    }
    return field.spelling is None or any(isinstance(value, taken.get(part, part)) for part in kinds)


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or a single type."""
    return (annotation,) if get_origin(annotation) is Literal else get_args(annotation) or (annotation,)


def meaning(field: OptionField) -> str:
    """Return the description of a field, with its default and, if its value has a format, that format."""
    if field.spelling is None:
        return "Also set by what needs it."
    text = field.spelling.help.removesuffix(".")
    metavar = field.spelling.metavar
    if isinstance(field.spelling, Option) and re.search(r"[a-z0-9]", metavar) and not field.many:
        text += f" ({metavar})"
    if field.default not in (None, "", (), False) and not field.required:
        text += f"; {field.default!r} by default"
    return f"{text}."


def as_arguments(text: str, fields: Mapping[str, OptionField]) -> str:
    """Return a text with command-line options written as function arguments: "--budget 40s" becomes "budget='40s'".

    Args:
        text: The text; commands in it are unchanged.
        fields: Fields of the verb by flag; other options are unchanged.
    """
    begin = _COMMAND.search(text)
    words, command = (text, "") if begin is None else (text[: begin.start()], begin[0])

    def renamed(match: re.Match[str]) -> str:
        field, value = fields.get(match[1]), match[2]
        if field is None:
            return match[0]
        if field.type is bool:
            off = match[1].startswith("--no-") and not field.name.startswith("no_")
            return f"{field.name}={not off}" + (f" {value}" if value else "")
        if value is None:
            return field.name
        return f"{field.name}={value if value.startswith(chr(39)) else repr(value)}"

    return _FLAG.sub(renamed, words) + command


def flags(options: type) -> dict[str, OptionField]:
    """Return the fields of a verb by the flags of the command line."""
    return {flag: field for field in option_fields(options) for flag in _flags(field)}


def _flags(field: OptionField) -> Iterator[str]:
    if isinstance(field.spelling, Option):
        yield from (flag for flag in (*field.spelling.flag.split("/"), field.spelling.also) if flag)


@contextlib.contextmanager
def naming_arguments(options: type) -> Iterator[None]:
    """Rewrite errors raised in a ``with`` block: messages name the function's arguments, not command-line options."""
    try:
        yield
    except OrtuneError as error:
        fields = flags(options)
        error.what, error.where, error.do = (
            as_arguments(text, fields) for text in (error.what, error.where, error.do)
        )
        raise
