"""Rewrites that change the graph in memory, on random graphs: whole, idempotent, and equal in ONNX Runtime."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from random_graphs import Feeds, random_graph

from ortune import rewrites
from ortune.rewrites._base import Rewrite

IN_MEMORY = [r for r in rewrites.all_rewrites().values() if r.change and r.safety == "exact"]
SAMPLE = 250


def run(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )


def check(rewrite: Rewrite, model: onnx.ModelProto, feeds: Feeds, expected: list[np.ndarray]) -> bool:
    """Whether the rewrite changed the model; fails where it is not what it was."""
    given = ir.serde.deserialize_model(model)
    made = given.clone()
    if not rewrite.apply(made).modified:
        return False
    # Types, shapes and tensors are shared with the copy, so none may be changed in place.
    assert ir.serde.serialize_model(given) == ir.serde.serialize_model(ir.serde.deserialize_model(model))
    proto = ir.serde.serialize_model(made)
    onnx.checker.check_model(proto)
    for ours, theirs in zip(run(proto, feeds), expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        scale = float(np.abs(theirs).max(initial=1e-3))
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-4 * scale)
    assert not rewrite.apply(made).modified
    return True


def check_all(seeds: range) -> Counter[str]:
    """Every rewrite on every graph; how often each changed one."""
    changed: Counter[str] = Counter()
    for seed in seeds:
        model, feeds = random_graph(seed)
        expected = run(model, feeds)
        if not all(np.isfinite(value).all() for value in expected):
            continue
        for rewrite in IN_MEMORY:
            try:
                changed[rewrite.name] += check(rewrite, model, feeds, expected)
            except Exception as error:
                raise AssertionError(f"{rewrite.name} on random_graph({seed})") from error
    return changed


@pytest.mark.parametrize("part", range(2))
def test_a_sample_of_random_graphs(part: int) -> None:
    half = SAMPLE // 2
    changed = check_all(range(part * half, (part + 1) * half))
    for name in ("hard-swish", "affine-into-weights", "gelu", "one-hot-to-gather"):
        assert changed[name] >= half // 20, changed
