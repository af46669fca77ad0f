"""Inputs of every type, and models that take none, run in ONNX Runtime as proposed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from input_models import (
    by_name,
    info,
    model,
    one_node,
    proposed,
    weight,
)
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

from onnx_text import assemble
from ortune.inputs import workload


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(T.FLOAT16, "float16"), (T.DOUBLE, "double"), (T.INT8, "int8"), (T.UINT8, "uint8"), (T.INT32, "int32"),
     (T.BFLOAT16, "bfloat16"), (T.STRING, "string"), (T.BOOL, "bool")],
)  # fmt: skip
def test_element_types(dtype, name):
    chosen = by_name(proposed(one_node("Identity", dtype, ["batch", 3])))["x"]
    assert (chosen.dtype, chosen.shape) == (name, (1, 3))


def test_padding_mask_hides_nothing():
    proto = model(
        [h.make_node("Cast", ["padding_mask"], ["y"], to=T.FLOAT)],
        [info("padding_mask", T.BOOL, ["batch", "seq"])],
        [info("y", T.FLOAT, None)],
    )
    ((_, feeds),) = workload.feeds(ir.from_proto(proto), proposed(proto))
    assert not feeds["padding_mask"].any()


def test_mel_encoder_fits_its_positions():
    """Two convolutions and 1500 fixed positions, as speech recognisers have: 3000 frames."""
    nodes = [
        h.make_node("Conv", ["mel", "w1"], ["a"], pads=[1, 1]),
        h.make_node("Conv", ["a", "w2"], ["b"], pads=[1, 1], strides=[2]),
        h.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 1]),
        h.make_node("Add", ["c", "places"], ["y"]),
    ]
    weights = [weight("w1", 4, 80, 3), weight("w2", 4, 4, 3), weight("places", 1500, 4)]
    proto = model(nodes, [info("mel", T.FLOAT, ["n", "bins", "ctx"])], [info("y", T.FLOAT, None)], weights)
    assert by_name(proposed(proto))["mel"].shape == (1, 80, 3000)


def test_ids_read_inside_a_branch_are_bounded():
    branch = h.make_graph([h.make_node("Gather", ["t", "ids"], ["z"])], "b", [], [info("z", T.FLOAT, None)])
    proto = model(
        [h.make_node("If", ["use_cache_branch"], ["y"], then_branch=branch, else_branch=branch)],
        [info("use_cache_branch", T.BOOL, [1]), info("ids", T.INT64, ["batch", "seq"])],
        [info("y", T.FLOAT, None)],
        [weight("t", 13, 3)],
    )
    assert by_name(proposed(proto))["ids"].high == 12


def test_rank_is_taken_from_the_convolution_where_none_is_declared():
    nodes = [h.make_node("Conv", ["x", "w"], ["y"])]
    proto = model(nodes, [info("x", T.FLOAT, None)], [info("y", T.FLOAT, None)], [weight("w", 4, 3, 3, 3)])
    chosen = proposed(proto)
    assert by_name(chosen)["x"].shape == (1, 3, 224, 224)
    assert "rank guessed" in workload.describe(chosen)


def test_rank_of_sound_is_a_guess_too_where_none_is_declared():
    nodes = [h.make_node("Identity", ["x"], ["y"]), h.make_node("Identity", ["sr"], ["z"])]
    inputs = [info("x", T.FLOAT, None), info("sr", T.INT64, [])]
    chosen = proposed(model(nodes, inputs, [info("y", T.FLOAT, None), info("z", T.INT64, [])]))
    sound = by_name(chosen)["x"]
    assert sound.role == "audio" and sound.guessed
    assert "rank guessed" in workload.describe(chosen)


def test_bool_mask_is_all_true():
    proto = model(
        [h.make_node("Where", ["mask", "x", "z"], ["y"])],
        [info("mask", T.BOOL, ["batch", "seq"]), info("x", T.FLOAT, ["batch", "seq"])],
        [info("y", T.FLOAT, None)],
        [numpy_helper.from_array(np.float32(0), "z")],
    )
    ((_, feeds),) = workload.feeds(ir.from_proto(proto), proposed(proto))
    assert feeds["mask"].shape == (1, 128)
    assert feeds["mask"].all()


def test_scalar_input():
    assert by_name(proposed(one_node("Neg", T.FLOAT, [])))["x"].shape == ()


def test_sequence_input():
    kind = h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, ["n", 4]))
    proto = assemble(
        [h.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)],
        [h.make_value_info("s", kind)],
        [info("y", T.FLOAT, None)],
        ir_version=9,
    )
    chosen = by_name(proposed(proto))["s"]
    assert chosen.dtype == "seq(float)"


def test_optional_input_is_fed():
    kind = h.make_optional_type_proto(h.make_tensor_type_proto(T.FLOAT, ["n", 4]))
    proto = assemble(
        [h.make_node("OptionalGetElement", ["o"], ["y"])],
        [h.make_value_info("o", kind)],
        [info("y", T.FLOAT, None)],
        opset=18,
        ir_version=9,
    )
    chosen = by_name(proposed(proto))["o"]
    assert (chosen.dtype, chosen.shape[-1]) == ("optional(float)", 4)


def test_tree_ensemble():
    node = h.make_node(
        "TreeEnsembleRegressor", ["X"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[3, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0],
    )  # fmt: skip
    for columns in (4, None):
        proto = model(
            [node],
            [info("X", T.FLOAT, [None, columns])],
            [info("y", T.FLOAT, None)],
            domains=[("ai.onnx.ml", 3)],
        )
        assert by_name(proposed(proto))["X"].shape == (1, 4)


def test_initializers_listed_as_inputs_are_not_fed():
    proto = model(
        [h.make_node("Mul", ["x", "w"], ["y"])],
        [info("x", T.FLOAT, [1, 3]), info("w", T.FLOAT, [1, 3])],
        [info("y", T.FLOAT, None)],
        [weight("w", 1, 3)],
    )
    assert list(by_name(proposed(proto))) == ["x"]


def test_model_without_inputs():
    proto = model([h.make_node("Identity", ["w"], ["y"])], [], [info("y", T.FLOAT, None)], [weight("w", 2)])
    assert workload.describe(proposed(proto)) == "inputs: none"
