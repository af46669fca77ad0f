"""``--export``: the same writer for every command, with the same columns whatever was found."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import numpy as np
import pytest

import golden
import golden_answers
import golden_tune
from onnx_text import model_of, saved
from ortune.api import verbs
from ortune.errors import UsageError
from ortune.records import Envelope
from ortune.show.verb_modules import module_of
from ortune.verbs import table_of
from ortune.verbs._shared.exports import LEADING, Exports, parse
from ortune.verbs._shared.groups import ExportOptions
from within import program

EXPORTING = {"bench", "check", "compare", "history", "lock", "look", "partition", "quantize", "tune"}
GOLDEN = {
    "compare": golden.compared(),
    "tune": golden_tune.tuned(),
    "look": golden_answers.looked(),
    "bench": golden_answers.document(golden_answers.row(), golden_answers.row("long")),
}


def exported(verb: str, envelope: Envelope[Any], folder: Path) -> list[dict[str, str]]:
    options = module_of(verb, "options").Options
    (result,) = get_args(get_type_hints(module_of(verb, "run").run)["return"])
    with Exports((("csv", folder / "a.csv"),), table_of(options), result) as exports:
        exports.add("m.onnx", envelope)
        exports.finish()
    return list(csv.DictReader(io.StringIO((folder / "a.csv").read_text(encoding="utf-8"))))


def test_these_commands_export() -> None:
    assert {
        verb for verb in verbs() if issubclass(module_of(verb, "options").Options, ExportOptions)
    } == EXPORTING


@pytest.mark.parametrize("verb", sorted(EXPORTING))
def test_an_answer_without_a_result_has_a_row_and_all_columns(verb: str, tmp_path: Path) -> None:
    failed: Envelope[Any] = Envelope(schema=f"ortune/{verb}/1", ortune="0", status="error")
    (row,) = exported(verb, failed, tmp_path)
    assert tuple(row)[:3] == LEADING and len(row) > 5
    assert (row["model"], row["status"]) == ("m.onnx", "error")
    assert not any([*row.values()][2:])


@pytest.mark.parametrize("verb", sorted(GOLDEN))
def test_rows_hold_the_numbers_of_the_document(verb: str, tmp_path: Path) -> None:
    envelope = GOLDEN[verb]
    rows = exported(verb, envelope, tmp_path)
    table: Any = envelope.result
    for name in table_of(module_of(verb, "options").Options).split("."):
        table = getattr(table, name)
    records = table if isinstance(table, tuple) else (table,)
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        fields = msgspec.to_builtins(record)
        numbers = {name: value for name, value in fields.items() if isinstance(value, float)}
        assert {name: float(row[name]) for name in numbers} == numbers


def test_a_check_has_a_row_for_each_finding_and_each_file(tmp_path: Path) -> None:
    good = saved(tmp_path / "good.onnx", model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }"))
    scaled = "g (float[2] x, float[2] w) => (float[2] y) { y = Mul (x, w) }"
    found = saved(tmp_path / "found.onnx", model_of(scaled, weights={"w": np.ones(2, np.float32)}))
    (tmp_path / "none.onnx").write_text("hello")
    files = [str(path) for path in (good, found, tmp_path / "none.onnx")]
    place = tmp_path / "a.csv"
    program(["check", *files, "--fail-on", "never", "--export", f"csv={place}", "--json"])
    rows = list(csv.DictReader(io.StringIO(place.read_text(encoding="utf-8"))))
    assert {row["model"] for row in rows} == set(files)
    codes = {row["model"]: row["code"] for row in rows}
    assert codes[files[0]] == "" and codes[files[1]]
    assert "not an ONNX model" in next(row["error"] for row in rows if row["model"] == files[2])


def test_no_cell_is_taken_for_a_formula(tmp_path: Path) -> None:
    envelope = msgspec.structs.replace(GOLDEN["bench"])
    (result,) = get_args(get_type_hints(module_of("bench", "run").run)["return"])
    with Exports((("csv", tmp_path / "a.csv"),), "rows", result) as exports:
        exports.add("=cmd()", envelope)
        exports.finish()
    assert '\n"\'=cmd()",' in (tmp_path / "a.csv").read_text(encoding="utf-8")


def test_a_single_answer_is_a_json_line(tmp_path: Path) -> None:
    model = saved(tmp_path / "m.onnx", model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }"))
    code, out, _ = program(["check", str(model), "--export", str(tmp_path / "a.jsonl"), "--json"])
    (line,) = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert code == 0 and json.loads(line) == json.loads(out)


@pytest.mark.parametrize("text", ["csv", "csv=", "xml=a", "=a", "a.txt"])
def test_what_is_no_export_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an export"):
        parse([text])
