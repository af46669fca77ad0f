"""Write ``docs/schema``: the JSON Schema of every document that ortune writes or reads, from its records.

A field added with a default, a further word of a closed list, or a new description, is written. Anything else under
the same number is refused: it would break who reads the document, so the document needs a new number.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from ortune import records
from ortune.api import verbs
from ortune.records import Record
from ortune.verbs._app_bench.result import AppBenchResult
from ortune.verbs._app_lock.result import AppLockResult
from ortune.verbs._app_tune.result import AppTuneResult

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def documents() -> dict[str, type[Record]]:
    """Every document by its name and number, e.g. ``compare/1``: the answer of each verb, and what else is read."""
    return {
        **{records.schema_of(verb).removeprefix("ortune/"): envelope(result_of(verb)) for verb in verbs()},
        "many/1": envelope(records.ManyResult),
        "app-bench/1": envelope(AppBenchResult),
        "app-tune/1": envelope(AppTuneResult),
        "app-lock/1": envelope(AppLockResult),
        "app-snapshot/1": records.AppSnapshot,
        "snapshot/1": records.Snapshot,
        "plan/1": records.Plan,
        "workload/1": named(records.RecordedWorkload, "Workload"),
        "bundle/1": records.BundleInfo,
    }


def result_of(verb: str) -> type[Record]:
    """The record that a verb's answer holds, as its function says."""
    answer = get_type_hints(importlib.import_module(f"ortune.verbs.{verb}.run").run)["return"]
    (result,) = get_args(answer)
    return result  # type: ignore[no-any-return]


def named(record: type[Record], name: str) -> type[Record]:
    """A record under another name, which its schema had before it grew."""
    namespace = {"__doc__": record.__doc__}
    return msgspec.defstruct(  # type: ignore[return-value]
        name, [], bases=(record,), frozen=True, kw_only=True, namespace=namespace
    )


def envelope(result: type[Record]) -> type[Record]:
    """The envelope with the type of its ``result``, which the record itself leaves open."""
    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(records.Envelope):
        kind = result | None if field.name == "result" else field.type
        fields.append((field.name, kind, field.default))
    return msgspec.defstruct(  # type: ignore[return-value]
        "Envelope",
        [
            (name, kind) if default is msgspec.NODEFAULT else (name, kind, default)
            for name, kind, default in fields
        ],
        bases=(Record,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": records.Envelope.__doc__},
    )


def schema(name: str, record: type[Record]) -> str:
    """The schema as text, the same bytes for the same records."""
    made = _without_indent(msgspec.json.schema(record))
    document = {"$schema": DIALECT, "title": f"ortune/{name}", **made}
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _without_indent(made: Any) -> Any:
    """The same with docstrings as a reader sees them: releases of msgspec and of Python indent them differently."""
    if isinstance(made, dict):
        return {
            key: inspect.cleandoc(value)
            if key == "description" and isinstance(value, str)
            else _without_indent(value)
            for key, value in made.items()
        }
    return [_without_indent(each) for each in made] if isinstance(made, list) else made


def path_of(name: str) -> Path:
    """The file that holds a document's schema."""
    return FOLDER / f"{name.replace('/', '-')}.json"


def only_adds(old: Any, new: Any) -> bool:
    """Whether every reader of the old schema can read documents of the new one."""
    if isinstance(old, dict) and isinstance(new, dict):
        old, new = ({k: v for k, v in each.items() if k != "description"} for each in (old, new))
        kept = old.keys() <= new.keys()
        return kept and all(_only_adds_under(key, old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):  # the alternatives of a value, e.g. words or null
        return len(old) == len(new) and all(map(only_adds, old, new))
    return bool(old == new)


def _only_adds_under(key: str, old: Any, new: Any) -> bool:
    """The same for what a key holds."""
    if key == "enum":  # a word that no document had so far: what it stands for is new too
        return set(old) <= set(new)
    if key == "required" and isinstance(old, list):  # the order means nothing
        return sorted(old) == sorted(new)
    return only_adds(old, new)


def main() -> int:
    """Write every schema; 1 when one changed under the same number."""
    refused = []
    for name, record in documents().items():
        text, path = schema(name, record), path_of(name)
        if path.exists() and not only_adds(json.loads(path.read_text(encoding="utf-8")), json.loads(text)):
            refused.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    for name in refused:
        print(f"{name} changed under the same number: give the document a new one", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
