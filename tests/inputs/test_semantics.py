"""What an input is taken for: images, sound, and the spectrograms between them."""

from __future__ import annotations

import pytest
from input_models import by_name, info, model, proposed, weight
from onnx import TensorProto as T
from onnx import helper as h

import zoo
from ortune.graph.model.open import open_model
from ortune.inputs import workload


def role(shape, *, name="x", op="Conv"):
    """The role of a float input that a convolution, or another operator, reads."""
    channels = shape[1] if isinstance(shape[1], int) else 1
    kernel = [1] * (len(shape) - 2)
    weights = [weight("w", 4, channels, *kernel)] if op == "Conv" else []
    node = h.make_node(op, [name, *(w.name for w in weights)], ["y"])
    return by_name(
        proposed(model([node], [info(name, T.FLOAT, shape)], [info("y", T.FLOAT, None)], weights))
    )[name]


@pytest.mark.parametrize(
    "shape",
    [
        [1, 1, 80, 3000], ["n", 1, 80, "t"], ["n", 1, "frames", 64], [1, 1, 96, 64], [1, 1, 1001, 64],
        [1, 1, 128, 1024], ["n", 80, "t"], [1, 80, 3000], ["n", 80, None], [1, 1, 101, 40], [1, 1, 40, 101],
    ],
)  # fmt: skip
def test_bins_and_frames_of_one_channel_are_a_spectrogram(shape):
    assert role(shape).role == "mel"


@pytest.mark.parametrize(
    "shape",
    [
        [1, 1, 28, 28], [1, 1, 32, 100], ["n", 1, 32, None], [1, 1, 48, 320], [1, 1, 64, 256], [1, 1, 64, 64],
        [1, 1, 112, 96], ["n", 1, "height", "width"], ["n", 1, "height", 80], [1, 3, 80, 3000], [1, 3, 96, 64],
        [1, 1, 240, 320],
    ],
)  # fmt: skip
def test_what_has_the_size_of_an_image_stays_one(shape):
    assert role(shape).role == "image"


def test_channels_may_come_last():
    assert role(["n", 76, 32, 1], op="Transpose").role == "mel"
    assert role([1, 49, 10, 1], op="Transpose").role == "mel"
    assert role([1, 28, 28, 1], op="Transpose").role == "image"


def test_sound_as_frames_of_features_is_no_waveform():
    assert role(["n", "t", 80], name="speech", op="Transpose").role == "mel"
    assert role(["n", "t", 560], name="speech", op="Transpose").role == "mel"
    assert role(["n", 1, "t"], name="speech").role == "audio"


def test_the_frames_are_what_is_free():
    chosen = role(["n", 1, 80, "?"])
    assert (chosen.shape, chosen.role, chosen.note) == ((1, 1, 80, 100), "mel", "frames guessed")


@pytest.mark.parametrize(
    ("dims", "shape", "note"),
    [
        (["num_atoms"], (128,), "num_atoms guessed"),
        (["num_atoms", "num_atoms"], (1, 1), "num_atoms guessed"),
        (["DynamicDimension.0", "DynamicDimension.1"], (1, 128), "seq guessed"),
        (["n", "s0"], (1, 128), "seq guessed"),
    ],
)
def test_a_guessed_size_is_called_what_the_model_calls_it(dims, shape, note):
    table = weight("table", 30, 4)
    nodes = [h.make_node("Gather", ["table", "ids"], ["y"])]
    found = by_name(
        proposed(model(nodes, [info("ids", T.INT64, dims)], [info("y", T.FLOAT, None)], [table]))
    )["ids"]
    assert (found.shape, found.note) == (shape, note)


def test_a_first_axis_of_another_name_is_no_batch():
    def guessed(name: str) -> tuple[int, ...]:
        nodes = [h.make_node("MatMul", ["x", "w"], ["y"])]
        found = proposed(
            model(nodes, [info("x", T.FLOAT, [name, 8])], [info("y", T.FLOAT, None)], [weight("w", 8, 4)])
        )
        return by_name(found)["x"].guessed_axes

    assert guessed("num_edges") == (0,)
    assert all(guessed(name) == () for name in ("batch_size", "N", "?", "s0", "unk__3", "DynamicDimension.0"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("oww-embedding", "inputs: input_1 1x76x32x1 float (mel)"),
        ("oww-melspectrogram", "inputs: input 1x16000 float (audio; samples guessed)"),
        ("oww-alexa", "inputs: onnx::Flatten_0 1x16x96 float"),
        ("oww-timer", "inputs: onnx::Flatten_0 1x34x96 float"),
        ("basic-pitch", "inputs: serving_default_input_2:0 1x43844x1 float"),
    ],
)
def test_models_of_sound_take_no_images(name, said):
    assert workload.describe(workload.propose(open_model(zoo.model_path(name)).ir)) == said
