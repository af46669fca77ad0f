"""Whether a changed model gives what the original gave: but for rounding, and steps that are close by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
from growing_graph import Feeds
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    NotImplemented,
    RuntimeException,
)

REFUSED = (Fail, InvalidArgument, NotImplemented, RuntimeException)
"""Of a random graph: what is empty, has no kernel for its type, or reads in a body what ONNX Runtime has lost."""
_SHAKEN = 8  # runs with inputs and weights a few roundings off: one of two goes to a step's other side
_MOST_MOVED = 4.0
"""How much further than the model itself moves a rewrite's outputs may be off."""
_STEP = 0.01
"""Share of an output's largest number: who moves further went over a step, as a Cast to integers has."""
_MOST_OFF = 0.1
"""Share of an output's numbers that may go over a step; where more do, it is another model: a Tanh that float32 rounds
to 1 never gets there in float64."""


def run(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )


def run_or_evaluate(
    made: onnx.ModelProto, model: onnx.ModelProto, feeds: Feeds, expected: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Outputs of what was made, and those expected; both by the reference where ONNX Runtime loses a value.

    It takes out an input's casts there and back, and leaves their name in the body of an If. The reference joins what
    the rounds of a Loop give, where it should stack them (seed 745), so that it is held against itself alone.
    """
    try:
        return run(made, feeds), expected
    except Fail as error:
        if "Missing Input" not in str(error):
            raise
        return ReferenceEvaluator(made).run(None, feeds), ReferenceEvaluator(model).run(None, feeds)


def all_same(ours: list[np.ndarray], theirs: list[np.ndarray], rounding: float) -> None:
    for one, other in zip(ours, theirs, strict=True):
        same(one, other, rounding)


def rounded_worse(
    model: onnx.ModelProto,
    feeds: Feeds,
    ours: list[np.ndarray],
    theirs: list[np.ndarray],
    rounding: float,
) -> bool:
    """Whether outputs differ only where the model itself is off: by what float32 rounds, or in a few numbers at a step.

    One over the Gelu of -4.5, say: half of the digits of ``1 + tanh`` are gone, whoever computes it. Or an integer made
    of 3.9999998.
    """
    if any(not isinstance(v, np.ndarray) for v in (*ours, *theirs)):
        return False
    others = _other_computations(model, feeds)
    for at, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        step = (
            _STEP * float(np.abs(other.astype(np.float64)).max(initial=0)) if other.dtype.kind == "f" else 0
        )
        moved = np.zeros(other.shape)
        for outputs in others:
            if outputs[at].shape != other.shape:
                continue
            off = np.abs(np.subtract(outputs[at], other, dtype=np.float64))
            if (off > step).sum() <= max(1, off.size * _MOST_OFF):
                moved = np.fmax(moved, off)
        forgiven = np.abs(np.subtract(one, other, dtype=np.float64)) <= _MOST_MOVED * moved
        try:
            same(np.where(forgiven, other, one), other, rounding)
        except AssertionError:
            return False
    return True


def _other_computations(model: onnx.ModelProto, feeds: Feeds) -> list[list[np.ndarray]]:
    """Its outputs as they could as well be: in float64, and with inputs and weights that are a few roundings off.

    The first tells of digits that are lost inside, where inputs do not move them; the others of steps close by.
    """
    exact = _in_double(model, feeds)
    found = [] if exact is None else [exact]
    for seed in range(_SHAKEN):
        generator = np.random.default_rng(seed)
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        for graph in (copy.graph, *copy.functions):
            _each_tensor(graph, lambda array, g=generator: _shaken(array, g))
        try:
            found.append(run(copy, {k: _shaken(v, generator) for k, v in feeds.items()}))
        except REFUSED:
            continue
    return found


def _shaken(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Every number a few roundings off; a number alone may be an exponent, which has to be what it is."""
    if array.dtype.kind != "f" or array.size < 2:
        return array
    digits = np.finfo(np.float32 if array.dtype == np.float64 else array.dtype).eps
    return (array * (1 + 2 * digits * generator.uniform(-1, 1, array.shape))).astype(array.dtype)


def _in_double(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray] | None:
    """Its outputs, all of float32 in it computed in float64; None where that cannot be run."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for graph in (copy.graph, *copy.functions):
        _each_tensor(graph, _wide)
        _widen(graph)
    try:
        return ReferenceEvaluator(copy).run(None, {k: _wide(v) for k, v in feeds.items()})
    # The evaluator fails in as many ways as there are operators.
    except Exception:  # noqa: BLE001
        return None


def _each_tensor(
    graph: onnx.GraphProto | onnx.FunctionProto, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Changes the weights and constants of a graph, and of the graphs within."""
    for tensor in graph.initializer if isinstance(graph, onnx.GraphProto) else ():
        tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)), tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                made = change(numpy_helper.to_array(attribute.t))
                attribute.t.CopyFrom(numpy_helper.from_array(made, attribute.t.name))
            if attribute.HasField("g"):
                _each_tensor(attribute.g, change)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _widen(graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Makes float64 of what is said to be float32 in a graph and in the graphs within; tensors are not changed."""
    if isinstance(graph, onnx.GraphProto):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
            if attribute.HasField("g"):
                _widen(attribute.g)


def same(ours: object, theirs: object, rounding: float) -> None:
    """Fails where two outputs differ in type, in shape, or by more than rounding."""
    if isinstance(theirs, list):
        assert isinstance(ours, list)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, rounding)
        return
    if not isinstance(theirs, np.ndarray):
        assert ours == theirs
        return
    assert isinstance(ours, np.ndarray)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    if theirs.dtype.kind not in "fc":
        np.testing.assert_array_equal(ours, theirs)
        return
    rounding = max(rounding, 2e-2) if theirs.dtype == np.float16 else rounding
    finite = theirs[np.isfinite(theirs)]
    scale = float(np.abs(finite).max(initial=1e-3))
    np.testing.assert_allclose(ours, theirs, rtol=2 * rounding, atol=rounding * scale)
