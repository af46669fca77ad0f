"""Inputs with no configuration: models of every kind run in ONNX Runtime as proposed."""

from __future__ import annotations

import pytest
from input_models import (
    by_name,
    classifier,
    encoder,
    gpt2_step,
    info,
    ints,
    model,
    proposed,
    weight,
)
from onnx import TensorProto as T
from onnx import helper as h

from facts import facts
from onnx_text import assemble
from ortune.inputs import workload


def test_decoder_runs_one_step_at_a_past_of_128():
    chosen = proposed(gpt2_step())
    inputs = by_name(chosen)
    assert inputs["input_ids"].shape == (1, 1)
    assert inputs["attention_mask"].shape == (1, 129)
    assert inputs["past_key_values.1.value"].shape == (1, 2, 128, 8)
    assert (inputs["position_ids"].low, inputs["position_ids"].high) == (128, 128)
    assert inputs["input_ids"].high == 210
    (note,) = chosen.notes
    facts(note, "decoder", "past=128", "prefill not measured")
    assert "past_key_values.0.key … past_key_values.1.value (4 inputs)" in workload.describe(chosen)


def test_decoder_past_is_limited_by_the_position_table():
    assert by_name(proposed(gpt2_step(positions=64)))["past_key_values.0.key"].shape[2] == 63


def test_decoder_past_and_mask_follow_dim():
    inputs = by_name(proposed(gpt2_step(), dims={"past": ((20, 1.0),), "seq": ((4, 1.0),)}))
    assert inputs["attention_mask"].shape == (1, 24)
    assert (inputs["position_ids"].low, inputs["position_ids"].high) == (20, 23)


def test_prefill_is_said_to_be_one():
    chosen = proposed(gpt2_step(), dims={"past": ((0, 1.0),), "seq": ((8, 1.0),)})
    assert by_name(chosen)["past_key_values.0.key"].shape == (1, 2, 0, 8)
    assert chosen.notes == (
        "--dim past was taken for 'past_sequence_length'",
        "--dim seq was taken for 'sequence_length'",
        "decoder: prefill of 8 tokens; steps not measured",
    )


def test_sum_with_a_number_is_honoured():
    proto = gpt2_step()
    dims = proto.graph.input[1].type.tensor_type.shape.dim
    dims[1].dim_param = "past_sequence_length + 1"
    assert by_name(proposed(proto))["attention_mask"].shape == (1, 129)


def test_mask_of_its_own_symbol_covers_past_and_new_tokens():
    proto = gpt2_step()
    proto.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "attention_length"
    assert by_name(proposed(proto))["attention_mask"].shape == (1, 129)


def test_sequence_is_limited_by_the_table_of_positions():
    tokens = by_name(proposed(encoder(rows=64)))["tokens"]
    assert tokens.shape == (1, 64)
    assert (tokens.low, tokens.high) == (1, 29)
    assert by_name(proposed(encoder(rows=512)))["tokens"].shape == (1, 128)


@pytest.mark.parametrize(("side", "layout"), [(28, "NCHW"), (64, "NCHW"), (224, "NCHW"), (96, "NHWC")])
def test_image_size_fits_the_gemm_behind_flatten(side, layout):
    chosen = proposed(classifier(side, layout=layout))
    image = by_name(chosen)["image"]
    assert image.shape == ((1, 3, side, side) if layout == "NCHW" else (1, side, side, 3))
    assert image.role == "image"
    assert "H, W guessed" in workload.describe(chosen)


def test_channels_come_from_the_convolution():
    nodes = [h.make_node("Conv", ["x", "w"], ["y"], group=2)]
    proto = model(
        nodes,
        [info("x", T.FLOAT, ["a", "b", "c", "d"])],
        [info("y", T.FLOAT, None)],
        [weight("w", 4, 3, 3, 3)],
    )
    chosen = by_name(proposed(proto))["x"]
    assert chosen.shape == (1, 6, 224, 224)
    assert 1 not in chosen.guessed_axes


def test_lstm_with_lengths_and_states():
    nodes = [h.make_node("LSTM", ["x", "w", "r", "", "lengths", "h0", "c0"], ["y"], hidden_size=4)]
    inputs = [
        info("x", T.FLOAT, ["T", None, None]),
        info("lengths", T.INT32, [None]),
        info("h0", T.FLOAT, [1, "n", None]),
        info("c0", T.FLOAT, [1, "n", 4]),
    ]
    weights = [weight("w", 1, 16, 7), weight("r", 1, 16, 4)]
    chosen = by_name(proposed(model(nodes, inputs, [info("y", T.FLOAT, None)], weights)))
    assert chosen["x"].shape == (128, 1, 7)
    assert chosen["h0"].shape == (1, 1, 4)
    assert (chosen["lengths"].low, chosen["lengths"].high) == (128, 128)


def test_matmul_and_concat_join_dimensions():
    nodes = [
        h.make_node("MatMul", ["a", "b"], ["ab"]),
        h.make_node("Concat", ["ab", "c"], ["y"], axis=1),
    ]
    inputs = [
        info("a", T.FLOAT, ["m", "k"]),
        info("b", T.FLOAT, ["kk", 6]),
        info("c", T.FLOAT, ["mm", "free"]),
    ]
    chosen = by_name(proposed(model(nodes, inputs, [info("y", T.FLOAT, None)])))
    assert chosen["a"].shape[1] == chosen["b"].shape[0]
    assert chosen["a"].shape[0] == chosen["c"].shape[0]


def test_reshape_to_fixed_sizes_decides():
    nodes = [h.make_node("Reshape", ["x", "s"], ["y"])]
    proto = model(nodes, [info("x", T.FLOAT, ["rows", 6])], [info("y", T.FLOAT, None)], [ints("s", 2, 3, 4)])
    assert by_name(proposed(proto))["x"].shape == (4, 6)


def test_embedding_layer_normalisation_bounds_ids():
    nodes = [
        h.make_node("EmbedLayerNormalization", ["ids", "seg", "w", "p", "s", "g", "b"], ["y", "m"],
                    domain="com.microsoft"),
    ]  # fmt: skip
    weights = [weight("w", 50, 8), weight("p", 16, 8), weight("s", 2, 8), weight("g", 8), weight("b", 8)]
    inputs = [info("ids", T.INT32, ["b_", "len"]), info("seg", T.INT32, ["b_", "len"])]
    chosen = by_name(
        proposed(
            assemble(
                nodes, inputs, [info("y", T.FLOAT, None)], weights, ir_version=9, opsets={"com.microsoft": 1}
            )
        )
    )
    assert chosen["ids"].shape == (1, 16)
    assert chosen["ids"].high == 49
    assert chosen["seg"].high <= 1
