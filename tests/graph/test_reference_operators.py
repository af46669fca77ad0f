"""The reference evaluator in double precision against ONNX Runtime, one operator at a time, in old and new opsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from ortune.graph.reference_operators import misread
from ortune.outputs.exact import evaluate
from ortune.outputs.files import Array

OPSETS = (7, 11, 13, 18, 21)
RNG = np.random.default_rng(0)
UNARY = [
    "Abs",
    "Atan",
    "Ceil",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Flatten",
    "Gelu",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Hardmax",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "LogSoftmax",
    "MeanVarianceNormalization",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Transpose",
]
REDUCED = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]
SHAPE = (2, 4, 6, 6)
PADS = ([0, 0, 0, 0], [1, 0, 2, 1])

Case = tuple[str, dict[str, Array], dict[str, Any]]
"""An operator, its inputs after the first, and its attributes."""


def some(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def cases() -> Iterator[Case]:
    yield from ((op, {}, {}) for op in (*UNARY, *REDUCED))
    for axis in range(4):
        yield from (
            (op, {}, {"axis": axis}) for op in ("Flatten", "Hardmax", "LogSoftmax", "Softmax", "ArgMax")
        )
        yield from ((op, {}, {"axes": [axis], "keepdims": 0}) for op in REDUCED)
    yield from ((op, {"a": np.int64([1, -1])}, {}) for op in REDUCED)
    yield from (
        (op, {"b": np.abs(some(4, 1, 1)) + 1}, {})
        for op in ["Add", "Div", "Max", "Min", "Mul", "PRelu", "Sub"]
    )
    statistics = {"s": some(4), "b": some(4), "m": some(4), "v": np.abs(some(4))}
    yield from (
        ("BatchNormalization", statistics, more) for more in ({}, {"momentum": 0.8}, {"epsilon": 1e-2})
    )
    yield "InstanceNormalization", {"s": some(4), "b": some(4)}, {}
    yield "LayerNormalization", {"s": some(6, 6), "b": some(6, 6)}, {"axis": 2}
    yield "LpNormalization", {}, {"p": 1, "axis": 1}
    yield "MatMul", {"w": some(4, 6, 3)}, {}
    yield "Clip", {}, {"min": -0.5, "max": 0.5}
    yield "Clip", {"low": np.float32(-0.5), "high": np.float32(0.5)}, {}
    for pads in PADS:
        for stride in (1, 2):
            common = {"pads": pads, "strides": [stride, stride]}
            yield "Conv", {"w": some(4, 2, 3, 3), "b": some(4)}, {**common, "group": 2, "dilations": [1, 2]}
            yield "ConvTranspose", {"w": some(4, 2, 3, 3)}, {**common, "group": 2}
            for ceil in (0, 1):
                yield from (
                    (op, {}, {**common, "kernel_shape": [3, 2], "ceil_mode": ceil})
                    for op in ("AveragePool", "MaxPool")
                )
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        window = {"auto_pad": auto, "strides": [2, 2], "kernel_shape": [3, 3]}
        yield from ((op, {}, window) for op in ("AveragePool", "MaxPool"))
        yield "Conv", {"w": some(4, 4, 3, 3)}, window
    for coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
        for mode, nearest in (
            ("nearest", "floor"),
            ("nearest", "round_prefer_floor"),
            ("linear", ""),
            ("cubic", ""),
        ):
            for scale in (2, 1.5, 0.6):
                yield (
                    "Resize", {"r": np.zeros(0, np.float32), "s": np.float32([1, 1, scale, scale])},
                    {"mode": mode, "coordinate_transformation_mode": coordinates}
                    | ({"nearest_mode": nearest} if nearest else {}),
                )  # fmt: skip
    for mode in ("constant", "reflect", "edge"):
        yield "Pad", {}, {"pads": [0, 0, 1, 2, 0, 1, 2, 0], "mode": mode}
        yield "Pad", {"p": np.int64([0, 0, 1, 2, 0, 1, 2, 0])}, {"mode": mode}
    yield "Slice", {}, {"axes": [2, 3], "starts": [1, -3], "ends": [9, -1]}
    yield "CumSum", {"a": np.int64(2)}, {"exclusive": 1, "reverse": 1}
    yield "DepthToSpace", {}, {"blocksize": 2, "mode": "CRD"}
    yield "Gather", {"i": np.int64([[0, -1]])}, {"axis": 2}
    yield "Einsum", {"b": some(6, 5)}, {"equation": "nchw,wk->nchk"}
    yield "LRN", {}, {"size": 3}


def cases_of_rank(rank: int) -> Iterator[Case]:
    """Operators that take inputs of any number of axes."""
    yield from ((op, {}, {}) for op in (*UNARY, *REDUCED))
    yield from ((op, {}, {"axis": -1}) for op in ("Hardmax", "LogSoftmax", "Softmax", "ArgMax"))
    if rank < 3:
        return
    yield "InstanceNormalization", {"s": some(4), "b": some(4)}, {}
    for strides in (1, 2):
        window = {"kernel_shape": [3] * (rank - 2), "strides": [strides] * (rank - 2)}
        yield from ((op, {}, window) for op in ("AveragePool", "MaxPool"))
        yield "Conv", {"w": some(4, 4, *[3] * (rank - 2)), "b": some(4)}, window
        yield "ConvTranspose", {"w": some(4, 4, *[3] * (rank - 2))}, window


def model_of(case: Case, opset: int, shape: tuple[int, ...] = SHAPE) -> onnx.ModelProto:
    op, inputs, attributes = case
    node = helper.make_node(op, ["x", *inputs], ["y"], **attributes)
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in inputs.items()]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model: onnx.ModelProto, x: Array) -> Array | None:
    """What ONNX Runtime gives without optimisation; None where the opset has no such operator."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, {"x": x})[0])
    except Exception:  # noqa: BLE001  (ONNX Runtime has a class for each status, and none in common)
        return None


def compared(case: Case, opset: int, x: Array) -> bool | None:
    """Whether the evaluator gives what ONNX Runtime gives; None if one of them does not know the operator."""
    model = model_of(case, opset, x.shape)
    ours = run(model, x)
    if ours is None or misread(ir.from_proto(model.graph.node[0])):
        return None
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(ours.dtype), ours.shape)
    )
    right = evaluate(ir.from_proto(model), {"x": x})
    if right is None:  # the evaluator does not know it, so nothing is claimed
        return None
    return right["y"].shape == ours.shape and np.allclose(right["y"], ours, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("opset", OPSETS)
def test_what_is_evaluated_is_what_operators_are_defined_to_give(opset: int) -> None:
    x = some(*SHAPE)
    found = [(case, compared(case, opset, x)) for case in cases()]
    assert [f"{case[0]} {case[2]}" for case, equal in found if equal is False] == []
    known = {case[0] for case, equal in found if equal}
    assert len(known) > 40 and {"BatchNormalization", "Softmax", "Conv", "MaxPool"} <= known


@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 7), (2, 4, 5, 4, 6)], ids=str)
def test_operators_are_evaluated_for_any_number_of_axes(shape: tuple[int, ...]) -> None:
    x = some(*shape)
    found = [(case, compared(case, 17, x)) for case in cases_of_rank(len(shape))]
    assert [f"{case[0]} {case[2]}" for case, equal in found if equal is False] == []
    assert {"Softmax", "ReduceMean"} <= {case[0] for case, equal in found if equal}


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
        ("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 1}),
        ("LpNormalization", {"p": 1}),
        ("Resize", {"coordinate_transformation_mode": "align_corners"}),
    ],
)
def test_what_the_evaluator_misreads_is_known(op: str, attributes: dict[str, Any]) -> None:
    node = ir.from_proto(helper.make_node(op, ["x"], ["y"], **attributes))
    assert misread(node)


@pytest.mark.parametrize(("axis", "shape"), [(0, (1, 40)), (0, (3, 40)), (1, (40, 1)), (1, (40, 5))])
def test_elements_are_gathered_along_their_axis_of_many_rows(axis: int, shape: tuple[int, int]) -> None:
    model = model_of(("GatherElements", {"i": RNG.integers(0, 40, shape)}, {"axis": axis}), 13)
    for value, sizes in ((model.graph.input[0], (40, 40)), (model.graph.output[0], shape)):
        value.CopyFrom(helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, sizes))
    x = some(40, 40)
    right = evaluate(ir.from_proto(model), {"x": x})
    assert right is not None
    np.testing.assert_array_equal(right["y"].astype(np.float32), run(model, x))
