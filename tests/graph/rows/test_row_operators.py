"""Where the rows of a batch are after each operator, by the axis on which they came."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_text import model_of, saved
from ortune.graph.model.open import open_model
from ortune.graph.rows import mixed_rows

ROWS, IMAGE = "float[batch,4,8]", "float[batch,4,8,8]"
MIDDLE, LAST = "float[4,batch,8]", "float[4,8,batch]"
AS_CHANNELS, AS_HEIGHT = "float[4,batch,8,8]", "float[4,3,batch,8]"
AS_ONE_IMAGE = "float[1,4,batch,8]"
WEIGHTS = {
    "scale8": np.ones(8, np.float32),
    "scale4": np.ones(4, np.float32),
    "dense3": np.ones((5, 4, 3, 3), np.float32),
    "dense_row": np.ones((5, 4, 1, 3), np.float32),
    "dense2": np.ones((5, 4, 2, 1), np.float32),
    "each3": np.ones((4, 1, 3, 3), np.float32),
    "turned": np.ones((4, 5, 3, 3), np.float32),
    "last": np.ones((8, 8), np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32),
    "rows_twice": np.array([2, 1, 1, 1], np.float32),
    "width_twice": np.array([1, 1, 1, 2], np.float32),
    "some": np.array([0, 2], np.int64),
    "elements": np.zeros((4, 3, 8), np.int64),
    "pairs": np.array([[0, 1], [2, 3]], np.int64),
    "ones": np.array([[0], [2]], np.int64),
    "two_updates": np.ones((2, 3, 8), np.float32),
    "width_pads": np.array([0, 0, 1, 0, 0, 1], np.int64),
    "middle_pads": np.array([0, 1, 0, 0, 1, 0], np.int64),
    "times": np.array([1, 1, 2], np.int64),
    "middle_times": np.array([1, 2, 1], np.int64),
    "zero": np.array(0, np.int64),
    "at_one": np.array(1, np.int64),
    "depth": np.array(3, np.int64),
    "off_on": np.array([0, 1], np.float32),
    "lengths": np.array([2, 2, 2, 2], np.int64),
    "which": np.array([True, False, True, True]),
    "lstm_w": np.ones((1, 16, 8), np.float32),
    "lstm_r": np.ones((1, 16, 4), np.float32),
    "gru_w": np.ones((1, 12, 8), np.float32),
    "gru_r": np.ones((1, 12, 4), np.float32),
    "rnn_w": np.ones((1, 4, 8), np.float32),
    "rnn_r": np.ones((1, 4, 4), np.float32),
    "merged": np.array([1, 4, -1, 8], np.int64),
}
MEETS, LOST = "meets", "lost"

TABLE: list[tuple[str, str, int | str]] = [
    # Pools and convolutions: the batch comes first; a row among the positions meets its neighbours in a window.
    (IMAGE, "z = AveragePool <kernel_shape = [3, 3]> (x)", 0),
    (IMAGE, "z = MaxPool <kernel_shape = [3, 3]> (x)", 0),
    (IMAGE, "z = LpPool <kernel_shape = [3, 3]> (x)", 0),
    (IMAGE, "z = LRN <size = 3> (x)", 0),
    (IMAGE, "z = GlobalAveragePool (x)", 0),
    (IMAGE, "z = Conv (x, dense3)", 0),
    (IMAGE, "z = ConvTranspose (x, turned)", 0),
    (AS_CHANNELS, "z = AveragePool <kernel_shape = [3, 3]> (x)", 1),
    (AS_CHANNELS, "z = MaxPool <kernel_shape = [3, 3]> (x)", 1),
    (AS_CHANNELS, "z = GlobalMaxPool (x)", 1),
    (AS_CHANNELS, "z = LRN <size = 3> (x)", MEETS),
    (AS_CHANNELS, "z = LRN <size = 1> (x)", 1),
    (AS_CHANNELS, "z = Conv (x, dense3)", MEETS),
    (AS_CHANNELS, "z = Conv <group = 4> (x, each3)", 1),
    (AS_CHANNELS, "z = ConvTranspose (x, turned)", MEETS),
    (AS_HEIGHT, "z = AveragePool <kernel_shape = [3, 1]> (x)", MEETS),
    (AS_HEIGHT, "z = AveragePool <kernel_shape = [2, 1], strides = [2, 1]> (x)", MEETS),
    (AS_HEIGHT, "z = AveragePool <kernel_shape = [1, 3]> (x)", 2),
    (AS_HEIGHT, "z = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)", MEETS),
    (AS_HEIGHT, "z = MaxPool <kernel_shape = [1, 2], strides = [1, 2]> (x)", 2),
    (AS_HEIGHT, "z = MaxPool <kernel_shape = [1, 2], strides = [2, 2]> (x)", LOST),
    (AS_HEIGHT, "z = LRN <size = 3> (x)", 2),
    (AS_HEIGHT, "z = GlobalAveragePool (x)", MEETS),
    (AS_ONE_IMAGE, "z = Conv (x, dense3)", MEETS),
    (AS_ONE_IMAGE, "z = Conv (x, dense_row)", 2),
    (AS_ONE_IMAGE, "z = Conv <strides = [2, 1]> (x, dense2)", MEETS),
    (AS_ONE_IMAGE, "z = ConvTranspose (x, turned)", MEETS),
    (AS_ONE_IMAGE, "z = ConvTranspose <strides = [3, 1]> (x, turned)", 2),
    # Windows that do not overlap on an axis with several positions of each row.
    (IMAGE, "r = Reshape (x, merged)\n z = AveragePool <kernel_shape = [2, 1], strides = [2, 1]> (r)", LOST),
    (IMAGE, "r = Reshape (x, merged)\n z = Conv <strides = [2, 1]> (r, dense2)", LOST),
    # Sizes.
    (IMAGE, 'z = Resize <mode = "linear"> (x, , twice)', 0),
    (AS_CHANNELS, "z = Resize (x, , twice)", 1),
    (AS_HEIGHT, "z = Resize (x, , twice)", LOST),
    (AS_HEIGHT, 'z = Resize <mode = "linear"> (x, , twice)', MEETS),
    (AS_HEIGHT, 'z = Resize <mode = "linear"> (x, , width_twice)', 2),
    (IMAGE, "z = Resize (x, , rows_twice)", LOST),
    (IMAGE, "z = DepthToSpace <blocksize = 2> (x)", 0),
    (AS_HEIGHT, "z = DepthToSpace <blocksize = 1> (x)", 2),
    (IMAGE, "z = SpaceToDepth <blocksize = 2> (x)", 0),
    (AS_HEIGHT, "z = SpaceToDepth <blocksize = 2> (x)", LOST),
    (MIDDLE, "z = Pad (x, width_pads)", 1),
    (MIDDLE, "z = Pad (x, middle_pads)", LOST),
    (MIDDLE, "z = Tile (x, times)", 1),
    (MIDDLE, "z = Tile (x, middle_times)", LOST),
    # Products.
    (ROWS, 'z = Einsum <equation = "bij,jk->bik"> (x, last)', 0),
    (ROWS, 'z = Einsum <equation = "bij,jk"> (x, last)', 0),
    (ROWS, 'z = Einsum <equation = "...j,jk->k..."> (x, last)', 1),
    (MIDDLE, 'z = Einsum <equation = "ibj,jk->bik"> (x, last)', 0),
    (ROWS, 'z = Einsum <equation = "bij->ij"> (x)', MEETS),
    (ROWS, 'z = Einsum <equation = "bij,bik->jk"> (x, x)', MEETS),
    (ROWS, 'z = Einsum <equation = "bij,cij->bc"> (x, x)', LOST),
    (MIDDLE, "z = MatMul (x, last)", 1),
    # Recurrent operators.
    (MIDDLE, "z, h, c = LSTM <hidden_size = 4> (x, lstm_w, lstm_r)", 2),
    (MIDDLE, "z, h = GRU <hidden_size = 4> (x, gru_w, gru_r)", 2),
    (MIDDLE, "z, h = RNN <hidden_size = 4> (x, rnn_w, rnn_r)", 2),
    (MIDDLE, "steps, z = GRU <hidden_size = 4> (x, gru_w, gru_r)", 1),
    (ROWS, "z, h = GRU <hidden_size = 4> (x, gru_w, gru_r)", MEETS),
    (ROWS, "z, h = RNN <hidden_size = 4> (x, rnn_w, rnn_r)", MEETS),
    # Indices.
    (MIDDLE, "z = Gather (x, some)", 1),
    (MIDDLE, "z = Gather <axis = 1> (x, some)", LOST),
    (MIDDLE, "z = GatherElements (x, elements)", 1),
    (MIDDLE, "z = GatherElements <axis = 1> (x, elements)", LOST),
    (MIDDLE, "z = GatherND (x, ones)", 1),
    (MIDDLE, "z = GatherND (x, pairs)", LOST),
    (MIDDLE, "z = ScatterND (x, ones, two_updates)", 1),
    (MIDDLE, "z = ScatterND (x, pairs, scale8)", LOST),
    (MIDDLE, "z = ScatterElements (x, elements, x)", 1),
    (MIDDLE, "z = ScatterElements <axis = 1> (x, elements, x)", LOST),
    (MIDDLE, "z = ReverseSequence <batch_axis = 1, time_axis = 0> (x, lengths)", 1),
    (MIDDLE, "z = ReverseSequence <batch_axis = 0, time_axis = 1> (x, lengths)", LOST),
    (MIDDLE, "z = Compress <axis = 0> (x, which)", 1),
    (MIDDLE, "b = Greater (x, scale8)\n z = Where (b, x, scale8)", 1),
    (MIDDLE, "z = Slice (x, some, some)", LOST),
    # Elements along an axis.
    (ROWS, "z = CumSum (x, at_one)", 0),
    (ROWS, "z = CumSum (x, zero)", MEETS),
    (MIDDLE, "z = CumSum (x, at_one)", MEETS),
    (MIDDLE, "z = Softmax (x)", 1),
    (LAST, "z = Softmax (x)", MEETS),
    (MIDDLE, "z = LayerNormalization (x, scale8)", 1),
    (MIDDLE, "z = LayerNormalization <axis = 1> (x, scale8)", MEETS),
    (MIDDLE, "z = LayerNormalization <axis = 0> (x, scale8)", MEETS),
    (MIDDLE, "z = LpNormalization <axis = 0> (x)", 1),
    (MIDDLE, "z = LpNormalization <axis = 1> (x)", MEETS),
    (IMAGE, "z = InstanceNormalization (x, scale4, scale4)", 0),
    (AS_CHANNELS, "z = InstanceNormalization (x, scale4, scale4)", 1),
    (AS_ONE_IMAGE, "z = InstanceNormalization (x, scale4, scale4)", MEETS),
    (IMAGE, "z = GroupNormalization <num_groups = 2> (x, scale4, scale4)", 0),
    (AS_ONE_IMAGE, "z = GroupNormalization <num_groups = 2> (x, scale4, scale4)", MEETS),
    (IMAGE, "z = BatchNormalization (x, scale4, scale4, scale4, scale4)", 0),
    (IMAGE, "z, m, v = BatchNormalization <training_mode = 1> (x, scale4, scale4, scale4, scale4)", MEETS),
    (IMAGE, "z = MeanVarianceNormalization (x)", MEETS),
    (IMAGE, "z = MeanVarianceNormalization <axes = [2, 3]> (x)", 0),
    (MIDDLE, "u = Sinh (x)\n z = Asinh (u)", 1),
    # ONNX Runtime's own.
    (MIDDLE, "z = com.microsoft.SkipLayerNormalization (x, x, scale8)", 1),
    (MIDDLE, "s = com.microsoft.FastGelu (x)\n z = MatMul (s, last)", 1),
    (ROWS, "z = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x)", 0),
    (LAST, "z = com.microsoft.SkipLayerNormalization (x, x, scale8)", MEETS),
    (MIDDLE, "z = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x)", MEETS),
]  # fmt: skip
ONE_HOT: list[tuple[str, str, int | str]] = [
    ("int64[4,batch] x", "h = OneHot (x, depth, off_on)", 1),
    ("int64[4,batch] x", "h = OneHot <axis = 0> (x, depth, off_on)", 2),
]


@pytest.mark.parametrize(("given", "text", "expected"), TABLE, ids=[f"{t[0]} {t[1]}" for t in TABLE])
def test_rows_are_followed_through_an_operator(
    tmp_path: Path, given: str, text: str, expected: int | str
) -> None:
    """A sum along the axis on which they are now combines them; along any other axis it does not."""
    _check(tmp_path, f"{given} x", text, expected)


@pytest.mark.parametrize(("given", "text", "expected"), ONE_HOT, ids=[t[1] for t in ONE_HOT])
def test_a_one_hot_puts_its_axis_anywhere(tmp_path: Path, given: str, text: str, expected: int) -> None:
    _check(tmp_path, given, f"{text}\n z = Abs (h)", expected)


def _check(tmp_path: Path, given: str, text: str, expected: int | str) -> None:
    # The sequence of a recurrent operator has one axis more than its input.
    rank = given.count(",") + 1 + ("z, h" in text or "OneHot" in text)
    sums = "\n".join(f"[sum{axis}] y{axis} = CumSum (z, axis{axis})" for axis in range(rank))
    outputs = ", ".join(f"float[p{axis},q{axis},r{axis}] y{axis}" for axis in range(rank))
    words = set(text.translate(str.maketrans("(),", "   ")).split())
    used = {name: value for name, value in WEIGHTS.items() if name in words}
    used |= {f"axis{axis}": np.array(axis, np.int64) for axis in range(rank)}
    proto = model_of(
        f"g ({given}) => ({outputs}) {{ {text}\n {sums} }}", 18 if "Group" in text else 17, used, contrib=True
    )
    found = {
        node.name or node.op_type
        for node in mixed_rows(open_model(saved(tmp_path / "m.onnx", proto)).ir).over_batch
    }
    if expected == MEETS:
        assert any(not name.startswith("sum") for name in found)
    else:
        assert found == (set() if expected == LOST else {f"sum{expected}"})
