"""Outputs that a process left, whatever it wrote: read, or one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ortune.errors import MeasurementError
from ortune.outputs.files import load_array, load_json, read_outputs
from ortune.outputs.pairing import rename_outputs

RECORDS = np.zeros(3, [("a", "f4"), ("b", "i8")])


@pytest.mark.parametrize(
    ("array", "onnx_type"),
    [(RECORDS, None), (np.zeros(2, "M8[s]"), None), (np.zeros(2, "V3"), None), (np.array(["a"]), "float"),
     (np.zeros(2, np.float32), "string")],
)  # fmt: skip
def test_elements_that_no_output_has(tmp_path: Path, array: np.ndarray, onnx_type: str | None) -> None:
    np.save(tmp_path / "0.npy", array)
    with pytest.raises(MeasurementError, match=r"elements|records") as error:
        load_array(tmp_path / "0.npy", onnx_type)
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    "damage", [b"", b"\x93NUMPY\x01\x00v\x00{'descr': (", b"PK\3\4", b"\x93NUMPY" + b"\xff" * 99]
)
def test_a_damaged_array(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "0.npy").write_bytes(damage)
    with pytest.raises(MeasurementError):
        load_array(tmp_path / "0.npy")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 500 + "]" * 500, '{"a":' * 50 + "1" + "}" * 50, "", "\xff"]
)
def test_maps_that_no_output_has(tmp_path: Path, text: str) -> None:
    (tmp_path / "0.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(MeasurementError):
        load_json(tmp_path / "0.json")


def test_numbers_beyond_any_type_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text('[{"a": 1e999, "b": ' + "9" * 4000 + ', "c": 7}]')
    assert load_json(tmp_path / "0.json") == [{"a": np.inf, "b": np.inf, "c": 7}]


@pytest.mark.parametrize("index", [None, "", "[" * 100_000, "{}", '{"version": 1, "outputs": [{"name": 3}]}'])
def test_an_index_that_is_missing_or_damaged(tmp_path: Path, index: str | None) -> None:
    if index is not None:
        (tmp_path / "outputs.json").write_text(index)
    for read in (read_outputs, lambda folder: rename_outputs(folder, {"a": "b"})):
        with pytest.raises(MeasurementError) as error:
            read(tmp_path)
        assert error.value.exit_code == 3 and "outputs.json" in error.value.where


def test_outputs_of_any_name_are_renamed(tmp_path: Path) -> None:
    entry = {"name": "..", "kind": "tensor", "onnx_type": "float", "files": ["0.npy"]}
    (tmp_path / "outputs.json").write_text(json.dumps({"version": 1, "outputs": [entry]}))
    rename_outputs(tmp_path, {"..": "../../y"})
    assert list(read_outputs(tmp_path)) == ["../../y"]
