"""A Transpose after a Concat along the last axis goes to the inputs, and every number stays."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest
from corpus_models import joined_channels
from rewrite_corpus import CHANNELS

import zoo
from facts import facts
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.records import RewriteSpec


def run(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("sliced", [False, True])
@pytest.mark.parametrize("perm", [p for p in permutations(range(4)) if p[-1] != 3])
def test_every_order_of_axes(tmp_path: Path, perm: tuple[int, ...], sliced: bool) -> None:
    onnx.save(joined_channels(perm, sliced=sliced), tmp_path / "m.onnx")
    opened = open_model(tmp_path / "m.onnx")
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=CHANNELS)], tmp_path / "made")
    facts(made.steps[0].result.what, "inputs of 2 Concats")
    onnx.checker.check_model(str(made.path), full_check=True)
    rng = np.random.default_rng(sum(perm))
    feeds = {name: rng.standard_normal((2, 5, 7, 1), dtype=np.float32) for name in "ab"}
    for ours, theirs in zip(run(made.path, feeds), run(opened.path, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again = rewrites.rewrite_model(open_model(made.path), [RewriteSpec(name=CHANNELS)], tmp_path / "again")
    assert not again.modified


def test_near_misses() -> None:
    proto = joined_channels((0, 1, 2, 3), sliced=False)
    assert not rewrites.find(CHANNELS).apply(ir.serde.deserialize_model(proto)).modified
    proto = joined_channels((0, 3, 1, 2), sliced=False)
    proto.graph.output.append(onnx.helper.make_tensor_value_info("joined", 1, [None] * 4))
    result = rewrites.find(CHANNELS).apply(ir.serde.deserialize_model(proto))
    assert not result.modified
    assert "used elsewhere" in result.reasons[0]


def test_a_scalar_is_no_concat() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float y) '
        "{ s = ReduceSum <keepdims = 0> (x) y = Transpose (s) }"
    )
    proto.graph.node[1].attribute.append(
        onnx.helper.make_attribute("perm", [], attr_type=onnx.AttributeProto.INTS)
    )
    assert not rewrites.find(CHANNELS).apply(ir.serde.deserialize_model(proto)).modified


def test_a_real_model_from_tensorflow(tmp_path: Path) -> None:
    opened = open_model(zoo.model_path("basic-pitch"))
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=CHANNELS)], tmp_path)
    assert made.modified
    (name,) = (v.name for v in opened.ir.graph.inputs)
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal((1, 43844, 1), dtype=np.float32)
        for ours, theirs in zip(run(made.path, {name: x}), run(opened.path, {name: x}), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
