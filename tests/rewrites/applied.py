"""One rewrite applied to a model, and the outputs before and after."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from optimised_models import optimised

from ortune import rewrites
from ortune.rewrites._base import RewriteResult


def run(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(
        None, {"x": x}
    )


def outputs(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def apply(name: str, model: onnx.ModelProto) -> tuple[onnx.ModelProto, RewriteResult, Counter[str]]:
    made = ir.serde.deserialize_model(model)
    result = rewrites.find(name).apply(made)
    proto = ir.serde.serialize_model(made)
    onnx.checker.check_model(proto)
    return proto, result, Counter(node.op_type for node in proto.graph.node)


def check(name: str, model: onnx.ModelProto, xs: list[np.ndarray]) -> Counter[str]:
    """What operators there are once the rewrite changed the model; the outputs are those of before."""
    proto, result, kinds = apply(name, model)
    assert result.modified, result.reasons
    for x in xs:
        for ours, theirs in zip(run(proto, x), run(model, x), strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)
    return kinds


def reason(name: str, model: onnx.ModelProto) -> str:
    _, result, _ = apply(name, model)
    assert not result.modified
    return " ".join(result.reasons)


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 2).astype(np.float32)


def fused_by_ort(model: onnx.ModelProto, folder: Path) -> Counter[str]:
    onnx.save(model, folder / "m.onnx")
    return optimised(folder / "m.onnx", folder)
