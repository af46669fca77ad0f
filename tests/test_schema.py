"""The documents' schemas: as generated, and none changed under the same number."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import make_schemas  # noqa: E402

DOCUMENTS = make_schemas.documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schema_is_as_generated(name: str) -> None:
    path = make_schemas.path_of(name)
    written = path.read_text(encoding="utf-8") if path.exists() else ""
    same = written == make_schemas.schema(name, DOCUMENTS[name])
    assert same, "run: python tools/make_schemas.py"  # a diff of such long lines takes pytest minutes


def test_no_schema_is_left_over() -> None:
    names = {make_schemas.path_of(name).name for name in DOCUMENTS}
    left = {path.name for path in make_schemas.FOLDER.iterdir()} - names
    assert left == set(), "remove the schemas of documents that do not exist"


def test_a_field_that_goes_is_no_addition() -> None:
    new = json.loads(make_schemas.schema("compare/1", DOCUMENTS["compare/1"]))
    old = copy.deepcopy(new)
    old["$defs"]["Comparison"]["properties"]["speed"] = {"type": "number"}
    assert not make_schemas.only_adds(old, new)
    assert make_schemas.only_adds(new, old)


def test_a_field_that_must_be_there_is_no_addition() -> None:
    old = json.loads(make_schemas.schema("plan/1", DOCUMENTS["plan/1"]))
    new = copy.deepcopy(old)
    new["$defs"]["Plan"]["required"] = ["settings"]
    assert not make_schemas.only_adds(old, new)


def test_a_closed_list_may_gain_words_and_lose_none() -> None:
    old = {"$defs": {"Applied": {"properties": {"channel": {"enum": ["a", "b"]}}}}}
    new = {"$defs": {"Applied": {"properties": {"channel": {"enum": ["a", "b", "c"]}}}}}
    assert make_schemas.only_adds(old, new)
    assert not make_schemas.only_adds(new, old)
    or_null = [{"anyOf": [each, {"type": "null"}]} for each in (old, new)]
    assert make_schemas.only_adds(*or_null)
    assert not make_schemas.only_adds(*reversed(or_null))


def test_words_may_change() -> None:
    old = json.loads(make_schemas.schema("plan/1", DOCUMENTS["plan/1"]))
    new = copy.deepcopy(old)
    new["$defs"]["Plan"]["description"] = "other words"
    assert make_schemas.only_adds(old, new)


def test_the_plan_in_the_examples_is_one() -> None:
    text = (ROOT / "examples" / "plan.json").read_bytes()
    plan = msgspec.json.decode(text, type=DOCUMENTS["plan/1"], strict=True)
    assert plan != DOCUMENTS["plan/1"]()
