"""Costs of operators that compute element by element, reduce, or only move data."""

from __future__ import annotations

import math

from ortune.graph.cost.activations import PER_ELEMENT
from ortune.graph.cost.call import Call, Count, Formula, Uncounted, no_work, work
from ortune.graph.kinds import VIEWS
from ortune.graph.model.graphs import op_set


def per_element(operations: int) -> Formula:
    """Return a formula with a fixed number of operations per output element."""
    return work(lambda call: operations * call.n_out())


def each_input(operations: int, per_output: int = 0) -> Formula:
    """Return a formula with ``operations`` per element of the first input, plus ``per_output`` per output element."""
    return work(lambda call: operations * call.n_in() + (per_output * call.n_out() if per_output else 0))


def biased(name: str) -> Formula:
    """Return the formula of the activation ``name`` after an optional bias, which is the input at index 1."""
    return work(lambda call: (PER_ELEMENT[name] + call.has(1)) * call.n_out())


def _gelu(call: Call) -> int:
    """Return the operations of a Gelu, computed with erf, or with the tanh approximation as in FastGelu."""
    name = "FastGelu" if call.text("approximate", "none") == "tanh" else "Gelu"
    return PER_ELEMENT[name] * call.n_out()


def view(call: Call) -> Count:
    """Count nothing: the output is a stored constant, or the input bytes with a different shape."""
    return Count(read=0, written=0)


def selected(call: Call) -> Count:
    """Count an operator that selects elements: it reads one element per output element, and all of its other inputs."""
    others = sum(call.bytes_in(i) for i in range(1, len(call.node.inputs)))
    return Count(read=call.bytes_out() + others)


def gather_block_quantized(call: Call) -> Count:
    """Count GatherBlockQuantized, which reads and dequantizes only the gathered rows."""
    elements = call.n_out()
    read = math.ceil(elements * (call.input_bits[0] or 0) / 8) + call.bytes_in(1)
    return Count(flops=2 * elements, read=read)


def described(call: Call) -> Count:
    """Count Shape and Size, which read no elements."""
    return Count(read=0)


def top_k(call: Call) -> Count:
    """Count TopK as a heap of size k: log2(k) comparisons per element, at least one."""
    k = call.out()[call.int("axis", -1)]
    return Count(
        flops=math.ceil(math.log2(max(2, k))) * call.n_in(),
        note="its operation count is an estimate: the comparisons of a heap of k elements",
    )


def _transform(n: int) -> float:
    # Common estimate for a fast Fourier transform of n complex numbers.
    return 5 * n * math.log2(max(2, n))


def dft(call: Call) -> Count:
    """Count a Fourier transform as 5 n log2 n per signal, the common estimate for an FFT."""
    source, out = call.shape(0), call.out()
    axis = call.int("axis", 1)
    if call.opset >= 20:
        operand = call.values.get(2)
        axis = int(operand.ravel()[0]) if operand is not None and operand.size else -2
    if not -len(source) <= axis < len(source):
        raise Uncounted(f"the axis {axis} is outside the {len(source)} dimensions of the signal")
    length = call.values.get(1)
    n = int(length.ravel()[0]) if length is not None and length.size else max(source[axis], out[axis])
    # The last axis has the real and imaginary parts, the transformed one the signal; the rest are batches.
    signals = math.prod(source[:-1]) // max(1, source[axis])
    return Count(flops=round(signals * _transform(n)))


def stft(call: Call) -> Count:
    """Count a window and a Fourier transform per frame."""
    out = call.out()
    operand, window = call.values.get(3), call.has(2)
    n = int(operand.ravel()[0]) if operand is not None and operand.size else (call.dim(2, 0) if window else 0)
    if n < 1 or len(out) != 4:
        raise Uncounted("the length of a frame is not constant")
    return Count(flops=round(out[0] * out[1] * (_transform(n) + window * n)))


def values_decide(call: Call) -> Count:
    """Raise Uncounted, because the work depends on the values."""
    raise Uncounted(f"the work of {call.node.op_type} depends on the values")


_ONE = op_set(
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Cos "
    "Cosh CumProd CumSum Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Mod Mul "
    "Neg Not Or Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Tan Where Xor Bernoulli Multinomial RandomNormal "
    "RandomNormalLike RandomUniform RandomUniformLike BlackmanWindow HammingWindow HannWindow MelWeightMatrix Range"
)
_MOVED = op_set(
    "Cast CastLike CenterCropPad Col2Im Compress Concat ConcatFromSequence ConstantOfShape DepthToSpace EyeLike Expand "
    "GatherElements NonZero OneHot Pad ReverseSequence ScatterElements ScatterND Scatter SpaceToDepth Split "
    "SplitToSequence TensorScatter Tile Transpose Trilu Unique BitCast ImageDecoder "
    "OptionalGetElement Optional OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
    "SequenceInsert SequenceLength RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer"
)
_CONTRIB_ONLY = {"FastGelu", "QuickGelu", "Silu"}
_VIEWS = VIEWS | {"Dropout"}
_SELECTED = op_set("Gather GatherND Slice")

FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        **{name: per_element(count) for name, count in PER_ELEMENT.items() if name not in _CONTRIB_ONLY},
        **dict.fromkeys(_ONE, per_element(1)),
        **dict.fromkeys(_MOVED, no_work),
        **dict.fromkeys(_VIEWS, view),
        **dict.fromkeys(_SELECTED, selected),
        # With several tensors: one operation for each operand but the first.
        **dict.fromkeys(("Sum", "Max", "Min"), work(lambda c: (len(c.node.inputs) - 1) * c.n_out())),
        "Mean": work(lambda c: len(c.node.inputs) * c.n_out()),
        **dict.fromkeys(("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"), each_input(1)),
        **dict.fromkeys(("ArgMax", "ArgMin", "Hardmax"), each_input(1)),
        "Gelu": work(_gelu),
        "ReduceMean": each_input(1, 1),
        "ReduceL1": each_input(2),
        "ReduceL2": each_input(2, 1),
        "ReduceSumSquare": each_input(2),
        "ReduceLogSum": each_input(1, 1),
        "ReduceLogSumExp": each_input(4, 2),
        "TopK": top_k,
        "DFT": dft,
        "STFT": stft,
        "Det": work(lambda c: 2 * c.dim(0, -1) * c.n_in() // 3),  # by elimination
        "Shape": described,
        "Size": described,
        "Constant": view,
        "NonMaxSuppression": values_decide,
    },
    "com.microsoft": {
        **{name: per_element(PER_ELEMENT[name]) for name in ("Gelu", "QuickGelu")},
        "FastGelu": biased("FastGelu"),
        "BiasGelu": biased("Gelu"),
        # A bias, then the product of one half with the Gelu of the other.
        "BiasSplitGelu": each_input(1, PER_ELEMENT["Gelu"] + 1),
        "BiasAdd": per_element(2),
        "BiasDropout": per_element(2),
        "ComplexMul": per_element(3),
        "ComplexMulConj": per_element(3),
        "GatherBlockQuantized": gather_block_quantized,
        "GatherND": selected,
        "ReduceSumInteger": each_input(1),
        "Inverse": values_decide,
        "Range": per_element(1),
        "IsAllFinite": each_input(1),
        "ExpandDims": view,
        **dict.fromkeys(("Pad", "Trilu", "Unique", "UnfoldTensor"), no_work),
    },
    "com.microsoft.nchwc": {"ReorderInput": no_work, "ReorderOutput": no_work},
}
