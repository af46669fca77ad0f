"""Rewrites against models that nobody made for them: random graphs, and the node cases that come with onnx."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from random_graphs import Feeds, random_graph

from ortune import rewrites
from ortune.rewrites._base import Rewrite

IN_MEMORY = [r for r in rewrites.all_rewrites().values() if r.change and r.safety != "behaviour"]
_ROUNDING = ("cast-round-trips", "float16-to-float32")
"""Outputs of these move by what float16 rounds."""
_MOST_DEVIATION = 1e6
_MOST_OFF = 0.1
"""Share of an output's numbers that float32 itself may get wrong: of more, a double is no judge."""


def run(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )


def check(
    rewrite: Rewrite,
    model: onnx.ModelProto,
    feeds: Feeds,
    expected: list[np.ndarray],
    given: ir.Model | None = None,
) -> bool:
    """Whether the rewrite changed the model; fails where it is not what it was.

    ``given`` is the model as it was read, for the next rewrite too.
    """
    given = given or ir.serde.deserialize_model(model)
    made = given.clone()
    if not rewrite.apply(made).modified:
        return False
    # Types, shapes and tensors are shared with the copy, so none may be changed in place.
    assert ir.serde.serialize_model(given) == ir.serde.serialize_model(ir.serde.deserialize_model(model))
    proto = ir.serde.serialize_model(made)
    onnx.checker.check_model(proto)
    rounding = 1e-2 if rewrite.name in _ROUNDING else 1e-4
    made_of, expected = _run_or_evaluate(proto, model, feeds, expected)
    try:
        _all_same(made_of, expected, rounding)
    except AssertionError:
        if not _rounded_worse(model, feeds, made_of, expected, rounding):
            raise
    assert not rewrite.apply(made).modified
    return True


def _run_or_evaluate(
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


def _all_same(ours: list[np.ndarray], theirs: list[np.ndarray], rounding: float) -> None:
    for one, other in zip(ours, theirs, strict=True):
        same(one, other, rounding)


def _rounded_worse(
    model: onnx.ModelProto,
    feeds: Feeds,
    ours: list[np.ndarray],
    theirs: list[np.ndarray],
    rounding: float,
) -> bool:
    """Whether outputs differ only where the model itself is off: at a few numbers, by what float32 rounds.

    One over the Gelu of -4.5, say: half of the digits of ``1 + tanh`` are gone, whoever computes it.
    """
    exact = _in_double(model, feeds)
    if exact is None or any(not isinstance(v, np.ndarray) or v.dtype != np.float32 for v in theirs):
        return False
    for one, other, true in zip(ours, theirs, exact, strict=True):
        if other.shape != true.shape or one.shape != other.shape:
            return False
        off = np.abs(other - true) > rounding / 4 * np.abs(true)
        if off.sum() > max(1, off.size * _MOST_OFF):
            return False
        try:
            same(np.where(off, 0, one), np.where(off, 0, other), rounding)
        except AssertionError:
            return False
    return True


def _in_double(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray] | None:
    """Its outputs, all of float32 in it computed in float64; None where that cannot be run."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for graph in (copy.graph, *copy.functions):
        _widen(graph)
    try:
        return ReferenceEvaluator(copy).run(None, {k: _wide(v) for k, v in feeds.items()})
    # The evaluator fails in as many ways as there are operators.
    except Exception:  # noqa: BLE001
        return None


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _widen(graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Makes float64 of the float32 in a graph, in its nodes and in the graphs within."""
    if isinstance(graph, onnx.GraphProto):
        for tensor in graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(_wide(numpy_helper.to_array(tensor)), tensor.name))
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                wide = _wide(numpy_helper.to_array(attribute.t))
                attribute.t.CopyFrom(numpy_helper.from_array(wide, attribute.t.name))
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


@dataclass(slots=True)
class Tally:
    """What came of it.

    Attributes:
        models: How many were run.
        changed: How many each rewrite changed.
        wrong: What is not what it was: one line each.
    """

    models: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def take(self, name: str, model: onnx.ModelProto, feeds: Feeds, expected: list[np.ndarray]) -> None:
        """Tries every rewrite on a model."""
        self.models += 1
        given = ir.serde.deserialize_model(model)
        with rewrites.remembering():
            for rewrite in IN_MEMORY:
                try:
                    self.changed[rewrite.name] += check(rewrite, model, feeds, expected, given)
                # Whatever goes wrong is a fault of the rewrite, and the next one is tried.
                except Exception as error:  # noqa: BLE001
                    self.wrong.append(f"{rewrite.name} on {name}: {type(error).__name__}: {str(error)[:300]}")
                    given = ir.serde.deserialize_model(model)


def over_random_graphs(seeds: Iterator[int] | range, tally: Tally) -> None:
    """Every rewrite on every graph."""
    for seed in seeds:
        model, feeds = random_graph(seed)
        model = as_function(model) if seed % 5 == 0 else model
        try:
            expected = run(model, feeds)
        # An outer value that only a body reads is gone when the body is run for the second time (seed 2469).
        except Fail:
            continue
        # What is infinite, or nearly, says nothing of rounding.
        if all(np.isfinite(v).all() and np.abs(v).max(initial=0) < _MOST_DEVIATION for v in expected):
            tally.take(f"random_graph({seed})", model, feeds, expected)


def as_function(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model as the call of a function of its own, in which constants are nodes."""
    graph = model.graph
    constants = [helper.make_node("Constant", [], [w.name], value=w) for w in graph.initializer]
    inputs, outputs = ([v.name for v in side] for side in (graph.input, graph.output))
    function = helper.make_function(
        "local", "Whole", inputs, outputs, [*constants, *graph.node], model.opset_import
    )
    call = helper.make_node("Whole", inputs, outputs, name="call", domain="local")
    return helper.make_model(
        helper.make_graph([call], "g", graph.input, graph.output),
        functions=[function],
        opset_imports=[*model.opset_import, helper.make_opsetid("local", 1)],
        ir_version=8,
    )


FORMS = ("fed", "constant", "weights")
"""A case as it is; with all that is fed as constants; with all but what is fed first."""


def over_node_cases(tally: Tally, every: int = 1, first: int = 0, operators: int = 1) -> int:
    """Every rewrite on every node case in three forms; how many ONNX Runtime does not run.

    ``operators``: one in so many has its cases made, which computes them all.
    """
    left_out = 0
    for number, case in enumerate(_cases(operators)):
        if number % every != first % every:
            continue
        for form in FORMS:
            made = _formed(case.model, case.feeds, form)
            if made is None:
                continue
            model, feeds = made
            try:
                expected = run(model, feeds)
            # Operators that this build lacks, of every kind of error.
            except Exception:  # noqa: BLE001
                left_out += 1
                continue
            tally.take(f"{case.name} ({form})", model, feeds, expected)
    return left_out


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    model: onnx.ModelProto
    feeds: Feeds


def _cases(operators: int) -> list[_Case]:
    from onnx.backend.test.case import node

    names = sorted(module.name for module in pkgutil.iter_modules(node.__path__))
    for name in names[::operators] if operators > 1 else ():
        importlib.import_module(f"{node.__name__}.{name}")
    found = []
    for case in node._NodeTestCases if operators > 1 else node.collect_testcases():
        if case.model is not None and case.data_sets:
            names = [value.name for value in case.model.graph.input]
            given = dict(zip(names, case.data_sets[0][0], strict=False))
            found.append(_Case(case.name, case.model, {k: v for k, v in given.items() if v is not None}))
    return found


def _formed(model: onnx.ModelProto, feeds: Feeds, form: str) -> tuple[onnx.ModelProto, Feeds] | None:
    """The case in another form: fed values become weights, and an Identity makes every output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if form == "fed":
        return copy, feeds
    graph = copy.graph
    # Sequences and optional values are no weights.
    weights = {k: v for k, v in feeds.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiub"}
    if form == "weights":
        weights.pop(next(iter(feeds), ""), None)
    if not weights or (len(weights) == len(feeds) and form == "weights"):
        return None
    kept = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in weights.items())
    # What subgraphs read keeps its name: only what is an output gets another.
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        node.output[:] = [f"{name}_inner" if name in outputs else name for name in node.output]
        node.input[:] = [f"{name}_inner" if name in outputs else name for name in node.input]
    graph.node.extend(helper.make_node("Identity", [f"{n}_inner"], [n], name=f"{n}_out") for n in outputs)
    copy.ir_version = max(copy.ir_version, 4)
    return copy, {k: v for k, v in feeds.items() if k not in weights}
