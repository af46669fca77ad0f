"""Class probabilities as a tensor: the same numbers, a column for each class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ortune
from ortune.graph.model.open import open_model
from ortune.rewrites import find, parse, rewrite_model
from ortune.rewrites.zipmap_to_tensor import zip_maps
from simulated_machine import Lab, measuring_on

NUMBERS, TEXTS = "classlabels_int64s = [7,5,6]", 'classlabels_strings = ["b","a","c"]'


def _model(folder: Path, labels: str = NUMBERS, key: str = "int64") -> Path:
    onnx.save(
        onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
            classified (float[n,3] x) => (float[n,3] s, seq(map({key},float[])) y)
            {{
                s = Softmax (x)
                [map] y = ai.onnx.ml.ZipMap <{labels}> (s)
            }}"""
        ),
        folder / "m.onnx",
    )
    return folder / "m.onnx"


@pytest.mark.parametrize(
    ("labels", "key", "order"), [(NUMBERS, "int64", (7, 5, 6)), (TEXTS, "string", ("b", "a", "c"))]
)
def test_columns_are_in_the_order_of_the_labels(
    tmp_path: Path, labels: str, key: str, order: tuple[object, ...]
) -> None:
    """Whatever the labels are."""
    opened = open_model(_model(tmp_path, labels, key))
    assert len(zip_maps(opened.ir)) == 1
    made = rewrite_model(opened, [parse("zipmap-to-tensor")], tmp_path / "made")
    onnx.checker.check_model(onnx.load(made.path), full_check=True)
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    before, after = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["y"], {"x": x})[0]
        for path in (opened.path, made.path)
    )
    assert isinstance(after, np.ndarray) and after.dtype == np.float32
    np.testing.assert_array_equal([[row[label] for label in order] for row in before], after)
    assert not rewrite_model(open_model(made.path), [parse("zipmap-to-tensor")], tmp_path / "again").modified
    assert list(find("zipmap-to-tensor").proposes(opened.ir, None))


def test_it_is_measured_as_equal(tmp_path: Path) -> None:
    """A map for each row on one side, and columns on the other, hold the same numbers."""
    with measuring_on(Lab(1)):
        result = ortune.compare(
            _model(tmp_path), b_rewrite="zipmap-to-tensor", budget="60s", store=tmp_path / "store"
        ).result
    assert result is not None and result.outputs is not None and result.outputs.ok
