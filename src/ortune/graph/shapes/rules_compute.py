"""Shape rules for operators that compute: constraints on operands, and output shapes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.attributes import int_of, ints_of, length_of, text_of
from ortune.graph.nodes import input_of
from ortune.graph.shapes.helpers import ONE, Handler, axes_of, broadcast
from ortune.graph.shapes.symbols import Dim, Size
from ortune.graph.shapes.walk import Shape, Walk, ceil_div


def _windows(
    walk: Walk, node: ir.Node, spatial: Shape, kernel: Sequence[Dim], ceil_mode: bool = False
) -> Shape:
    """Return the spatial dimensions of the output of a sliding-window operator (convolution, pooling)."""
    rank = len(spatial)
    strides = ints_of(node, "strides") or [1] * rank
    dilations = ints_of(node, "dilations") or [1] * rank
    pads = ints_of(node, "pads") or [0] * (2 * rank)
    auto = text_of(node, "auto_pad", "NOTSET")
    out: list[Dim] = []
    for i, dim in enumerate(spatial):
        window = kernel[i] if i < len(kernel) else None
        if dim is None or window is None or window.value is None:
            out.append(None)
            continue
        # Extent of a window including gaps.
        span = dilations[i] * (window.value - 1) + 1
        if auto.startswith("SAME"):
            out.append(
                Size((), ceil_div(dim.value, strides[i])) if dim.value is not None else dim.over(strides[i])
            )
            continue
        room = dim.shift((0 if auto == "VALID" else pads[i] + pads[i + rank]) - span)
        if room.value is None:
            out.append(room.shift(1) if strides[i] == 1 else None)
            continue
        if room.value < 0:
            walk.fail(f"a window of {span} does not fit")
        steps = ceil_div(room.value, strides[i]) if ceil_mode else room.value // strides[i]
        # A last window that would start in the trailing padding is omitted.
        inside = dim.value is None or steps * strides[i] < dim.value + pads[i]
        out.append(Size((), steps + inside))
    return tuple(out)


def _conv(walk: Walk, node: ir.Node) -> Shape | None:
    quantized = node.op_type == "QLinearConv"
    x, w = walk.shape(input_of(node, 0)), walk.shape(input_of(node, 3 if quantized else 1))
    if x is None or w is None or len(x) < 3 or len(x) != len(w) or int_of(node, "channels_last", 0):
        return None
    if w[1] is not None:
        walk.equal(x[1], w[1].times(int_of(node, "group", 1)))
    return (x[0], w[0], *_windows(walk, node, x[2:], w[2:]))


def _conv_transpose(walk: Walk, node: ir.Node) -> Shape | None:
    x, w = walk.shape(input_of(node, 0)), walk.shape(input_of(node, 1))
    if x is None or w is None or len(x) < 3 or len(x) != len(w):
        return None
    walk.equal(x[1], w[0])
    rank = len(x) - 2
    channels = w[1].times(int_of(node, "group", 1)) if w[1] is not None else None
    if ints_of(node, "output_shape") or text_of(node, "auto_pad", "NOTSET") != "NOTSET":
        return (x[0], channels, *(None,) * rank)
    strides = ints_of(node, "strides") or [1] * rank
    dilations = ints_of(node, "dilations") or [1] * rank
    pads = ints_of(node, "pads") or [0] * (2 * rank)
    extra = ints_of(node, "output_padding") or [0] * rank
    spatial: list[Dim] = []
    for i, (dim, window) in enumerate(zip(x[2:], w[2:], strict=True)):
        if dim is None or window is None or window.value is None:
            spatial.append(None)
            continue
        # As in the ONNX specification: stride x (size - 1) + extra + dilation x (kernel - 1) + 1 - pads. Size 7
        # with stride 2, kernel 3 and pads 1 and 1 gives 12 + 0 + 2 + 1 - 2 = 13.
        grown = dim.shift(-1).times(strides[i])
        spatial.append(
            grown.shift(dilations[i] * (window.value - 1) + 1 + extra[i] - pads[i] - pads[i + rank])
        )
    return (x[0], channels, *spatial)


def _pool(walk: Walk, node: ir.Node) -> Shape | None:
    x, kernel = walk.shape(input_of(node, 0)), ints_of(node, "kernel_shape")
    if x is None or kernel is None or len(x) < 3 or int_of(node, "channels_last", 0):
        return None
    spatial = _windows(walk, node, x[2:], [Size((), k) for k in kernel], bool(int_of(node, "ceil_mode", 0)))
    return (*x[:2], *spatial)


def _global_pool(walk: Walk, node: ir.Node) -> Shape | None:
    x = walk.shape(input_of(node, 0))
    if x is None or len(x) < 3:
        return None
    ones = (ONE,) * (len(x) - 2)
    return (x[0], *ones, x[-1]) if int_of(node, "channels_last", 0) else (*x[:2], *ones)


def _channel_norm(walk: Walk, node: ir.Node) -> Shape | None:
    x, scale = walk.shape(input_of(node, 0)), walk.shape(input_of(node, 1))
    if x is not None and scale is not None and len(x) > 1 and len(scale) == 1:
        walk.equal(x[1], scale[0])
    return x


def _last_norm(walk: Walk, node: ir.Node) -> Sequence[Shape | None] | None:
    skip = "Skip" in node.op_type
    x, scale = walk.shape(input_of(node, 0)), walk.shape(input_of(node, 2 if skip else 1))
    if x and scale is not None and len(scale) == 1:
        walk.equal(x[-1], scale[0])
    # Mean and deviation of each row; the fourth output is the normalized sum.
    rows = (*x[:-1], ONE) if x else None
    return [x, rows, rows, x] if skip else [x]


def _matmul(walk: Walk, node: ir.Node) -> Shape | None:
    second = {"QLinearMatMul": 3}.get(node.op_type, 1)
    a, b = (
        _effective_shape(node, walk.shape(input_of(node, at)), side) for at, side in ((0, "A"), (second, "B"))
    )
    if not a or not b:
        return None
    walk.equal(a[-1], b[-2] if len(b) > 1 else b[0])
    if len(a) == 1 or len(b) == 1:
        return a[:-1] if len(b) == 1 else (*b[:-2], b[-1])
    return (*broadcast(walk, a[:-2], b[:-2]), a[-2], b[-1])


def _effective_shape(node: ir.Node, shape: Shape | None, side: str) -> Shape | None:
    """Return an operand's effective shape: ``transBatch`` moves the first axis after the batch, ``trans`` swaps two."""
    if shape is None or len(shape) < 2:
        return shape
    if int_of(node, f"transBatch{side}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if int_of(node, f"trans{side}", 0) else shape


def _matmul_nbits(walk: Walk, node: ir.Node) -> Shape | None:
    a = walk.shape(input_of(node, 0))
    if not a:
        return None
    walk.equal(a[-1], Size((), int_of(node, "K", 0)))
    return (*a[:-1], Size((), int_of(node, "N", 0)))


def _gemm(walk: Walk, node: ir.Node) -> Shape | None:
    second = {"QGemm": 3}.get(node.op_type, 1)
    a, b = walk.shape(input_of(node, 0)), walk.shape(input_of(node, second))
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    m, k = (a[1], a[0]) if int_of(node, "transA", 0) else a
    other_k, n = (b[1], b[0]) if int_of(node, "transB", 0) else b
    walk.equal(k, other_k)
    return m, n


def _embed_layer_norm(walk: Walk, node: ir.Node) -> Sequence[Shape | None] | None:
    ids, table = walk.shape(input_of(node, 0)), walk.shape(input_of(node, 2))
    walk.index(input_of(node, 2), 0, input_of(node, 0))
    walk.index(input_of(node, 4), 0, input_of(node, 1))
    positions = walk.shape(input_of(node, 3))
    if ids is None or table is None or len(ids) != 2 or len(table) != 2:
        return None
    # A sequence must not be longer than the position table.
    if positions and ids[1] is not None and positions[0] is not None and positions[0].value is not None:
        walk.limits.append((ids[1], positions[0].value))
    rows = (*ids, table[1])
    return [rows, ids[:1], rows]


def _recurrent(walk: Walk, node: ir.Node) -> Sequence[Shape | None] | None:
    x, w, r = (walk.shape(input_of(node, i)) for i in range(3))
    if x is None or w is None or r is None or len(x) != 3 or len(w) != 3 or len(r) != 3:
        return None
    walk.equal(x[2], w[2])
    batch_first = bool(int_of(node, "layout", 0))
    length, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
    state: Shape = (batch, w[0], r[2]) if batch_first else (w[0], batch, r[2])
    lengths = walk.shape(input_of(node, 4))
    if lengths is not None and len(lengths) == 1:
        walk.equal(lengths[0], batch)
    for position in (5, 6):
        shape = walk.shape(input_of(node, position))
        if shape is not None and len(shape) == 3:
            for own, other in zip(shape, state, strict=True):
                walk.equal(own, other)
    whole: Shape = (batch, length, w[0], r[2]) if batch_first else (length, w[0], batch, r[2])
    return [whole, state, state]


def _reduce(walk: Walk, node: ir.Node) -> Shape | None:
    x = walk.shape(input_of(node, 0))
    if x is None:
        return None
    axes = axes_of(walk, node)
    if node.op_type in {"ArgMax", "ArgMin"}:
        axes = [int_of(node, "axis", 0)]
    if axes is None and input_of(node, 1) is not None:
        return None
    if not axes and int_of(node, "noop_with_empty_axes", 0):
        return x
    gone = {a % len(x) for a in axes} if axes and x else set(range(len(x)))
    if int_of(node, "keepdims", 1):
        return tuple(ONE if i in gone else d for i, d in enumerate(x))
    return tuple(d for i, d in enumerate(x) if i not in gone)


def _quantize(walk: Walk, node: ir.Node) -> Sequence[Shape | None]:
    return [walk.shape(input_of(node, 0)), (), ()]


def _einsum(walk: Walk, node: ir.Node) -> Shape | None:
    equation = text_of(node, "equation", "").replace(" ", "")
    if "." in equation or "->" not in equation:
        return None
    left, right = equation.split("->")
    letters: dict[str, Dim] = {}
    for term, value in zip(left.split(","), node.inputs, strict=False):
        shape = walk.shape(value)
        if shape is None or len(shape) != len(term):
            return None
        for letter, dim in zip(term, shape, strict=True):
            letters[letter] = walk.equal(letters[letter], dim) if letter in letters else dim
    return tuple(letters.get(letter) for letter in right)


def _tree_or_linear(walk: Walk, node: ir.Node) -> None:
    """Constrain the number of features of classical models, which is defined by attributes instead of a weight."""
    x = walk.shape(input_of(node, 0))
    if not x:
        return
    features = 0
    if node.op_type.startswith("Linear"):
        classes = max(length_of(node, n) for n in ("intercepts", "classlabels_ints", "classlabels_strings"))
        features = length_of(node, "coefficients") // max(classes, 1)
    elif node.op_type == "Scaler":
        features = length_of(node, "scale")
    else:
        # The largest feature used is only a lower bound; it is used if the model declares no size.
        features = max(ints_of(node, "nodes_featureids") or (), default=-1) + 1
    if features > 1:
        walk.equal(x[-1], Size((), features))


def _classical(walk: Walk, node: ir.Node) -> Shape | None:
    _tree_or_linear(walk, node)
    return walk.shape(input_of(node, 0)) if node.op_type in {"Scaler", "Normalizer"} else None


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("Conv", "QLinearConv", "ConvInteger", "FusedConv"), _conv),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"), _pool),
    **dict.fromkeys(
        ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "QLinearGlobalAveragePool"), _global_pool
    ),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _channel_norm),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
         "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _last_norm,
    ),
    **dict.fromkeys(
        ("MatMul", "QLinearMatMul", "MatMulInteger", "FusedMatMul", "DynamicQuantizeMatMul", "TransposeMatMul",
         "FusedMatMulActivation", "MatMulIntegerToFloat", "MatMulInteger16", "GemmFastGelu"), _matmul,
    ),
    **dict.fromkeys(("Gemm", "FusedGemm", "QGemm"), _gemm),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(
        ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
         "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "ArgMax", "ArgMin"), _reduce,
    ),
    **dict.fromkeys(
        ("LinearClassifier", "LinearRegressor", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
         "TreeEnsemble", "Scaler", "Normalizer"), _classical,
    ),
    "ConvTranspose": _conv_transpose,
    "DynamicQuantizeLinear": _quantize,
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), _matmul_nbits),
    "EmbedLayerNormalization": _embed_layer_norm,
    "Einsum": _einsum,
}  # fmt: skip
