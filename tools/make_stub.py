"""Writes ``src/ortune/__init__.pyi``: what type checkers and editors are told of the functions made of the verbs.

python tools/make_stub.py
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path

from make_schemas import result_of
from ortune.api import function, verbs
from ortune.functions import options_by_section
from ortune.objectives import HistoryObjective, Objective

STUB = Path(__file__).resolve().parents[1] / "src" / "ortune" / "__init__.pyi"
HEAD = '''"""Written by tools/make_stub.py from what each verb can be asked."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from ortune.answer import Answer as Answer
from ortune.errors import OrtuneError as OrtuneError
from ortune.loader import load as load
from ortune.measuring.watcher import Watcher as Watcher
from ortune.objectives import HistoryObjective, Objective
from ortune.records import ManyResult
{results}

__version__: str

'''


ONE, ITERABLE, MANY = "str | Path | ", "Iterable[str | Path]", "Answer[ManyResult]"
EACH = "each"
"""The switch of a function whose files are otherwise sides of one answer."""


def stub() -> str:
    """The whole file."""
    functions = "".join(_function(verb) for verb in verbs())
    results = sorted({(result_of(verb).__module__, result_of(verb).__name__) for verb in verbs()})
    head = HEAD.replace("{results}", "\n".join(f"from {m} import {name}" for m, name in results))
    return head + functions.rstrip("\n") + "\n"


def _function(verb: str) -> str:
    """One function: its arguments by position, and a table of its options by section of the help."""
    options = importlib.import_module(f"ortune.verbs.{verb}.options").Options
    signature = inspect.signature(function(verb))
    told = {name: help_ for lines in options_by_section(options).values() for name, _, help_ in lines}
    first, table, switch = [], [], False
    for parameter in signature.parameters.values():
        kind = "Watcher | None" if parameter.name == "watcher" else _text(parameter.annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            first.append(f"*{parameter.name}: {kind.removeprefix('Sequence[').removesuffix(']')}")
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.name == EACH:
                switch = True
                continue
            table.append(f"    {parameter.name}: {kind}")
            if parameter.name in told:
                table.append(f"    {json.dumps(told[parameter.name], ensure_ascii=False)}")
        else:
            default = "" if parameter.default is parameter.empty else " = ..."
            first.append(f"{parameter.name}: {kind}{default}")
    name = f"_{verb.capitalize()}Options"
    head = f"class {name}(TypedDict, total=False):\n" + "\n".join(table) + "\n\n"
    result, last = signature.return_annotation, f"**options: Unpack[{name}]"
    if switch:
        forms = [
            ([*first, "each: Literal[False] = ...", last], result),
            ([*first, "each: Literal[True]", last], MANY),
        ]
    elif f" | {ITERABLE}" in first[0]:
        forms = [
            ([first[0].replace(f" | {ITERABLE}", ""), *first[1:], last], result),
            ([first[0].replace(ONE, ""), *first[1:], last], MANY),
        ]
    else:
        return head + _written(verb, [*first, last], result, about(options))
    written = "".join(
        f"@overload\n{_written(verb, taken, returned, about(options))}" for taken, returned in forms
    )
    if switch:
        return head + written
    # A text is an iterable of texts too: the first form has it.
    return head + written.replace(f"def {verb}(", f"def {verb}(  # type: ignore[overload-overlap]", 1)


def _written(verb: str, taken: list[str], result: str, told: str) -> str:
    """One form of a function."""
    lines = "".join(f"    {line},\n" for line in taken)
    return f'def {verb}(\n{lines}) -> {result}:\n    """{told}"""\n\n'


def about(options: type) -> str:
    """The first sentence of what a verb says of itself."""
    return (inspect.getdoc(options) or "").partition("\n")[0]


def _text(annotation: object) -> str:
    if annotation == Objective:
        return "Objective"
    if annotation == HistoryObjective:
        return "HistoryObjective"
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    for prefix in ("pathlib._local.", "pathlib.", "collections.abc.", "typing."):
        text = text.replace(prefix, "")
    return text


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
