"""What the functions of ``import ortune`` take and return at a Python prompt."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from onnxruntime import datasets

import ortune
from ortune import records
from ortune.answer import Answer
from ortune.api import verbs
from ortune.errors import UsageError
from ortune.records import Envelope
from ortune.verbs._shared.spelling import as_written, option_fields
from ortune.verbs.compare.run import Options

MODEL = datasets.get_example("sigmoid.onnx")


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer[Any]:
    store = tmp_path_factory.mktemp("store")
    return ortune.bench(MODEL, set={"intra": 1, "spin": False}, budget=2, store=store, python=sys.executable)


@pytest.mark.parametrize(
    ("name", "given", "written"),
    [
        ("b_set", {"intra": 1, "spin": False}, ["intra=1", "spin=0"]),
        ("b_set", "intra=1", ["intra=1"]),
        ("a_set", ["intra=1"], ["intra=1"]),
        ("shape", {"x": (1, 3, 224, 224)}, ["x:1x3x224x224"]),
        ("shape", "x:1x3", ["x:1x3"]),
        ("dim", {"seq": [16, 128], "batch": 8}, ["seq=16,128", "batch=8"]),
        ("custom_ops", Path("libops.so"), [Path("libops.so")]),
        ("b_rewrite", "ort-optimized-model", ["ort-optimized-model"]),
        ("map", {"a": "b"}, ["a=b"]),
        ("budget", "2m", "2m"),
    ],
)
def test_what_python_gives_is_what_the_command_line_writes(
    name: str, given: str | Mapping[str, object], written: object
) -> None:
    field = next(each for each in option_fields(Options) if each.name == name)
    found = as_written(field, given)
    assert (list(found) if isinstance(written, list) else found) == written


def test_one_line_says_no_more_than_one_line() -> None:
    named = records.ModelRef(path="a\x1b[31m\nb.onnx", sha256="")
    told = Answer[None](schema="ortune/bench/1", ortune="0", status="ok", model=named)
    assert repr(told).startswith("<ortune.bench a\\x1b[31m\\nb.onnx: ok ")


def test_names_with_values_are_refused_where_there_are_none() -> None:
    with pytest.raises(UsageError, match="not a list"):
        ortune.bench(MODEL, custom_ops={"a": 1})


def test_an_argument_that_there_is_not_is_answered_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"ortune.tune\(\) has no argument 'budgett'; did you mean 'budget'"):
        ortune.tune(MODEL, budgett="1m")
    with pytest.raises(TypeError, match=r"help\(ortune.compare\) lists all"):
        ortune.compare(MODEL, zzzz=1)
    with pytest.raises(TypeError, match="missing a required argument: 'model'"):
        ortune.tune()


def test_settings_by_name_reach_the_session(answer: Answer[Any]) -> None:
    assert answer.result.side.plan.settings == {"intra_op_num_threads": 1, "allow_spinning": False}
    assert "--set intra=1 --set spin=0" in answer.result.reproduce


def test_an_answer_is_the_whole_document(answer: Answer[Any]) -> None:
    assert isinstance(answer, Envelope)
    assert msgspec.json.decode(msgspec.json.encode(answer))["schema"] == "ortune/bench/1"


def test_at_a_prompt_an_answer_is_one_line(answer: Answer[Any]) -> None:
    assert repr(answer).startswith("<ortune.bench sigmoid.onnx: ok")
    assert len(repr(answer)) < 150
    assert len(repr(answer.result)) < 1000
    assert repr(answer.result.side.plan).startswith("Plan(settings={'intra_op_num_threads': 1")


def test_in_words_it_is_what_the_program_prints(answer: Answer[Any]) -> None:
    said = answer.summary()
    assert "ortune report" in said and "ortune bench" not in said
    assert "ortune bench" in answer.summary(verbose=True)
    assert "\x1b" not in said
    page = answer._repr_html_()
    assert page.startswith("<pre")
    assert "ortune report" in page


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_is_about_a_table(verb: str) -> None:
    returned = get_type_hints(importlib.import_module(f"ortune.verbs.{verb}.run").run)["return"]
    (result,) = get_args(returned)
    table = getattr(importlib.import_module(f"ortune.verbs.{verb}.options"), "TABLE", "")
    fields = result.__struct_fields__
    what = f"TABLE of verbs/{verb}/options.py is the field of {result.__name__} that to_pandas returns"
    assert table.partition(".")[0] in fields, what


def test_as_a_table(answer: Answer[Any]) -> None:
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(UsageError) as refused:
            answer.to_pandas()
        assert refused.value.do == "pip install pandas"
        return
    frame = answer.to_pandas()
    assert len(frame) == 1
    assert frame["median_ns.value"][0] == answer.result.rows[0].median_ns.value
    assert len(answer.to_pandas("processes")) == len(answer.result.processes)
    assert len(answer.to_pandas("side")) == 1
    with pytest.raises(UsageError) as unknown:
        answer.to_pandas("colours")
    assert "rows" in unknown.value.do
