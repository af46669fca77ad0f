"""Convolutions, products and recurrent operators, counted by hand."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from cost_models import MS, Fed, count, f32, node_model, one, u8
from onnx import TensorProto as T
from onnx import helper as h

from facts import facts
from onnx_text import assemble
from ortune.graph.cost import costs

ONE = np.float32(1)
ZERO = np.uint8(0)


@pytest.mark.parametrize(
    ("operands", "attributes", "macs", "extra"),
    [
        # 1x8x6x6 outputs (3x3 window, no pads), each 3 channels x 9 weights: 288 x 27
        (((1, 3, 8, 8), f32(8, 3, 3, 3)), {}, 288 * 27, 0),
        # with bias: one more operation for each of the 288 outputs
        (((1, 3, 8, 8), f32(8, 3, 3, 3), f32(8)), {}, 288 * 27, 288),
        # depthwise, stride 2, pads 1: 1x4x4x4 outputs of 9 weights each
        (((1, 4, 8, 8), f32(4, 1, 3, 3)), {"group": 4, "strides": [2, 2], "pads": [1] * 4}, 64 * 9, 0),
        # one dimension, dilated by 2: 16 - 4 = 12 places, 2x5x12 outputs of 4x3 weights
        (((2, 4, 16), f32(5, 4, 3)), {"dilations": [2]}, 120 * 12, 0),
    ],
    ids=["plain", "bias", "depthwise", "dilated"],
)
def test_conv(operands, attributes, macs, extra):
    cost = one("Conv", operands, **attributes)
    assert (cost.macs, cost.flops) == (macs, 2 * macs + extra)


def test_fused_conv_adds_the_skip_and_the_activation():
    cost = one(
        "FusedConv", ((1, 3, 8, 8), f32(8, 3, 3, 3), f32(8), (1, 8, 6, 6)), domain=MS, activation="Relu"
    )
    # 288 outputs of 27 multiply-adds; bias, addend and Relu: 3 each
    assert cost.flops == 2 * 288 * 27 + 3 * 288


def test_conv_transpose_spreads_each_input():
    cost = one("ConvTranspose", ((1, 6, 5, 5), f32(6, 4, 2, 2), f32(4)), strides=[2, 2])
    # 150 inputs, each into 4 channels x 4 places; output 1x4x10x10 with bias
    assert (cost.macs, cost.flops) == (150 * 16, 2 * 150 * 16 + 400)


def test_quantized_convolutions():
    scales = (ONE, ZERO)
    weight = np.full((8, 3, 3, 3), 1, np.uint8)
    cost = one("QLinearConv", (u8(1, 3, 8, 8), *scales, weight, *scales, *scales, np.zeros(8, np.int32)))
    # 288 outputs: 27 multiply-adds, bias 1, requantize 3; the weight is 216 bytes of uint8, bias 32, scales and
    # zero points 5 each
    assert cost.flops == 2 * 288 * 27 + 4 * 288
    assert cost.weight_bytes == 216 + 32 + 15
    cost = one("ConvInteger", (u8(1, 3, 8, 8), weight))
    assert (cost.flops, cost.bytes_written) == (2 * 288 * 27, 288 * 4)


def test_deform_conv_samples_first():
    # 1x2x3x3 outputs (4x4 input, 2x2 window), 3 channels x 4 weights: 18 x 12; offsets 1x8x3x3
    cost = one("DeformConv", ((1, 3, 4, 4), f32(2, 3, 2, 2), (1, 8, 3, 3)), opset=19)
    # 1 x 3 channels x 4 places x 9 = 108 samples of four taps: 8 each
    assert cost.flops == 2 * 18 * 12 + 8 * 108


def test_matmul_with_batches():
    cost = one("MatMul", ((2, 5, 4), f32(4, 7)))
    # 2x5x7 outputs, each the sum of 4 products
    assert (cost.macs, cost.flops) == (280, 560)
    # float: 40 + 28 read, of which 28 are weights, and 70 written
    assert (cost.bytes_read, cost.weight_bytes, cost.bytes_written) == (68 * 4, 28 * 4, 70 * 4)


def test_the_same_operand_twice_is_read_once():
    x = h.make_tensor_value_info("x", T.FLOAT, [4, 4])
    cost = count(
        assemble([h.make_node("MatMul", ["x", "x"], ["y"])], [x], [h.make_empty_tensor_value_info("y")]), {}
    )
    assert (cost.bytes_read, cost.bytes_written, cost.flops) == (64, 64, 2 * 64)


def test_fused_matmul_transposed_and_scaled():
    cost = one("FusedMatMul", ((3, 4, 5), (3, 7, 4)), domain=MS, transA=1, transB=1, alpha=0.5)
    # A as 3x5x4, B as 3x4x7: 105 outputs of 4; alpha is one product each
    assert cost.flops == 2 * 105 * 4 + 105


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    # each way of writing A as 2x3x7x5 and B as 2x3x5x11
    [
        ((7, 2, 3, 5), (2, 3, 5, 11), {"transBatchA": 1}),
        ((5, 2, 3, 7), (2, 3, 5, 11), {"transBatchA": 1, "transA": 1}),
        ((2, 3, 7, 5), (5, 2, 3, 11), {"transBatchB": 1}),
        ((2, 3, 7, 5), (11, 2, 3, 5), {"transBatchB": 1, "transB": 1}),
        ((5, 2, 3, 7), (11, 2, 3, 5), {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
    ],
)
def test_fused_matmul_with_its_batches_elsewhere(a, b, attributes):
    # what is written is compared with what ONNX Runtime returns
    cost = one("FusedMatMul", (a, b), domain=MS, **attributes)
    assert cost.macs == 2 * 3 * 7 * 11 * 5


@pytest.mark.parametrize(
    ("a", "b", "macs"), [((5,), (5, 11), 55), ((5,), (2, 5, 11), 110), ((2, 7, 5), (5,), 70)]
)
def test_fused_matmul_of_a_vector(a, b, macs):
    assert one("FusedMatMul", (a, b), domain=MS, transA=int(len(a) == 1)).macs == macs


@pytest.mark.parametrize(
    ("attributes", "extra"),
    [({}, 15), ({"beta": 0.0}, 0), ({"beta": 0.5}, 30), ({"alpha": 2.0}, 30)],
    ids=["bias", "no-bias", "beta", "alpha"],
)
def test_gemm(attributes, extra):
    # A 4x3 transposed to 3x4, B 4x5: 15 outputs of 4
    cost = one("Gemm", ((4, 3), f32(4, 5), f32(5)), transA=1, **attributes)
    assert (cost.macs, cost.flops) == (60, 120 + extra)


def test_fused_gemm():
    cost = one("FusedGemm", ((3, 4), f32(4, 5), f32(5)), domain=MS, activation="Relu")
    # 15 outputs of 4; bias and Relu
    assert cost.flops == 120 + 30


def test_quantized_products():
    w = np.ones((4, 5), np.uint8)
    # 3x5 outputs of 4 multiply-adds throughout
    assert one("MatMulInteger", (u8(3, 4), w)).flops == 120
    assert one("QLinearMatMul", (u8(3, 4), ONE, ZERO, w, ONE, ZERO, ONE, ZERO)).flops == 120 + 3 * 15
    # quantize 12 inputs (range 2, quantize 3), scale and bias of 15 outputs
    cost = one("DynamicQuantizeMatMul", ((3, 4), w, ONE, ZERO, f32(5)), domain=MS)
    assert cost.flops == 120 + 5 * 12 + 2 * 15
    cost = one("MatMulIntegerToFloat", (u8(3, 4), w, ONE, ONE, ZERO, ZERO, f32(5)), domain=MS)
    assert cost.flops == 120 + 2 * 15
    # bias and requantize; without an output scale the result is scaled to float (1)
    gemm = (u8(3, 4), ONE, ZERO, w, ONE, ZERO, np.zeros(5, np.int32))
    assert one("QGemm", (*gemm, ONE, ZERO), domain=MS).flops == 120 + 4 * 15
    assert one("QGemm", gemm, domain=MS).flops == 120 + 2 * 15


def test_weights_of_four_bits():
    blob, scales = np.zeros((6, 2, 8), np.uint8), f32(12)
    cost = one("MatMulNBits", ((2, 3, 32), blob, scales), domain=MS, K=32, N=6, bits=4, block_size=16)
    # 6 rows times 32 x 6
    assert (cost.macs, cost.flops) == (6 * 192, 2 * 6 * 192)
    # 192 weights of 4 bits are 96 bytes, 12 scales 48
    assert cost.weight_bytes == 96 + 48


def test_quantizing():
    assert one("QuantizeLinear", ((2, 5), ONE, ZERO)).flops == 30
    assert one("DequantizeLinear", (u8(2, 5), ONE, ZERO)).flops == 20
    # smallest and largest (2), quantize (3); writes 10 bytes, a float scale and a zero point
    cost = one("DynamicQuantizeLinear", ((2, 5),), outputs=3)
    assert (cost.flops, cost.bytes_written) == (50, 10 + 4 + 1)
    # both dequantized (2 x 2), added (1), requantized (3)
    assert one("QLinearAdd", (u8(2, 5), ONE, ZERO, u8(2, 5), ONE, ZERO, ONE, ZERO), domain=MS).flops == 80


@pytest.mark.parametrize(
    ("op", "gates", "rest"),
    # sigmoid 4, tanh 1. LSTM: 3 sigmoids, 2 tanh, cell 3, output 1. GRU: 2 sigmoids, tanh, reset 1, mix 4
    [("RNN", 1, 1), ("GRU", 3, 14), ("LSTM", 4, 18)],
)
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent(op, gates, rest, directions):
    # 6 steps, batch 2, input 3, hidden 5
    operands = (
        (6, 2, 3),
        f32(directions, gates * 5, 3),
        f32(directions, gates * 5, 5),
        f32(directions, gates * 10),
    )
    direction = "bidirectional" if directions == 2 else "forward"
    cost = one(op, operands, outputs=2, hidden_size=5, direction=direction)
    cells = 6 * 2 * directions
    assert cost.macs == cells * gates * 5 * (3 + 5)
    # each gate adds its two products and its bias
    assert cost.flops == 2 * cost.macs + cells * 5 * (2 * gates + rest)


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_over_sequences_of_their_own_lengths(op, gates):
    # 20 steps, batch 3, input 4, hidden 5
    def operands(lengths):
        return ((20, 3, 4), f32(1, gates * 5, 4), f32(1, gates * 5, 5), None, lengths)

    known = one(op, operands(np.array([2, 20, 6], np.int32)), outputs=2, hidden_size=5)
    assert (known.macs, known.note) == (28 * gates * 5 * (4 + 5), "")
    whole = one(op, operands(Fed(np.array([2, 20, 6], np.int32))), outputs=2, hidden_size=5)
    assert whole.macs == 60 * gates * 5 * (4 + 5)
    facts(whole.note, "at most", "sequence_lens", "20 steps")


def test_lengths_that_are_fed_are_counted():
    operands = ((20, 3, 4), f32(1, 20, 4), f32(1, 20, 5), None, Fed(np.array([2, 20, 6], np.int32)))
    proto, feeds = node_model("LSTM", operands, hidden_size=5)
    shapes = {name: array.shape for name, array in feeds.items()}
    lengths = {"i4": feeds["i4"]}
    model = ir.from_proto(proto)
    assert costs(model, shapes, lengths).macs == 28 * 4 * 5 * (4 + 5)
    (told,) = costs(model, shapes).notes
    facts(told, "LSTM 'n'", "at most", "sequence_lens", "20 steps")


def test_dynamically_quantized_lstm():
    # its weights lie the other way round: 3x20 and 5x20 for each direction
    w, r = np.ones((1, 3, 20), np.uint8), np.ones((1, 5, 20), np.uint8)
    scales = (f32(1), np.zeros(1, np.uint8)) * 2
    operands = ((6, 2, 3), w, r, None, None, None, None, None, *scales)
    cost = one("DynamicQuantizeLSTM", operands, domain=MS, hidden_size=5, run=False)
    # 12 cells of 4 gates of 5, each 8 multiply-adds; without a bias each gate adds its two products
    assert (cost.macs, cost.flops) == (12 * 160, 2 * 12 * 160 + 12 * 5 * (4 + 18))


def test_half_precision_halves_the_bytes():
    cost = one("MatMul", (Fed(np.ones((2, 4), np.float16)), np.ones((4, 3), np.float16)))
    assert (cost.bytes_read, cost.bytes_written, cost.flops) == (2 * 20, 2 * 6, 2 * 24)


def test_pads_of_a_transposed_convolution_are_no_bias():
    operands = [(1, 2, 4, 4), f32(2, 3, 2, 2), np.zeros(4, np.int64)]
    proto, feeds = node_model("ConvTransposeWithDynamicPads", operands, domain=MS)
    # Where its output lies a trace alone tells. 32 inputs, each into 3 channels x 4 places
    (pads,) = costs(ir.from_proto(proto), {"i0": feeds["i0"].shape}, sizes={"o0": (1, 3, 5, 5)}).nodes
    assert (pads.macs, pads.flops) == (384, 768)
