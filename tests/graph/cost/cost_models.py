"""Models of one node, counted; and run in ONNX Runtime, so that the sizes counted are those that come out."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper as h
from onnx import numpy_helper

from onnx_text import assemble
from ortune.graph.cost import costs
from ortune.records import ModelCost, NodeCost

ort.set_default_logger_severity(4)

MS, ML = "com.microsoft", "ai.onnx.ml"


class Fed:
    """An input that is fed, with its values; an array alone is an initializer, a tuple a fed float tensor."""

    def __init__(self, array):
        self.array = np.asarray(array)


def u8(*shape):
    return Fed(np.full(shape, 3, np.uint8))


def f32(*shape):
    """A weight."""
    return np.full(shape, 0.5, np.float32)


def node_model(op, operands, *, domain="", opset=17, outputs=1, **attributes):
    names, feeds, constants = [], {}, []
    for i, operand in enumerate(operands):
        names.append("" if operand is None else f"i{i}")
        if isinstance(operand, tuple):
            feeds[f"i{i}"] = np.full(operand, 0.5, np.float32)
        elif isinstance(operand, Fed):
            feeds[f"i{i}"] = operand.array
        elif operand is not None:
            constants.append(numpy_helper.from_array(np.asarray(operand), f"i{i}"))
    given = [f"o{i}" for i in range(outputs)]
    node = h.make_node(op, names, given, name="n", domain=domain, **attributes)
    infos = [
        # No size is declared: every one comes from the shapes that costs() is given.
        h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), [None] * v.ndim)
        for k, v in feeds.items()
    ]
    ends = [h.make_value_info(name, onnx.TypeProto()) for name in given]
    return assemble(
        [node],
        infos,
        ends,
        constants,
        opset=opset,
        ir_version=10,
        opsets={MS: 1, ML: 5 if op == "TreeEnsemble" else 3},
    ), feeds


def count(proto: onnx.ModelProto, shapes) -> ModelCost:
    return costs(ir.from_proto(proto), shapes)


def one(op, operands, *, run=True, **rest) -> NodeCost:
    """The cost of a single node. With ``run`` the bytes written are checked against ONNX Runtime's outputs."""
    proto, feeds = node_model(op, operands, **rest)
    (cost,) = count(proto, {k: v.shape for k, v in feeds.items()}).nodes
    if run:
        session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        assert cost.bytes_written == sum(np.asarray(out).nbytes for out in session.run(None, feeds)), cost
    return cost
