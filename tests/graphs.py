"""Graphs that tests build node by node."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble

FLOAT = TensorProto.FLOAT


class Graph:
    """A graph that grows."""

    def __init__(self, dtype: type[np.floating] = np.float32) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.dtype = dtype

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"{operator}_{name}", **attributes))
        return name

    def number(self, value: float) -> str:
        return self.weight(np.array(value, self.dtype))

    def weight(self, array: np.ndarray) -> str:
        kept = array if array.dtype.kind in "iu" else array.astype(self.dtype)
        name = f"k{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(kept, order="C"), name))
        return name

    def model(
        self, shape: list[int | str], outputs: list[str], *, opset: int = 17, dtype: int = FLOAT
    ) -> onnx.ModelProto:
        out = FLOAT if self.dtype is np.float32 else TensorProto.DOUBLE
        proto = assemble(
            self.nodes,
            [helper.make_tensor_value_info("x", dtype, shape)],
            [helper.make_tensor_value_info(name, out, None) for name in outputs],
            self.weights,
            opset=opset,
        )
        # The checker wants a shape of every output.
        shaped = onnx.shape_inference.infer_shapes(proto).graph.output
        for ours, inferred in zip(proto.graph.output, shaped, strict=True):
            ours.CopyFrom(inferred)
        return proto
