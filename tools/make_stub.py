"""Writes ``src/ortune/__init__.pyi``: what type checkers and editors are told of the functions made of the verbs.

python tools/make_stub.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

from make_schemas import result_of
from ortune.api import function, verbs
from ortune.objectives import Objective

STUB = Path(__file__).resolve().parents[1] / "src" / "ortune" / "__init__.pyi"
HEAD = '''"""Written by tools/make_stub.py from what each verb can be asked."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ortune.answer import Answer as Answer
from ortune.errors import OrtuneError as OrtuneError
from ortune.loader import load as load
from ortune.measuring.watcher import Watcher as Watcher
from ortune.objectives import Objective
{results}

__version__: str

'''


def stub() -> str:
    """The whole file."""
    functions = "".join(_function(verb) for verb in verbs())
    results = sorted({(result_of(verb).__module__, result_of(verb).__name__) for verb in verbs()})
    return HEAD.replace("{results}", "\n".join(f"from {m} import {name}" for m, name in results)) + functions


def _function(verb: str) -> str:
    lines, keyword = [], False
    signature = inspect.signature(function(verb))
    for parameter in signature.parameters.values():
        kind = "Watcher | None" if parameter.name == "watcher" else _text(parameter.annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            lines.append(f"*{parameter.name}: {kind.removeprefix('Sequence[').removesuffix(']')}")
            keyword = True
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            lines.append("*")
            keyword = True
        lines.append(f"{parameter.name}: {kind}" + ("" if parameter.default is parameter.empty else " = ..."))
    result = signature.return_annotation
    return f"def {verb}(\n    " + ",\n    ".join(lines) + f",\n) -> {result}: ...\n"


def _text(annotation: object) -> str:
    if annotation == Objective:
        return "Objective"
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    for prefix in ("pathlib._local.", "pathlib.", "collections.abc.", "typing."):
        text = text.replace(prefix, "")
    return text


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
