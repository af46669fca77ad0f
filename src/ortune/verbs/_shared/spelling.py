"""How the command line spells the fields of a dataclass, which is what a verb can be asked.

Of it are made the command line, the Python function, and the command that asks the same again.
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
        metavar: How the help calls it; in brackets where it may be left out.
        help: One sentence.
        each: Several may be passed; the command runs once for each.
    """

    metavar: str
    help: str
    each: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the command line.

    Attributes:
        flag: ``--name``; for a switch that is on, ``--name/--no-name``.
        metavar: The kind of value; "" for a switch.
        help: One sentence.
        panel: Section of the help.
        least: The least number that is taken.
        short: ``-n``.
        again: It is part of what was measured, so the command that measures it again has it.
        also: An older spelling that is understood too.
        hidden: Whether the help omits it, because the option of another side is shown instead.
        writes: It names a file that is written at the end, whose place is tried before anything is done: a model, or
            anything else (True).
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
    """One field of a verb's options.

    Attributes:
        name: Of the field and of the Python argument.
        type: As annotated.
        default: ``dataclasses.MISSING`` where it must be given.
        spelling: How the command line has it; None for what can be asked from Python alone.
    """

    name: str
    type: Any
    default: Any
    spelling: Argument | Option | None

    @property
    def required(self) -> bool:
        """Returns whether the option must be given."""
        return self.default is MISSING

    @property
    def many(self) -> bool:
        """Returns whether the option may be given several times."""
        return any(get_origin(kind) is Sequence for kind in (self.type, *get_args(self.type)))

    @property
    def takes_text(self) -> bool:
        """Whether the command line has the value as text, whatever it means."""
        return str in (get_args(self.type) or (self.type,)) or get_origin(self.type) is Literal

    def given(self, options: Any) -> bool:
        """Return whether the value differs from the default."""
        value = getattr(options, self.name)
        return bool(value) if self.many else value != self.default


def option_fields(options: type) -> Iterator[OptionField]:
    """The fields of a verb's options: arguments first, then options in their order."""
    hints = get_type_hints(options, include_extras=True)
    all_fields = []
    for field in fields(options):
        kind, spelling = hints[field.name], None
        if get_origin(kind) is Annotated:
            kind, spelling = get_args(kind)
        all_fields.append(OptionField(name=field.name, type=kind, default=field.default, spelling=spelling))
    yield from sorted(all_fields, key=lambda option: not isinstance(option.spelling, Argument))


def require_places(options: Any) -> dict[str, Path]:
    """Return the files that will be written, by option, each of which was tried.

    Raises:
        UsageError: One of them cannot be written.
    """
    places = {}
    for option in option_fields(type(options)):
        spelling, place = option.spelling, getattr(options, option.name)
        if isinstance(spelling, Option) and spelling.writes and place is not None:
            places[spelling.flag] = Path(place)
            files.require_writable(Path(place), spelling.flag, for_model=spelling.writes == "model")
    return places


def with_timeline(options: Any) -> Any:
    """Return the options of a verb whose result is shown on a page, which includes the timeline of the runs."""
    names = (option.name for option in option_fields(type(options)))
    return replace(options, timeline=True) if "timeline" in names else options


def words(options: Any, *, without: Sequence[str] = ()) -> list[str]:
    """Return the options that differ from their defaults, as words of a command line."""
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
    """The command line that asks the same again."""
    return shlex.join(["ortune", verb, *words(options)])


def written(value: object) -> str:
    """A value as the command line has it."""
    return (
        f"{value:.12g}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)
    )


def as_written(field: OptionField, value: Any) -> Any:
    """A value from Python as the command line has it.

    What may be given several times may be one text, or names with their values: ``{"intra": 1}``,
    ``{"x": (1, 3, 224, 224)}`` for a shape, ``{"seq": [16, 128]}`` for a dimension.

    Raises:
        UsageError: Names with values are given for what has none.
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
    """A runtime that the user names, or None."""
    return None if runtime is None else str(runtime)


def path(place: AnyPath | None) -> Path | None:
    """A path, or None."""
    return None if place is None else Path(place)
