"""Models with weights of four bits that ONNX Runtime multiplies by MatMulNBits, and the same weights in float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS, K, N, BLOCK = 4, 64, 48, 32


def _weights(seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    scale = (10.0 ** draw.uniform(-2, 0, (K // BLOCK, N))).astype(np.float32)
    return draw.integers(-7, 8, (K, N)).astype(np.int8), scale


def _save(graph: onnx.GraphProto, path: Path) -> Path:
    versions = {"": 21, "com.microsoft": 1}
    opsets = [
        helper.make_opsetid(domain, versions[domain])
        for domain in sorted({"", *(n.domain for n in graph.node)})
    ]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def _sides() -> tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]]:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, K])
    return [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, N])]


def four_bits(path: Path, seed: int = 3, *, unsigned: bool = False) -> Path:
    """DequantizeLinear in blocks, and MatMul.

    Args:
        path: Of the model.
        seed: Of the weights.
        unsigned: Stored as uint4 with zero points of 8.
    """
    stored, scale = _weights(seed)
    kind, zero = (TensorProto.UINT4, 8) if unsigned else (TensorProto.INT4, 0)
    weights = [
        helper.make_tensor("w", kind, stored.shape, (stored + zero).ravel().tolist()),
        numpy_helper.from_array(scale, "s"),
        helper.make_tensor("z", kind, scale.shape, [zero] * scale.size),
    ]
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], "dq", axis=0, block_size=BLOCK)]
    nodes.append(helper.make_node("MatMul", ["x", nodes[-1].output[0]], ["y"], "mm"))
    return _save(helper.make_graph(nodes, "four", *_sides(), initializer=weights), path)


def products(path: Path, seed: int = 3, *, bits: int = 4, level: int = 4) -> Path:
    """The same weights in a MatMulNBits.

    Args:
        path: Of the model.
        seed: Of the weights.
        bits: Of each weight, 4 or 8.
        level: The attribute accuracy_level; 4 rounds activations to int8, and 1 does not.
    """
    stored, scale = _weights(seed)
    # Without zero points, half of the range stands for zero.
    blocks = (stored.astype(np.int16) + (1 << bits - 1)).astype(np.uint8).T.reshape(N, K // BLOCK, BLOCK)
    packed = blocks if bits == 8 else blocks[..., ::2] | blocks[..., 1::2] << 4
    weights = [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(scale.T.copy(), "s")]
    of = {"K": K, "N": N, "bits": bits, "block_size": BLOCK, "accuracy_level": level}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], "mm", domain="com.microsoft", **of)
    return _save(helper.make_graph([node], "products", *_sides(), initializer=weights), path)


def same_in_float(path: Path, seed: int = 3) -> Path:
    """One MatMul with the values of these weights."""
    stored, scale = _weights(seed)
    weight = numpy_helper.from_array(stored * np.repeat(scale, BLOCK, axis=0), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "mm")
    return _save(helper.make_graph([node], "float", *_sides(), initializer=[weight]), path)
