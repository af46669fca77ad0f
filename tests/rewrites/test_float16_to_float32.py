"""Models in float16 become float32 inside: what ONNX Runtime then runs, and that callers see no difference."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from corpus_models import HALF, in_half
from onnx import helper, numpy_helper
from rewrite_corpus import SINGLE

import zoo
from facts import facts
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.records import RewriteSpec


def run(path: Path, feeds: dict[str, np.ndarray], kept: Path | None = None) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if kept is not None:
        options.optimized_model_filepath = str(kept)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        wide = other.astype(np.float64)
        scale = float(np.abs(wide).max(initial=1e-3))
        np.testing.assert_allclose(mine.astype(np.float64), wide, rtol=0, atol=4e-3 * scale)


@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize("opset", [11, 13, 19])
def test_inside_it_is_float32_and_outside_nothing_changed(tmp_path: Path, opset: int, go: bool) -> None:
    onnx.save(in_half(opset), tmp_path / "half.onnx")
    opened = open_model(tmp_path / "half.onnx")
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=SINGLE)], tmp_path / "made")
    assert made.modified
    onnx.checker.check_model(str(made.path), full_check=True)
    again = rewrites.rewrite_model(open_model(made.path), [RewriteSpec(name=SINGLE)], tmp_path / "again")
    assert not again.modified
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((1, 3, 6, 6)).astype(np.float16)
        feeds = {"x": x, "go": np.array(go)}
        same(run(made.path, feeds), run(opened.path, feeds))


def test_only_casts_at_the_edges_are_left(tmp_path: Path) -> None:
    onnx.save(in_half(), tmp_path / "half.onnx")
    opened = open_model(tmp_path / "half.onnx")
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=SINGLE)], tmp_path / "made")
    feeds = {"x": np.ones((1, 3, 6, 6), np.float16), "go": np.array(True)}
    counts = []
    for path in (opened.path, made.path):
        run(path, feeds, tmp_path / "kept.onnx")
        counts.append(Counter(n.op_type for n in onnx.load(tmp_path / "kept.onnx").graph.node)["Cast"])
    assert counts[1] <= 4  # x, w, y and r
    assert counts[1] < counts[0]


def test_what_is_float32_already_is_left_alone(tmp_path: Path) -> None:
    opened = open_model(zoo.model_path("light-squeezenet"))
    result = rewrites.find(SINGLE).apply(opened.ir.clone())
    assert not result.modified
    (why,) = result.reasons
    facts(why, "no float16 weights")
    assert not rewrites.find(SINGLE).proposes(opened.ir, None)


def test_another_domain_is_a_near_miss() -> None:
    proto = in_half()
    proto.opset_import.append(helper.make_opsetid("my.own", 1))
    proto.graph.node[-1].domain = "my.own"
    result = rewrites.find(SINGLE).apply(ir.serde.deserialize_model(proto))
    assert not result.modified
    assert "'my.own'" in result.reasons[0]


def test_a_real_model_in_float16(tmp_path: Path) -> None:
    proto = onnx.load(zoo.model_path("oww-embedding"))
    for stored in proto.graph.initializer:
        if stored.data_type == onnx.TensorProto.FLOAT:
            numbers = numpy_helper.to_array(stored).astype(np.float16)
            stored.CopyFrom(numpy_helper.from_array(numbers, stored.name))
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        value.type.tensor_type.elem_type = HALF
    onnx.save(proto, tmp_path / "half.onnx")
    opened = open_model(tmp_path / "half.onnx")
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=SINGLE)], tmp_path / "made")
    assert made.modified
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal((1, 76, 32, 1)).astype(np.float16)
        same(run(made.path, {"input_1": x}), run(opened.path, {"input_1": x}))
