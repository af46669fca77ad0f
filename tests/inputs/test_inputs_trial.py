"""Inputs found by trial: a first run fails in ONNX Runtime, and the next proposals are tried until one runs."""

from __future__ import annotations

import shlex

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from facts import facts
from onnx_text import assemble
from ortune.inputs import workload, written_sizes

ort.set_default_logger_severity(4)
MAX_TRIES = 12


def model(nodes, inputs, weights=(), shape=None):
    outputs = [h.make_tensor_value_info("y", T.FLOAT, shape)]
    values = [h.make_tensor_value_info(name, dtype, dims) for name, dtype, dims in inputs]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights]
    return assemble(nodes, values, outputs, tensors, ir_version=9)


def ones(*shape):
    return np.ones(shape, np.float32)


def find(proto, **options):
    """The workload that runs, or None with the last one and its error."""
    net = ir.from_proto(proto)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    chosen = workload.propose(net, **options)
    for _ in range(MAX_TRIES):
        try:
            for _, feeds in workload.feeds(net, chosen):
                session.run(None, feeds)
            return chosen, ""
        except (state.InvalidArgument, state.RuntimeException, state.Fail) as error:
            text = str(error)
        following = workload.alternatives(net, chosen, text)
        if following is None:
            break
        assert following.tries == chosen.tries + 1
        chosen = following
    raise AssertionError(workload.cannot_feed(net, chosen, text)) from None


def opaque(name, out):
    """Hide a value from the static walk, as a loop or an unknown operator would: through a sequence."""
    return [
        h.make_node("SequenceConstruct", [name], [f"{out}_seq"]),
        h.make_node("SequenceAt", [f"{out}_seq", "zero"], [out]),
    ]


ZERO = ("zero", np.array(0, np.int64))


def test_ids_beyond_the_table():
    proto = model(
        [*opaque("ids", "i"), h.make_node("Gather", ["table", "i"], ["y"])],
        [("ids", T.INT64, ["batch", "seq"])],
        [("table", ones(7, 2)), ZERO],
    )
    chosen, _ = find(proto)
    assert chosen.tries == 1
    assert chosen.cases[0].inputs[0].high == 6
    assert chosen.cases[0].inputs[0].shape == (1, 128)
    facts(workload.describe(chosen), "by trial", "1 failed")


def test_too_many_elements_for_the_gemm():
    nodes = [
        h.make_node("Conv", ["image", "w"], ["c"], pads=[1] * 4),
        *opaque("c", "d"),
        h.make_node("Flatten", ["d"], ["f"]),
        h.make_node("Gemm", ["f", "v"], ["y"]),
    ]
    proto = model(
        nodes,
        [("image", T.FLOAT, ["n", 3, "height", "width"])],
        [("w", ones(2, 3, 3, 3)), ("v", ones(2 * 72 * 72, 4)), ZERO],
        shape=["n", 4],
    )
    chosen, _ = find(proto)
    assert chosen.cases[0].inputs[0].shape == (1, 3, 72, 72)
    assert chosen.cases[0].inputs[0].origin == "trial"


def test_broadcast_against_a_fixed_table():
    proto = model(
        [*opaque("x", "o"), h.make_node("Add", ["o", "table"], ["y"])],
        [("x", T.FLOAT, ["batch", "frames", 4])],
        [("table", ones(1, 37, 4)), ZERO],
    )
    chosen, _ = find(proto)
    assert chosen.cases[0].inputs[0].shape == (1, 37, 4)


def test_ladder_finds_a_size_that_errors_do_not_name():
    proto = model(
        [*opaque("x", "o"), h.make_node("Reshape", ["o", "s"], ["y"])],
        [("x", T.FLOAT, ["batch", "stuff"])],
        [("s", np.array([-1, 512], np.int64)), ZERO],
    )
    chosen, _ = find(proto)
    assert chosen.cases[0].inputs[0].shape[1] % 512 == 0


def test_what_the_user_gave_is_never_changed():
    proto = model(
        [*opaque("x", "o"), h.make_node("Add", ["o", "table"], ["y"])],
        [("x", T.FLOAT, ["batch", "frames", 4])],
        [("table", ones(1, 37, 4)), ZERO],
    )
    with pytest.raises(AssertionError) as caught:
        find(proto, shapes={"x": (1, 9, 4)})
    (error,) = caught.value.args
    assert error.where == "input 'x'"
    assert "1x9x4 float" in error.what
    assert "--shape x:1x9x4" not in error.do
    _, advice = shlex.split(error.do.partition("pass ")[2].partition(", or ")[0])
    name, shape = written_sizes.parse_shape(advice)
    chosen, _ = find(proto, shapes={name: shape})
    assert chosen.tries == 0 and chosen.cases[0].inputs[0].shape == (1, 37, 4), "it works as it is advised"


def test_where_the_error_asks_for_no_size_none_is_advised():
    proto = model(
        [*opaque("x", "o"), h.make_node("Reshape", ["o", "s"], ["y"])],
        [("x", T.FLOAT, ["batch", "stuff"])],
        [("s", np.array([-1, 512], np.int64)), ZERO],
    )
    with pytest.raises(AssertionError) as caught:
        find(proto, shapes={"x": (1, 9)})
    (error,) = caught.value.args
    facts(error.do, "--shape x:", "1x9")


def test_declared_size_is_read_from_the_error():
    proto = model([h.make_node("Neg", ["x"], ["y"])], [("x", T.FLOAT, ["batch", "frames"])])
    net = ir.from_proto(proto)
    text = (
        "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: x for the following "
        "indices\n index: 1 Got: 100 Expected: 80\n Please fix either the inputs/outputs or the model."
    )
    following = workload.alternatives(net, workload.propose(net), text)
    assert following.cases[0].inputs[0].shape == (1, 80)


def test_ends_with_one_clear_error():
    nodes = [*opaque("x", "o"), h.make_node("Reshape", ["o", "s"], ["y"])]
    proto = model(
        nodes,
        [("x", T.FLOAT, ["batch", "stuff"])],
        [("s", np.array([104729], np.int64)), ZERO],
        shape=[104729],
    )
    net = ir.from_proto(proto)
    chosen, tries = workload.propose(net), 0
    while (following := workload.alternatives(net, chosen, "some failure")) is not None:
        chosen, tries = following, tries + 1
        assert tries < 40
    error = workload.cannot_feed(net, chosen, "some failure\nmore")
    assert error.where == "input 'x'"
    assert error.what.endswith("error: some failure")
    assert "--inputs FILE.npz" in error.do


def test_past_shrinks_to_a_table_of_positions_and_the_mask_follows():
    """Positions come from the mask's own length, so only the run can tell that the table is too short."""
    nodes = [
        h.make_node("Gather", ["words", "input_ids"], ["we"]),
        *opaque("position_ids", "p"),
        h.make_node("Gather", ["places", "p"], ["pe"]),
        h.make_node("Add", ["we", "pe"], ["e"]),
        h.make_node("Unsqueeze", ["e", "one"], ["e4"]),
        h.make_node("Concat", ["past_key_values.0.key", "e4"], ["k"], axis=2),
        h.make_node("Cast", ["attention_mask"], ["m"], to=T.FLOAT),
        h.make_node("Unsqueeze", ["m", "axes"], ["m4"]),
        h.make_node("Mul", ["k", "m4"], ["y"]),
    ]
    inputs = [
        ("input_ids", T.INT64, ["batch", "seq"]),
        ("attention_mask", T.INT64, ["batch", "total_len"]),
        ("position_ids", T.INT64, ["batch", "seq"]),
        ("past_key_values.0.key", T.FLOAT, ["batch", 1, "past_len", 4]),
    ]
    weights = [("words", ones(9, 4)), ("places", ones(40, 4)), ZERO]
    weights += [("one", np.array([1], np.int64)), ("axes", np.array([1, 3], np.int64))]
    chosen, _ = find(model(nodes, inputs, weights))
    shapes = {c.name: c.shape for c in chosen.cases[0].inputs}
    assert shapes["past_key_values.0.key"] == (1, 1, 39, 4)
    assert shapes["attention_mask"] == (1, 40)
    (note,) = chosen.notes
    facts(note, "decoder", "past=39", "prefill not measured")


def test_sizes_that_follow_keep_following():
    nodes = [
        h.make_node("Concat", ["a", "b"], ["ab"], axis=1),
        *opaque("ab", "o"),
        h.make_node("Add", ["o", "table"], ["y"]),
    ]
    inputs = [("a", T.FLOAT, ["rows", 2]), ("b", T.FLOAT, ["frames", 2])]
    chosen, _ = find(model(nodes, inputs, [("table", ones(37, 4)), ZERO]))
    assert [c.shape for c in chosen.cases[0].inputs] == [(37, 2), (37, 2)]
