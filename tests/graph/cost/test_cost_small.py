"""Pooling, normalization, interpolation, Einsum, trees and what is done element by element, counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cost_models import ML, MS, Fed, f32, one, u8

from facts import facts

X = (1, 4, 6, 6)  # 144 elements
SCALE = (np.float32(0.1), np.uint8(0))
Q8 = (u8(*X), *SCALE)
ROWS = {"domain": MS, "gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4}
CUDA = {"domain": MS, "run": False}  # no kernel on the CPU


@pytest.mark.parametrize(
    ("op", "attributes", "flops"),
    [
        # 2x2 windows, stride 2: 36 outputs
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, 36 * 4),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}, 36 * 5),
        ("LpPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, 36 * 9),
        ("GlobalMaxPool", {}, 144),
        ("GlobalAveragePool", {}, 144 + 4),
        ("Softmax", {}, 144 * 5),
        ("LogSoftmax", {}, 144 * 5),
        # 5 neighbours: square 1, four additions, scale, bias, power, divide
        ("LRN", {"size": 5}, 144 * 9),
        ("MeanVarianceNormalization", {}, 144 * 5),
        ("LpNormalization", {}, 144 * 3),
        ("Relu", {}, 144),
        ("Sigmoid", {}, 144 * 4),
        ("HardSwish", {}, 144 * 5),
        ("ReduceMean", {"axes": [2, 3]}, 144 + 4),
        ("ReduceL2", {"axes": [1]}, 2 * 144 + 36),
        ("ArgMax", {"axis": 1}, 144),
        ("Transpose", {}, 0),
        ("DepthToSpace", {"blocksize": 2}, 0),
    ],
)
def test_of_one_operand(op, attributes, flops):
    assert one(op, (X,), opset=17, **attributes).flops == flops


@pytest.mark.parametrize(
    ("op", "operands", "rest", "flops"),
    [
        ("BatchNormalization", (X, f32(4), f32(4), f32(4), f32(4)), {}, 144 * 2),
        ("InstanceNormalization", (X, f32(4), f32(4)), {}, 144 * 7),
        ("LayerNormalization", ((2, 3, 8), f32(8), f32(8)), {}, 48 * 7),
        ("LayerNormalization", ((2, 3, 8), f32(8)), {}, 48 * 6),
        ("GroupNormalization", (X, f32(4), f32(4)), {"opset": 21, "num_groups": 2}, 144 * 7),
        ("RMSNormalization", ((2, 3, 8), f32(8)), {"opset": 23}, 48 * 4),
        ("SkipLayerNormalization", ((2, 3, 8), (2, 3, 8), f32(8), f32(8), f32(8)), {"domain": MS}, 48 * 9),
        ("SkipSimplifiedLayerNormalization", ((2, 3, 8), (2, 3, 8), f32(8)), {"domain": MS}, 48 * 5),
        # channels last; SiLU 5 more
        ("GroupNorm", ((1, 6, 6, 4), f32(4), f32(4)), {**CUDA, "groups": 2, "activation": 1}, 144 * 12),
        ("SkipGroupNorm", ((1, 6, 6, 4), f32(4), f32(4), (1, 6, 6, 4), f32(4)), {**CUDA, "groups": 2}, 144 * 9),
        # 3x5 outputs of 4 multiply-adds; bias and FastGelu
        ("GemmFastGelu", ((3, 4), f32(4, 5), f32(5)), CUDA, 120 + 15 * 10),
        # sine and cosine of 6 angles, then 3 for each of 12 elements of Q and of K
        ("GemmaRotaryEmbedding", ((1, 3, 2), *((1, 2, 3, 2),) * 4), {**CUDA, "outputs": 2}, 12 + 72),
        # 2 of 10 rows, 32 values of 4 bits in 16 bytes each: dequantized
        ("GatherBlockQuantized", (np.zeros((10, 16), np.uint8), Fed([1, 2]), f32(10, 2)), ROWS, 2 * 64),
        ("MaxUnpool", ((1, 1, 2, 2), np.arange(4).reshape(1, 1, 2, 2)), {"kernel_shape": [2, 2], "strides": [2, 2]}, 0),
        ("Scaler", ((4, 3),), {"domain": ML, "offset": [0.0], "scale": [2.0]}, 24),
        ("Normalizer", ((4, 3),), {"domain": ML, "norm": "L2"}, 36),
        ("Imputer", ((4, 3),), {"domain": ML, "imputed_value_floats": [0.0], "replaced_value_float": 1.0}, 12),
        # a bias for each of 16 inputs, Gelu and one product for each of 8 outputs
        ("BiasSplitGelu", ((1, 2, 8), f32(8)), CUDA, 16 + 8 * 6),
        ("GlobalLpPool", (X,), {}, 2 * 144 + 4),
        # 9 requantized means of four: sum 4, divide 1, requantize 3
        ("QLinearAveragePool", (*Q8, *SCALE), {"domain": MS, "kernel_shape": [2, 2], "strides": [2, 2]}, 36 * 8),
        ("QLinearGlobalAveragePool", (*Q8, *SCALE), {"domain": MS}, 144 + 4 * 4),
        ("QLinearSigmoid", (*Q8, *SCALE), {"domain": MS}, 144),
        ("QLinearSoftmax", (*Q8, *SCALE), {"domain": MS, "axis": 1, "run": False}, 144 * 8),
        # every element of both: dequantize 2, quantize 3
        ("QLinearConcat", (*SCALE, *Q8, *Q8), {"domain": MS, "axis": 1}, 288 * 5),
        # four taps in two axes, two operations each, for 1x4x3x3 outputs
        ("GridSample", (X, (1, 3, 3, 2)), {}, 36 * 8),
        # 2x2 samples of 8 operations and one addition for each of 2x4x1x1 outputs
        ("RoiAlign", (X, (2, 4), np.array([0, 0])), {"sampling_ratio": 2}, 8 * 4 * 9),
        # 3x3 matrices, two of them: two thirds of 27
        ("Det", ((2, 3, 3),), {}, 36),
        # frames of 8 at steps of 4 in a signal of 16: 3, each 5 x 8 x 3 and a window of 8
        ("STFT", ((1, 16, 1), np.array(4), f32(8), np.array(8)), {}, 3 * (120 + 8)),
        # a 2x3 matrix: three products and sums for each of 1x4x5x2 coordinates
        ("AffineGrid", ((1, 2, 3), np.array([1, 1, 4, 5])), {"opset": 20}, 40 * 6),
        ("BiasGelu", ((2, 3, 8), f32(8)), {"domain": MS}, 48 * 6),
        ("FastGelu", ((2, 3, 8), f32(8)), {"domain": MS}, 48 * 10),
        ("Gelu", ((2, 3, 8),), {"opset": 20}, 48 * 5),
        # the function that FastGelu computes
        ("Gelu", ((2, 3, 8),), {"opset": 20, "approximate": "tanh"}, 48 * 9),
        # broadcast: 2x3x8 outputs
        ("Add", ((2, 3, 8), (8,)), {}, 48),
        ("Sum", ((4,), (4,), (4,)), {}, 8),
        ("Mean", ((4,), (4,), (4,)), {}, 12),
        ("Clip", ((4,), np.float32(0), np.float32(1)), {}, 8),
        # k = 3 of 8: two comparisons an element
        ("TopK", ((2, 8), np.array([3])), {"outputs": 2}, 2 * 16),
        # 5 n log2 n for n = 8, two signals of complex numbers
        ("DFT", ((2, 8, 2),), {"axis": 1}, 2 * 5 * 8 * 3),
    ],
)  # fmt: skip
def test_of_several_operands(op, operands, rest, flops):
    assert one(op, operands, **rest).flops == flops


def test_embedding_reads_only_the_rows_it_takes():
    ids = Fed(np.zeros((2, 3), np.int32))
    tables = (f32(100, 8), f32(16, 8), f32(2, 8), f32(8), f32(8))
    cost = one("EmbedLayerNormalization", (ids, ids, *tables), domain=MS, outputs=2)
    # three tables: two additions, then 7, for 2x3x8 elements
    assert cost.flops == 48 * 9
    # 3 x 48 floats of rows, two id tensors of 6 int32, scale and bias of 8 floats
    assert cost.bytes_read == 4 * (3 * 48 + 2 * 6 + 2 * 8)
    cost = one("Gather", (f32(100, 8), Fed(np.zeros((2, 3), np.int64))))
    # 6 rows of 8 floats, 6 int64 indices
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (0, 6 * 32 + 48, 6 * 32)
    assert cost.weight_bytes == 6 * 32 + 48


@pytest.mark.parametrize(
    ("mode", "scales", "per_output"),
    # four taps in two axes, two in one, sixteen for cubic: two operations a tap
    [("nearest", (2, 2), 0), ("linear", (2, 2), 8), ("linear", (1, 2), 4), ("cubic", (2, 2), 32)],
)
def test_resize(mode, scales, per_output):
    cost = one("Resize", (X, None, np.array([1, 1, *scales], np.float32)), mode=mode)
    assert cost.flops == 144 * math.prod(scales) * per_output


@pytest.mark.parametrize(
    ("equation", "operands", "flops", "macs"),
    [
        ("ij,jk->ik", ((3, 4), (4, 5)), 2 * 60, 60),
        ("bhid,bhjd->bhij", ((2, 3, 4, 8), (2, 3, 5, 8)), 2 * 2 * 3 * 4 * 5 * 8, 960),
        ("...ij,...jk", ((2, 3, 4), (2, 4, 5)), 2 * 120, 120),
        # an outer product: 20 products, nothing is summed
        ("i,j->ij", ((4,), (5,)), 20, None),
        # a sum over everything
        ("ij->", ((3, 4),), 12, None),
        ("ij->ji", ((3, 4),), 0, None),
        # three operands in one loop: two products and a sum for 3 x 4 x 5 x 6
        ("ij,jk,kl->il", ((3, 4), (4, 5), (5, 6)), 3 * 360, None),
    ],
)
def test_einsum(equation, operands, flops, macs):
    cost = one("Einsum", operands, equation=equation)
    assert (cost.flops, cost.macs) == (flops, macs)


def test_views_move_nothing():
    for op, operands in (("Reshape", (X, np.array([4, -1]))), ("Identity", (X,)), ("Flatten", (X,))):
        cost = one(op, operands, run=False)
        assert (cost.known, cost.flops, cost.bytes_read, cost.bytes_written) == (True, 0, 0, 0)


def tree_lists(ids, yes, no, modes, trees=None):
    n = len(ids)
    return {
        "nodes_treeids": trees or [0] * n, "nodes_nodeids": ids, "nodes_featureids": [0] * n,
        "nodes_values": [0.5] * n, "nodes_modes": modes, "nodes_truenodeids": yes, "nodes_falsenodeids": no,
        "nodes_missing_value_tracks_true": [0] * n, "nodes_hitrates": [1.0] * n,
    }  # fmt: skip


def test_trees_cost_the_expected_path():
    # Tree 0: split 0 -> leaf 1 | split 2 -> leaf 3 | leaf 4: 1 + 1/2 splits. Tree 1: one leaf, no split.
    split, leaf = "BRANCH_LEQ", "LEAF"
    nodes = tree_lists(
        [0, 1, 2, 3, 4, 0], [1, 0, 3, 0, 0, 0], [2, 0, 4, 0, 0, 0],
        [split, leaf, split, leaf, leaf, leaf], [0, 0, 0, 0, 0, 1],
    )  # fmt: skip
    targets = {
        "target_treeids": [0, 0, 0, 1], "target_nodeids": [1, 3, 4, 0], "target_ids": [0] * 4,
        "target_weights": [1.0] * 4, "n_targets": 1,
    }  # fmt: skip
    cost = one("TreeEnsembleRegressor", ((10, 3),), domain=ML, **nodes, **targets)
    # 10 rows: 1.5 comparisons, and one weight added for each of two trees
    assert cost.flops == 35
    facts(cost.note, "estimate", "each split")


def test_tree_classifier_with_a_probability():
    nodes = tree_lists([0, 1, 2], [1, 0, 0], [2, 0, 0], ["BRANCH_LEQ", "LEAF", "LEAF"])
    classes = {
        "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 1], "class_weights": [1.0, 1.0],
        "classlabels_int64s": [0, 1], "post_transform": "SOFTMAX",
    }  # fmt: skip
    cost = one("TreeEnsembleClassifier", ((4, 3),), domain=ML, outputs=2, **nodes, **classes)
    # 4 rows: one comparison, one weight, softmax over two scores
    assert cost.flops == 4 * (1 + 1 + 10)


def test_tree_ensemble_of_the_new_form():
    from onnx import helper as h

    # split 0 -> leaf 0 | split 1 -> leaf 1 | leaf 2
    attributes = {
        "tree_roots": [0], "nodes_featureids": [0, 0], "nodes_truenodeids": [0, 1], "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2], "nodes_falseleafs": [0, 1], "leaf_targetids": [0, 0, 0], "n_targets": 1,
        "nodes_splits": h.make_tensor("s", 1, [2], [0.5, 0.7]), "nodes_modes": h.make_tensor("m", 2, [2], [0, 0]),
        "leaf_weights": h.make_tensor("w", 1, [3], [1.0, 2.0, 3.0]), "post_transform": 0,
    }  # fmt: skip
    cost = one("TreeEnsemble", ((10, 3),), domain=ML, opset=21, **attributes)
    # 10 rows: 1 + 1/2 splits and one leaf
    assert cost.flops == 25


def test_trees_without_an_end_are_not_counted():
    nodes = tree_lists([0, 1], [1, 0], [1, 0], ["BRANCH_LEQ", "BRANCH_LEQ"])
    targets = {
        "target_treeids": [0],
        "target_nodeids": [0],
        "target_ids": [0],
        "target_weights": [1.0],
        "n_targets": 1,
    }
    cost = one("TreeEnsembleRegressor", ((1, 3),), domain=ML, run=False, **nodes, **targets)
    assert not cost.known
    facts(cost.note, "trees", "4096 levels")


def test_linear_models_and_support_vectors():
    cost = one(
        "LinearRegressor", ((10, 3),), domain=ML, coefficients=[0.1] * 6, intercepts=[0.0] * 2, targets=2
    )
    # 10 rows x 6 coefficients, two intercepts
    assert (cost.macs, cost.flops) == (60, 120 + 20)
    cost = one(
        "SVMRegressor", ((10, 3),), domain=ML, kernel_type="RBF", kernel_params=[0.1, 0.0, 3.0], n_supports=2,
        support_vectors=[0.1] * 6, coefficients=[1.0, 1.0], rho=[0.0],
    )  # fmt: skip
    # 10 rows x 2 vectors: 3 operations for each of 3 features, exp; then two weighted sums
    assert cost.flops == 10 * (2 * 10 + 4)


def test_what_cannot_be_counted_says_why():
    boxes = ((1, 6, 4), (1, 1, 6), np.array([3]))
    cost = one("NonMaxSuppression", boxes, run=False)
    assert (cost.known, cost.flops) == (False, 0)
    facts(cost.note, "NonMaxSuppression", "values")
    facts(one("Nonesuch", ((2,),), domain=MS, run=False).note, "no formula", "com.microsoft.Nonesuch")
