"""What loops, scans and branches cost: how often their bodies run, and of which sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from cost_graphs import BRANCHES, W, body, info, model, weight
from cost_models import count
from onnx import TensorProto as T
from onnx import helper as h

import zoo
from facts import facts
from ortune.engines.profiling.nodes import executions
from ortune.graph.cost import costs
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.trace.read import read_trace


def test_the_dearer_branch_counts():
    nodes = [
        h.make_node("If", ["c"], ["y"], name="if", **BRANCHES),
        h.make_node("Relu", ["y"], ["z"], name="after"),
    ]
    cost = count(
        model(nodes, [info("c", dtype=T.BOOL), info("x", "n", 4)], ["z"], [W]), {"x": (3, 4), "c": ()}
    )
    # 3x4 outputs of 4 multiply-adds; Relu of 12
    assert cost.flops == 2 * 48 + 12
    assert {n.name: (n.times, n.flops, n.inside) for n in cost.nodes} == {
        "if": (1, 0, ""),
        "dear": (1, 96, "if/then_branch"),
        "cheap": (0, 12, "if/else_branch"),
        "after": (1, 12, ""),
    }
    (note,) = cost.notes
    facts(note, "If 'if'", "more expensive", "then_branch")


def test_what_is_fed_decides_a_branch():
    opened = open_model(zoo.model_path("silero-vad"))
    work = workload.propose(opened.ir)
    (case,) = work.cases
    (values,) = workload.whole_numbers(opened.ir, work)
    ((_, feeds),) = workload.feeds(opened.ir, work)
    assert {name: value.tolist() for name, value in values.items()} == {"sr": feeds["sr"].tolist()}
    shapes = {choice.name: choice.shape for choice in case.inputs}
    # The rate of samples chooses the network, and the length of the sound what else is done.
    assert len(costs(opened.ir, shapes).notes) > len(costs(opened.ir, shapes, values).notes)


def test_a_constant_condition_decides():
    nodes = [h.make_node("If", ["c"], ["y"], name="if", **BRANCHES)]
    cost = count(model(nodes, [info("x", 3, 4)], ["y"], [W, weight("c", False)]), {})
    assert (cost.flops, cost.notes) == (12, ())


def loop(trips, extra=(), carried="out", cond="c_in"):
    inner = body(
        [
            *extra,
            h.make_node("Identity", [cond], ["c_out"]),
            h.make_node("MatMul", ["s_in", "w"], ["out"], name="step"),
        ],
        [info("i", dtype=T.INT64), info("c_in", dtype=T.BOOL), h.make_value_info("s_in", onnx.TypeProto())],
        ["c_out", carried, "out"],
    )  # fmt: skip
    nodes = [
        h.make_node("Loop", ["m", "", "x"], ["s", "all"], name="loop", body=inner),
        h.make_node("Neg", ["all"], ["y"], name="after"),
    ]
    fed = [info("x", 2, 4), *([info("m", dtype=T.INT64)] if trips is None else [])]
    return model(nodes, fed, ["s", "y"], [W] if trips is None else [W, weight("m", np.int64(trips))])


def test_a_loop_counts_its_trips():
    cost = count(loop(7), {})
    # 7 steps of 2x4 outputs x 4 multiply-adds, then 7x2x4 elements negated
    assert cost.flops == 7 * 64 + 56
    assert (cost.notes, cost.unknown) == ((), {})


def test_a_loop_of_unknown_length_counts_one_iteration_and_says_so():
    cost = count(loop(None), {})
    assert cost.flops == 64
    (note,) = cost.notes
    facts(note, "Loop 'loop'", "not constant", "one iteration")
    ((reason, n_nodes),) = cost.unknown.items()
    assert n_nodes == 1
    facts(reason, "trip count", "Loop", "not constant")


def test_a_condition_that_may_end_the_loop_is_said():
    ends = h.make_node("Less", ["i", "i"], ["less"])
    cost = count(loop(7, extra=[ends], cond="less"), {})
    (note,) = cost.notes
    facts(note, "Loop 'loop'", "condition", "before the 7 iterations")


def test_a_loop_that_grows_its_state_is_said():
    grow = h.make_node("Concat", ["s_in", "s_in"], ["twice"], axis=0)
    cost = count(loop(3, extra=[grow], carried="twice"), {})
    facts(cost.notes[0], "sizes change", "first iteration")


def growing(trips):
    """Attention over a cache that is one row longer each time, and a product of it with itself."""
    inner = body(
        [
            h.make_node("Concat", ["cache", "x"], ["longer"], axis=0, name="concat"),
            h.make_node("Transpose", ["longer"], ["turned"], name="turn"),
            h.make_node("MatMul", ["x", "turned"], ["scores"], name="scores"),
            h.make_node("MatMul", ["longer", "turned"], ["square"], name="square"),
            h.make_node("MatMul", ["square", "square"], ["cube"], name="cube"),
            h.make_node("Identity", ["c_in"], ["c_out"], name="go on"),
        ],
        [info("i", dtype=T.INT64), info("c_in", dtype=T.BOOL), h.make_value_info("cache", onnx.TypeProto())],
        ["c_out", "longer"],
    )
    nodes = [
        h.make_node("Loop", ["m", "", "start"], ["all"], name="loop", body=inner),
        h.make_node("Neg", ["all"], ["y"], name="after"),
    ]
    return model(nodes, [info("x", 1, 4), info("start", 2, 4)], ["y"], [weight("m", np.int64(trips))])


@pytest.mark.parametrize("trips", [1, 2, 3, 4, 5, 6, 64, 1000])
def test_a_loop_that_carries_what_grows_counts_each_size(trips):
    cost = count(growing(trips), {})
    rows = range(3, 3 + trips)
    per_node = {n.name: n.flops * n.times for n in cost.nodes}
    # a mean is an integer for each execution
    assert per_node["scores"] == pytest.approx(sum(2 * 4 * n for n in rows), abs=trips)
    assert per_node["square"] == pytest.approx(sum(2 * 4 * n * n for n in rows), abs=trips)
    assert per_node["cube"] == pytest.approx(sum(2 * n**3 for n in rows), abs=trips)
    assert per_node["after"] == 4 * (2 + trips)
    assert cost.unknown == {}
    told = "sizes change from one iteration to the next: each iteration is counted with its own sizes"
    assert cost.notes == (f"Loop 'loop': {told}",)


def test_a_loop_over_what_another_one_makes_longer():
    each = body([h.make_node("MatMul", ["row", "w"], ["made"], name="product")],
                [h.make_value_info("row", onnx.TypeProto())], ["made"])  # fmt: skip
    inner = body(
        [
            h.make_node("Concat", ["cache", "x"], ["longer"], axis=0, name="concat"),
            h.make_node("Scan", ["longer"], ["rows"], name="scan", num_scan_inputs=1, body=each),
            h.make_node("Identity", ["c_in"], ["c_out"], name="go on"),
        ],
        [info("i", dtype=T.INT64), info("c_in", dtype=T.BOOL), h.make_value_info("cache", onnx.TypeProto())],
        ["c_out", "longer"],
    )
    nodes = [h.make_node("Loop", ["m", "", "x"], ["all"], name="loop", body=inner)]
    cost = count(model(nodes, [info("x", 1, 4)], ["all"], [weight("m", np.int64(9)), W]), {})
    (product,) = (n for n in cost.nodes if n.name == "product")
    # rows 2 to 10, each a product of 4x4
    assert (product.flops, product.times) == (32, 54)


def test_a_loop_that_grows_is_counted_as_it_ran(tmp_path):
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
    proto = growing(64)
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"x": np.ones((1, 4), np.float32), "start": np.ones((2, 4), np.float32)}
    session.run(None, feeds)
    trace = read_trace(Path(session.end_profiling()))
    static = {n.name: n for n in count(proto, {}).nodes}
    opened = ir.from_proto(proto)
    ran = executions(opened.graph, {}, trace)
    seen = {n.name: n for n in costs(opened, {}, ran=ran).nodes}
    assert {name: n.flops for name, n in seen.items()} == {name: n.flops for name, n in static.items()}
    assert {name: n.bytes_written for name, n in seen.items()} == {
        name: n.bytes_written for name, n in static.items()
    }


def test_scan_counts_its_length():
    inner = body(
        [h.make_node("MatMul", ["e", "w"], ["o"], name="step"), h.make_node("Add", ["s_in", "o"], ["s_out"])],
        [info("s_in", 2, 4), info("e", 2, 4)], ["s_out", "o"],
    )  # fmt: skip
    nodes = [
        h.make_node("Scan", ["s", "xs"], ["last", "all"], name="scan", body=inner, num_scan_inputs=1),
        h.make_node("Neg", ["all"], ["y"]),
    ]
    cost = count(
        model(nodes, [info("s", 2, 4), info("xs", "t", 2, 4)], ["last", "y"], [W]), {"xs": (5, 2, 4)}
    )
    # 5 steps: 8 outputs of 4 multiply-adds, 8 additions; 5x2x4 elements negated
    assert cost.flops == 5 * (64 + 8) + 40


def test_a_loop_in_a_loop_multiplies():
    inner = body(
        [h.make_node("Identity", ["c2"], ["c2o"]), h.make_node("Neg", ["s2"], ["s2o"], name="deep")],
        [info("i2", dtype=T.INT64), info("c2", dtype=T.BOOL), h.make_value_info("s2", onnx.TypeProto())],
        ["c2o", "s2o"],
    )
    outer = body(
        [
            h.make_node("Identity", ["c1"], ["c1o"]),
            h.make_node("Loop", ["m", "", "s1"], ["s1o"], name="b", body=inner),
        ],
        [info("i1", dtype=T.INT64), info("c1", dtype=T.BOOL), h.make_value_info("s1", onnx.TypeProto())],
        ["c1o", "s1o"],
    )
    nodes = [h.make_node("Loop", ["m", "", "x"], ["y"], name="a", body=outer)]
    cost = count(model(nodes, [info("x", 10)], ["y"], [weight("m", np.int64(3))]), {})
    (deep,) = [n for n in cost.nodes if n.name == "deep"]
    assert (cost.flops, deep.times, deep.inside) == (9 * 10, 9, "a/b")
