"""What a page sends as outputs is bounded by what the model and a reference say, before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ortune.outputs.files import load_array, read_outputs
from ortune.targets.browser.outputs import FACTOR, MOST_UNKNOWN, ROOM, ImpossibleOutput, Outputs

Y = np.arange(6, dtype=np.float32).reshape(2, 3)


def about(**other: object) -> str:
    return json.dumps({"case": 0, "index": 0, "name": "y", "onnx_type": "float", "dims": [2, 3]} | other)


def outputs(
    folder: Path, sizes: Sequence[int] | None = None, kind: str = "float", reference: Path | None = None
) -> Outputs:
    return Outputs(folder / "kept", ["c"], {"y": (kind, sizes)}, reference)


def test_outputs_are_kept_as_a_native_worker_keeps_them(tmp_path: Path) -> None:
    kept = Outputs(tmp_path / "kept", ["c"], {"y": ("float", None), "s": ("string", None)}, None)
    assert "0 of 2 outputs" in kept.missing()
    kept.keep(about(), Y.tobytes())
    assert "1 of 2 outputs" in kept.missing()
    kept.keep(about(index=1, name="s", onnx_type="string", dims=[2]), json.dumps(["a", "бß"]).encode())
    assert kept.missing() == ""
    found = read_outputs(tmp_path / "kept" / "c")
    assert [(value.name, value.onnx_type) for value in found.values()] == [("y", "float"), ("s", "string")]
    assert np.array_equal(load_array(found["y"].files[0]), Y)
    assert list(load_array(found["s"].files[0])) == ["a", "бß"]


@pytest.mark.parametrize(
    "other",
    [
        {"index": 1}, {"name": "z"}, {"index": -1}, {"index": "0"}, {"case": 1}, {"onnx_type": "int64"},
        {"onnx_type": "object"}, {"dims": [2, 4]}, {"dims": [-2, -3]}, {"dims": [2, 3, 1 << 39, 0]},
        {"dims": [6] * 101}, {"name": None}, {"dims": "6"},
    ],
)  # fmt: skip
def test_what_the_model_does_not_have_is_refused(other: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ImpossibleOutput):
        outputs(tmp_path).keep(about(**other), Y.tobytes())
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("words", ["", "[" * 100_000, "{}", "null", '{"case": 0}', "\udcff"])
def test_words_that_describe_nothing(words: str, tmp_path: Path) -> None:
    with pytest.raises(ImpossibleOutput, match="unreadable"):
        outputs(tmp_path).expect(words, 24)


def test_bytes_that_are_no_whole_numbers(tmp_path: Path) -> None:
    with pytest.raises(ImpossibleOutput, match="do not match their description"):
        outputs(tmp_path).keep(about(), Y.tobytes()[:-1])


def test_the_same_output_twice(tmp_path: Path) -> None:
    kept = outputs(tmp_path)
    kept.keep(about(), Y.tobytes())
    with pytest.raises(ImpossibleOutput, match="twice"):
        kept.keep(about(), Y.tobytes())


def test_what_nobody_asked_for() -> None:
    kept = Outputs(None, ["c"], {"y": ("float", None)}, None)
    with pytest.raises(ImpossibleOutput, match="not requested"):
        kept.expect(about(), 24)
    assert kept.missing() == ""


def test_how_large_an_output_may_be(tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    outputs(tmp_path).keep(about(), Y.tobytes())
    (tmp_path / "kept").rename(reference)
    most = 4 * (FACTOR * 6 + ROOM)
    for kept in (outputs(tmp_path, reference=reference), outputs(tmp_path, sizes=[2, 3])):
        kept.expect(about(), most)
        with pytest.raises(ImpossibleOutput, match=f"more than its {most}"):
            kept.expect(about(), most + 1)
    outputs(tmp_path, sizes=[1000, 1000], reference=reference).expect(about(), 4_000_000)
    outputs(tmp_path).expect(about(), MOST_UNKNOWN)
    with pytest.raises(ImpossibleOutput):
        outputs(tmp_path).expect(about(), MOST_UNKNOWN + 1)


def test_one_long_text_does_not_make_all_of_them_long(tmp_path: Path) -> None:
    texts = json.dumps(["x" * 1_000_000] + [""] * 1000).encode()
    with pytest.raises(ImpossibleOutput, match="do not match their description"):
        outputs(tmp_path, kind="string").keep(about(onnx_type="string", dims=[1001]), texts)


def test_a_file_that_does_not_tell_its_outputs(tmp_path: Path) -> None:
    kept = Outputs(tmp_path / "kept", ["c"], None, None)
    assert kept.missing()
    kept.keep(about(), Y.tobytes())
    assert kept.missing() == ""
    with pytest.raises(ImpossibleOutput, match="is not a JavaScript type"):
        kept.expect(about(index=1, onnx_type="bfloat16"), 24)
