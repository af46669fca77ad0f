"""Memory of a profiled model: lifetimes by hand, and against the allocator's own figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from onnx_text import assemble, model_of, saved
from ortune.engines.profiling.memory import Lifetimes, lifetimes, memory_of
from ortune.graph.model.open import open_model
from ortune.records import Case, InputChoice
from ortune.trace.memory import BEFORE, Lifetime
from ortune.trace.ort_profile import read_profile
from ortune.trace.table import ABSENT, Trace

ROWS = 1 << 16
SIZE = 4 * ROWS


def model(path: Path, *, named: bool = True) -> Path:
    """x, doubled, viewed otherwise, and read by a branch long after."""
    then = helper.make_graph(
        [helper.make_node("Neg", ["twice"], ["t"], name="neg")],
        "then", [], [helper.make_tensor_value_info("t", TensorProto.FLOAT, [2 * ROWS])],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Abs", ["twice"], ["e"], name="abs")],
        "else", [], [helper.make_tensor_value_info("e", TensorProto.FLOAT, [2 * ROWS])],
    )  # fmt: skip
    name = (lambda text: text) if named else (lambda text: "")
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["twice"], name=name("concat"), axis=0),
        helper.make_node("Unsqueeze", ["twice", "axes"], ["view"], name=name("view")),
        helper.make_node("ReduceMax", ["view"], ["top"], name=name("max"), keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["c"], name=name("greater")),
        helper.make_node("If", ["c"], ["y"], name=name("if"), then_branch=then, else_branch=other),
    ]
    onnx.save(
        assemble(
            nodes,
            "float[n] x",
            "float[m] y, float top",
            [
                helper.make_tensor("axes", TensorProto.INT64, [1], [0]),
                helper.make_tensor("zero", TensorProto.FLOAT, [], [0]),
            ],
        ),
        path,
    )
    return path


CASE = Case(name="c", inputs=(InputChoice(name="x", dtype="float", shape=(ROWS,)),))
OPERATORS = ("Concat", "Unsqueeze", "ReduceMax", "Greater", "If")


def profiled(path: Path) -> Trace:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.profile_file_prefix = str(path.with_suffix(".profile"))
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {"x": np.ones(ROWS, np.float32)})
    return read_profile(Path(session.end_profiling()))


def known(path: Path, trace: Trace) -> Lifetimes:
    keys = {f"{op}#{i}": f"{op}_{i}" for i, op in enumerate(OPERATORS)}
    return lifetimes(open_model(path).ir.graph, CASE, keys, trace)


@pytest.mark.parametrize("is_named", [True, False])
def test_values_live_as_long_as_somebody_reads_them(tmp_path: Path, is_named: bool) -> None:
    path = model(tmp_path / "m.onnx", named=is_named)
    trace = profiled(path)
    found = known(path, trace)
    plain = tuple(f"{op}_{i}" for i, op in enumerate(OPERATORS))
    names = ("concat", "view", "max", "greater", "if") if is_named else plain
    assert found.nodes == names and found.n_unknown == 0
    # The view is the same memory; the branch reads what it is a view of; both outputs stay.
    assert set(found.values) == {
        Lifetime(name="x (input)", bytes=SIZE, first=BEFORE, last=0),
        Lifetime(name=names[0], bytes=2 * SIZE, first=0, last=4),
        Lifetime(name=names[2], bytes=4, first=2, last=5),
        Lifetime(name=names[3], bytes=1, first=3, last=4),
        Lifetime(name=names[4], bytes=2 * SIZE, first=4, last=5),
    }


def test_without_the_allocators_figures_sizes_and_last_uses_tell(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx")
    trace = profiled(path)
    found = known(path, trace)
    told = memory_of(trace, 0, found, 8)
    assert told is not None and told.source == "profile"
    absent = np.full(len(trace), ABSENT, dtype=np.int64)
    old = replace(trace, in_use_bytes=absent, held_bytes=absent)
    reckoned = memory_of(old, 0, found, 8)
    assert reckoned is not None and (reckoned.source, reckoned.held_bytes) == ("liveness", None)
    assert reckoned.peak_node == "if" and reckoned.weights_bytes == 8
    assert reckoned.peak_bytes == 5 * SIZE + 5
    assert reckoned.at_peak[:3] == (("concat", 2 * SIZE), ("if", 2 * SIZE), ("x (input)", SIZE))
    # The allocator has the same beside the input, which is the caller's, and the weights; its chunks may be larger.
    assert 4 * SIZE <= told.peak_bytes <= 6 * SIZE + 512 and told.peak_node in ("if", "neg")
    assert memory_of(old, 0, Lifetimes(), None) is None


def test_what_is_written_over_is_not_there_twice(tmp_path: Path) -> None:
    """The allocator's own figures say so: at no node it has less in use than the values that are there."""
    text = """g (float[n] x) => (float y) {
        [a] a = Concat <axis = 0> (x, x)
        [b] b = Relu (a)
        [c] c = Add (b, b)
        [d] d = Sigmoid (c)
        [e] e = Mul (c, d)
        [y] y = ReduceMax <keepdims = 0> (e)
    }"""
    path = saved(tmp_path / "m.onnx", model_of(text))
    trace = profiled(path)
    found = lifetimes(open_model(path).ir.graph, CASE, {}, trace)
    spans = {value.name: (value.first, value.last) for value in found.values if value.first != BEFORE}
    # b and e are written over what was read last there; c is read again.
    assert spans == {"a": (0, 0), "b": (1, 1), "c": (2, 3), "d": (3, 4), "e": (4, 5), "y": (5, 6)}
    told = memory_of(trace, 0, found, 0)
    assert told is not None and not [owner for owner in told.owners if owner.bytes < 0]
    assert sum(owner.bytes for owner in told.owners) == told.total_bytes


def test_a_size_that_nobody_knows_is_counted_as_unknown(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx")
    trace = profiled(path)
    blind = replace(trace, nodes=replace(trace.nodes, outputs=("",) * len(trace.nodes.outputs)))
    found = known(path, blind)
    assert found.n_unknown == 3  # of Concat, Greater and If; the largest value is declared
    assert {value.name for value in found.values} == {"x (input)", "max"}


def test_what_each_node_reads_and_makes_is_known_for_the_traffic_of_memory(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", named=True)
    found = known(path, profiled(path))
    concat, view, greatest, *_ = found.steps
    assert [step.node for step in found.steps] == list(found.nodes)
    # The view touches nothing; whoever reads it reads what the Concat has made.
    assert concat.writes and not view.reads and not view.writes
    assert dict(greatest.reads) == dict(concat.writes)
