"""A rewrite of structure in tests: applied, counted, and run beside the model that it was made of."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
from onnx import helper
from same_outputs import run

from ortune import rewrites
from ortune.graph.model.graphs import nodes
from ortune.rewrites import RewriteResult

Made = tuple[onnx.ModelProto, RewriteResult]


def apply(name: str, proto: onnx.ModelProto, **params: str) -> Made:
    """The model after a rewrite, which must be valid, and done when it is done."""
    opened = ir.serde.deserialize_model(proto)
    result = rewrites.find(name).apply(opened, params)
    made = ir.serde.serialize_model(opened)
    onnx.checker.check_model(made)
    # Read anew, since what is only in memory would be lost.
    assert not rewrites.find(name).apply(ir.serde.deserialize_model(made), params).modified
    return made, result


def kinds(proto: onnx.ModelProto) -> Counter[str]:
    """How many of each operator, subgraphs included."""
    return Counter(node.op_type for node in nodes(ir.serde.deserialize_model(proto)))


def same(proto: onnx.ModelProto, made: onnx.ModelProto, *shapes: tuple[int, ...], exact: bool = True) -> None:
    """The outputs are those of before, on random feeds of these shapes."""
    rng = np.random.default_rng(3)
    held = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in held]
    feeds = {}
    for value, shape in zip(inputs, shapes, strict=True):
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = np.asarray(rng.standard_normal(shape) * 3).astype(dtype)
    for ours, theirs in zip(run(made, feeds), run(proto, feeds), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if exact:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max(initial=0))
