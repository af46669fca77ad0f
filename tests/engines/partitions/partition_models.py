"""Small models that are partitioned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
from onnx import numpy_helper

from onnx_text import model_of, saved
from ortune.graph.model.open import open_model


def parsed(text: str, folder: Path, *, ir_version: int = 8, opset: int = 17) -> ir.Model:
    """A model from its graph in ONNX's own text."""
    proto = model_of(text, opset, ir_version=ir_version, contrib=True)
    return open_model(saved(folder / "model.onnx", proto)).ir


MNIST = """
agraph (float[1,1,28,28] Input3) => (float[1,10] Plus214_Output_0)
<int64[2] shape = {1,256}, int64[2] weight_shape = {256,10}>
{
    Convolution28 = Conv <kernel_shape = [5,5], auto_pad = "SAME_UPPER"> (Input3, Parameter5)
    Plus30 = Add (Convolution28, Parameter6)
    ReLU32 = Relu (Plus30)
    Pooling66 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (ReLU32)
    Convolution110 = Conv <kernel_shape = [5,5], auto_pad = "SAME_UPPER"> (Pooling66, Parameter87)
    Plus112 = Add (Convolution110, Parameter88)
    ReLU114 = Relu (Plus112)
    Pooling160 = MaxPool <kernel_shape = [3,3], strides = [3,3]> (ReLU114)
    Times212_reshape0 = Reshape (Pooling160, shape)
    Times212_reshape1 = Reshape (Parameter193, weight_shape)
    Times212 = MatMul (Times212_reshape0, Times212_reshape1)
    Plus214_Output_0 = Add (Times212, Parameter194)
}
"""
_WEIGHTS = {
    "Parameter5": (8, 1, 5, 5), "Parameter6": (8, 1, 1), "Parameter87": (16, 8, 5, 5), "Parameter88": (16, 1, 1),
    "Parameter193": (16, 4, 4, 10), "Parameter194": (1, 10),
}  # fmt: skip


def mnist(folder: Path) -> Path:
    """A model of the same structure as the MNIST model of the ONNX zoo."""
    head = '<ir_version: 3, opset_import: ["" : 8]>'
    model = onnx.parser.parse_model(head + MNIST)
    draw = np.random.default_rng(0)
    for name, shape in _WEIGHTS.items():
        tensor = numpy_helper.from_array(draw.standard_normal(shape, dtype=np.float32), name)
        model.graph.initializer.append(tensor)
    for tensor in model.graph.initializer:  # which IR version 3 asks for
        model.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    onnx.save(model, folder / "mnist.onnx")
    return folder / "mnist.onnx"


def optimised(model: Path, level: str) -> Path:
    """What ONNX Runtime makes of it at a level, as it saves it."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(levels, f"ORT_ENABLE_{level.upper()}")
    options.optimized_model_filepath = str(model.with_name(f"{model.stem}-{level}.onnx"))
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return Path(options.optimized_model_filepath)
