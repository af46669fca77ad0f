"""On which axis the rows of a batch are, and through which nodes one row depends on the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_text import model_of, saved
from ortune.graph.model.open import open_model
from ortune.graph.rows import batch_axes, masks, mixed_rows

W = {
    "w": np.ones((8, 8), np.float32),
    "kernel": np.ones((4, 1, 3), np.float32),
    "lstm_w": np.ones((1, 16, 8), np.float32),
    "lstm_r": np.ones((1, 16, 4), np.float32),
    "table": np.ones((50, 8), np.float32),
    "q": np.ones((8, 8), np.int8),
    "flat": np.array([1, -1, 8], np.int64),
    "rows": np.array([-1, 16, 8], np.int64),
    "other": np.array([16, -1, 8], np.int64),
    "heads": np.array([0, 16, 2, 4], np.int64),
    "tokens": np.array([-1, 8], np.int64),
    "zero": np.array([0], np.int64),
    "one": np.array([1], np.int64),
}


def _mixers(tmp_path: Path, text: str, opset: int = 17) -> tuple[list[str], list[str]]:
    words = set(text.translate(str.maketrans("(),", "   ")).split())
    used = {name: value for name, value in W.items() if name in words}
    model = open_model(saved(tmp_path / "m.onnx", model_of(text, opset, used, contrib=True))).ir
    found = mixed_rows(model)
    return [str(node.name) for node in found.over_batch], [str(node.name) for node in found.ranges]


XY = "g (float[batch,16,8] x) => (float[batch,16,8] y)"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(XY + " { [bad] y = Softmax <axis = 0> (x) }", id="softmax over the batch"),
        pytest.param(XY + " { m = ReduceMean <axes = [0]> (x)\n y = Sub (x, m) }", id="mean of the batch"),
        pytest.param(XY + " { m = ReduceMax <keepdims = 0> (x)\n y = Div (x, m) }", id="largest of everything"),
        pytest.param(
            XY + " { r = Reshape (x, flat)\n [bad] s = Softmax <axis = 1> (r)\n p = MatMul (s, w)\n "
            "y = Reshape (p, rows) }",
            id="all tokens of the batch on one axis",
        ),
        pytest.param(
            XY + " { r = Reshape (x, other)\n [bad] s = Softmax <axis = 0> (r)\n y = Reshape (s, rows) }",
            id="another size first, normalised over it",
        ),
        pytest.param(
            XY + " { r = Reshape (x, other)\n [bad] s = Softmax <axis = 1> (r)\n y = Reshape (s, rows) }",
            id="another size first, normalised over what is left",
        ),
        pytest.param(
            "g (float[batch,16,8] x) => (float[batch,1,16,4] y) "
            "{ [bad] y, h, c = LSTM <hidden_size = 4> (x, lstm_w, lstm_r) }",
            id="rows taken for steps",
        ),
        pytest.param(
            "g (float[batch,8] x) => (float[batch,4,8] y) { t = Transpose (x)\n u = Unsqueeze (t, one)\n "
            "[bad] c = Conv <pads = [1, 1]> (u, kernel)\n y = Transpose <perm = [2, 1, 0]> (c) }",
            id="convolved along the batch",
        ),
        pytest.param(
            "g (float[batch,8] x) => (float[batch,8] y) { t = Transpose (x)\n [bad] k = MatMul (t, x)\n "
            "y = MatMul (x, k) }",
            id="a product over the batch",
        ),
        pytest.param(
            XY + " <float[1] ones = {1}, float[1] none = {0}, int64[3] line = {1, 1, -1}> { s = Shape (x)\n "
            "r = Reshape (x, line)\n [bad] n = InstanceNormalization (r, ones, none)\n y = Reshape (n, s) }",
            id="one mean and variance of all rows",
        ),
        pytest.param(
            XY + " <int64[4] image = {1, 16, -1, 8}> { r = Reshape (x, image)\n [bad] m = GlobalAveragePool (r)\n "
            "t = Reshape (m, tokens)\n v = ReduceSum <keepdims = 0> (t)\n y = Sub (x, v) }",
            id="rows taken for positions of an image",
        ),
        pytest.param(XY + " { c = CumSum (x, zero)\n y = Relu (c) }", id="summed up along the batch"),
    ],
)  # fmt: skip
def test_a_node_that_combines_rows_is_found(tmp_path: Path, text: str) -> None:
    """By what it does along the axis of the rows, wherever that went."""
    assert len(_mixers(tmp_path, text)[0]) == 1
    if "[bad]" in text:
        assert _mixers(tmp_path, text)[0] == ["bad"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(XY + " { y = Softmax <axis = 1> (x) }", id="softmax over tokens"),
        pytest.param(
            XY + " { r = Reshape (x, tokens)\n p = MatMul (r, w)\n s = Softmax (p)\n y = Reshape (s, rows) }",
            id="tokens flattened for a product",
        ),
        pytest.param(
            XY + " { r = Reshape (x, heads)\n t = Transpose <perm = [0, 2, 1, 3]> (r)\n "
            "u = Transpose <perm = [0, 1, 3, 2]> (t)\n "
            "s = MatMul (t, u)\n p = Softmax (s)\n c = MatMul (p, t)\n b = Transpose <perm = [0, 2, 1, 3]> (c)\n "
            "y = Reshape (b, rows) }",
            id="attention",
        ),
        pytest.param(
            XY + " { r = Reshape (x, other)\n s = Relu (r)\n y = Reshape (s, rows) }",
            id="another size first, and elements alone",
        ),
        pytest.param(
            "g (float[batch,16,8] x) => (float[16,1,batch,4] y) { t = Transpose <perm = [1, 0, 2]> (x)\n "
            "y, h, c = LSTM <hidden_size = 4> (t, lstm_w, lstm_r) }",
            id="steps first",
        ),
        pytest.param(
            "g (float[batch,8] x) => (float[batch,8] y, float[] loss) { y = Relu (x)\n "
            "loss = ReduceMean <keepdims = 0> (x) }",
            id="a loss of all rows",
        ),
        pytest.param(
            "g (float[batch,8] x, int64[batch] lengths) => (float[batch,8] y) "
            "{ m = ReduceMax <keepdims = 0> (lengths)\n c = Cast <to = 1> (m)\n y = Add (x, c) }",
            id="the longest of the lengths",
        ),
        pytest.param(
            XY + " <float[4] ones = {1, 1, 1, 1}, float[4] none = {0, 0, 0, 0}, int64[3] groups = {0, 4, -1}> "
            "{ r = Reshape (x, groups)\n n = InstanceNormalization (r, ones, none)\n y = Reshape (n, rows) }",
            id="groups of each row",
        ),
        pytest.param(
            "g (float[frames,8] x) => (float[frames,8] y) { y = Softmax <axis = 0> (x) }", id="frames are no batch"
        ),
        pytest.param("g (float[1,8] x) => (float[1,8] y) { y = Softmax <axis = 0> (x) }", id="one row"),
        pytest.param(
            "g (float[n,8] nodes, int64[2,edges] e) => (float[n,8] y) { y = Softmax <axis = 0> (nodes) }",
            id="n nodes of a graph",
        ),
        pytest.param(
            "g (float[text_batch,8] t, float[image_batch,8] i) => (float[image_batch,text_batch] y) "
            "{ u = Transpose (t)\n p = MatMul (i, u)\n y = Softmax (p) }",
            id="pairs of two batches",
        ),
    ],
)  # fmt: skip
def test_rows_that_stay_apart_are_left_alone(tmp_path: Path, text: str) -> None:
    """Also where they share an axis for a while, or are combined in what is no row's answer."""
    assert _mixers(tmp_path, text) == ([], [])


QUANTIZED = """{
    x = Gather (table, ids)
    [bad] i, s, z = DynamicQuantizeLinear (x)
    p = MatMulInteger (i, q, z)
    f = Cast <to = 1> (p)
    y = Mul (f, s)
}"""


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        pytest.param("int64[batch,seq] ids", ["bad"], id="a batch"),
        pytest.param("int64[1,seq] ids, int64[1,seq] attention_mask", ["bad"], id="one row with its padding"),
        pytest.param("int64[1,seq] ids", [], id="one row"),
        pytest.param("int64[1,16] ids, int64[1,16] attention_mask", [], id="one length"),
    ],
)
def test_one_range_of_all_rows_and_their_padding(tmp_path: Path, inputs: str, found: list[str]) -> None:
    """A range that is taken while it runs holds whatever is in the tensor."""
    assert _mixers(tmp_path, f"g ({inputs}) => (float[b,s,8] y) {QUANTIZED}") == ([], found)


def test_the_batch_is_found_by_its_name_or_by_what_is_certain(tmp_path: Path) -> None:
    """Images and token ids need no name; states may have the batch on another axis."""

    def axes(inputs: str) -> dict[str, int]:
        text = f"g ({inputs}) => (float[k] y) {{ y = Cast <to = 1> (x) }}"
        return batch_axes(open_model(saved(tmp_path / "a.onnx", model_of(text))).ir)

    assert axes("float[batch_size,8] x, float[2,batch_size,4] h") == {"x": 0, "h": 1}
    assert axes("float[unk__1,3,224,224] x") == {"x": 0}
    assert axes("float[unk__1,8] x") == {}
    assert axes("float[batch,batch] x") == {}


def test_a_mask_has_an_open_length(tmp_path: Path) -> None:
    """One of fixed length leaves no choice of padding."""
    text = "g (int64[b,s] attention_mask, int64[b,16] padding_mask, float[b,s] x) => (float[k] y) { y = Relu (x) }"
    assert masks(open_model(saved(tmp_path / "m.onnx", model_of(text))).ir) == ("attention_mask",)
