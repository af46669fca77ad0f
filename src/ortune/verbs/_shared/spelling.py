"""Command-line spelling of the fields of an options dataclass.

The command line, the Python function and the command that repeats a measurement are derived from these fields.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from ortune import files
from ortune.errors import UsageError
from ortune.printable import operand

MODEL, RUN, OUT, GATE = "What to run", "How to measure", "Output", "Gate for CI"

AnyPath = str | Path


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument of the command line.

    Attributes:
        metavar: Name in the help; in brackets if optional.
        help: One sentence.
        each: Whether several values can be passed; the command runs once per value.
    """

    metavar: str
    help: str
    each: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the command line.

    Attributes:
        flag: ``--name``; ``--name/--no-name`` for a switch that is on by default.
        metavar: The kind of value; "" for a switch.
        help: One sentence.
        panel: Section of the help.
        least: The smallest accepted number; None for no limit.
        short: ``-n``; "" for none.
        again: Whether the option affects the measurement, so that the command that repeats it includes the option.
        also: Older name that is still accepted; "" for none.
        hidden: Whether the help omits the option, because it shows the same option of another side.
        writes: Whether the option names a file that is written at the end ("model" for a model), so that its
            location is tested before work starts.
    """

    flag: str
    metavar: str
    help: str
    panel: str
    least: float | None = None
    short: str = ""
    again: bool = True
    also: str = ""
    hidden: bool = False
    writes: bool | Literal["model"] = False


@dataclass(frozen=True, slots=True)
class OptionField:
    """A field of a verb's options.

    Attributes:
        name: Name of the field and of the Python argument.
        type: Annotated type.
        default: Default value; ``dataclasses.MISSING`` if the option is required.
        spelling: Spelling on the command line; None if the option is available only from Python.
    """

    name: str
    type: Any
    default: Any
    spelling: Argument | Option | None

    @property
    def required(self) -> bool:
        """Whether a value has to be passed, because the field has no default."""
        return self.default is MISSING

    @property
    def many(self) -> bool:
        """Whether the option can be passed several times."""
        return any(get_origin(kind) is Sequence for kind in (self.type, *get_args(self.type)))

    @property
    def takes_text(self) -> bool:
        """Whether the field accepts text, so that the command line passes the value unparsed."""
        return str in (get_args(self.type) or (self.type,)) or get_origin(self.type) is Literal

    def given(self, options: Any) -> bool:
        """Return whether the value of this field in ``options`` differs from the default."""
        value = getattr(options, self.name)
        return bool(value) if self.many else value != self.default


def option_fields(options: type) -> Iterator[OptionField]:
    """Yield the fields of an options class: arguments first, then options in the order of their definition."""
    hints = get_type_hints(options, include_extras=True)
    all_fields = []
    for field in fields(options):
        kind, spelling = hints[field.name], None
        if get_origin(kind) is Annotated:
            kind, spelling = get_args(kind)
        all_fields.append(OptionField(name=field.name, type=kind, default=field.default, spelling=spelling))
    yield from sorted(all_fields, key=lambda option: not isinstance(option.spelling, Argument))


def given_flags(options: Any) -> dict[str, str]:
    """Return the flags of the options that were passed, by the names of their fields."""
    return {
        option.name: option.spelling.flag.partition("/")[0]
        for option in option_fields(type(options))
        if isinstance(option.spelling, Option) and option.given(options)
    }


def require_places(options: Any) -> dict[str, Path]:
    """Return the files that will be written, keyed by option flag, after checking that they are writable.

    Raises:
        UsageError: A file cannot be written.
    """
    places = {}
    for option in option_fields(type(options)):
        spelling, place = option.spelling, getattr(options, option.name)
        if isinstance(spelling, Option) and spelling.writes and place is not None:
            places[spelling.flag] = Path(place)
            files.require_writable(Path(place), spelling.flag, for_model=spelling.writes == "model")
    return places


def with_timeline(options: Any) -> Any:
    """Return the options with ``timeline`` switched on if the verb has this option, because pages show the timeline."""
    names = (option.name for option in option_fields(type(options)))
    return replace(options, timeline=True) if "timeline" in names else options


def words(options: Any, *, without: Sequence[str] = ()) -> list[str]:
    """Return the options that differ from their defaults and affect the measurement, as command-line arguments.

    ``without`` contains names of fields to leave out.
    """
    line: list[str] = []
    for option in option_fields(type(options)):
        value = getattr(options, option.name)
        if option.name in without or value is None:
            continue
        values = list(value) if option.many else [value]
        if isinstance(option.spelling, Argument):
            line += map(operand, values)
        elif option.spelling is not None and option.spelling.again and option.given(options):
            on, _, off = option.spelling.flag.partition("/")
            if isinstance(value, bool):
                line.append(on if value else off)
            else:
                line += [word for v in values for word in (on, written(v))]
    return line


def command(verb: str, options: Any) -> str:
    """Return the command line that repeats a measurement."""
    return shlex.join(["ortune", verb, *words(options)])


def written(value: object) -> str:
    """Return a value as text for the command line."""
    return (
        f"{value:.12g}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)
    )


def as_written(field: OptionField, value: Any) -> Any:
    """Convert a value that was passed from Python to the form of the command line.

    A repeatable option also accepts a single text or a mapping: ``{"intra": 1}``, ``{"x": (1, 3, 224, 224)}`` for a
    shape, ``{"seq": [16, 128]}`` for a dimension.

    Raises:
        UsageError: A mapping was passed for an option that does not accept one.
    """
    if not (field.many and isinstance(field.spelling, Option)):
        # A source is text: a file, or a function.
        return str(value) if field.type is str and isinstance(value, Path) else value
    if isinstance(value, AnyPath):
        return (value,)
    if not isinstance(value, Mapping):
        return value
    sign = re.search("[=:]", field.spelling.metavar)
    if sign is None or "[" in field.spelling.metavar:
        raise UsageError(
            f"{value!r} is not a list", where=field.name, do=f"pass {field.spelling.metavar} or a list"
        )
    between = "x" if sign[0] == ":" else ","
    texts = {
        name: between.join(map(written, part)) if isinstance(part, list | tuple) else written(part)
        for name, part in value.items()
    }
    return tuple(f"{name}{sign[0]}{text}" for name, text in texts.items())


def named(runtime: AnyPath | None) -> str | None:
    """Return a runtime that the user named as text; None stays None."""
    return None if runtime is None else str(runtime)


def path(place: AnyPath | None) -> Path | None:
    """Return a place as a path; None stays None."""
    return None if place is None else Path(place)
