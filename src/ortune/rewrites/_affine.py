"""Per-channel scale and shift: how nodes express them, and how convolutions and matrix products absorb them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import float_of, has_parameters, int_of, ints_of, text_of
from ortune.graph.constants import Array, constant, is_constant
from ortune.graph.nodes import FLOATS, is_op, only_user
from ortune.graph.shapes.nearby import least_rank
from ortune.rewrites._editor import Editor

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """A node that computes ``scale * x + shift``, per channel or with single numbers.

    Attributes:
        x: The input.
        y: The output.
        scale, shift: One number (rank 0), or one number per channel (rank 1).
        rank: Rank of the constants; ``x`` must have at least this rank, or broadcasting changes its shape.
        last: Whether channels are on the last axis instead of the second; None for a single number.
    """

    x: ir.Value
    y: ir.Value
    scale: Array
    shift: Array
    rank: int
    last: bool | None

    @property
    def finite(self) -> bool:
        """Whether scale and shift are finite."""
        return bool(np.isfinite(self.scale).all() and np.isfinite(self.shift).all())


def may_be_affine(node: ir.Node) -> bool:
    """Return whether a node may be a per-channel scale or shift, without reading any weights."""
    return is_op(node, "BatchNormalization") or (
        is_op(node, "Add", "Sub", "Mul", "Div") and any(map(is_constant, node.inputs))
    )


def shifts(node: ir.Node) -> bool:
    """Return whether a node adds or subtracts a constant float tensor that is not all zeros."""
    constants = map(constant, node.inputs) if is_op(node, "Add", "Sub") else ()
    return any(numbers is not None and numbers.dtype.kind == "f" and numbers.any() for numbers in constants)


def affine(node: ir.Node, rank: int) -> Affine | None:
    """Match a node that scales and shifts per channel; return None for any other node.

    Args:
        node: A candidate: Add, Sub, Mul or Div with a constant, or BatchNormalization in inference mode.
        rank: Lower bound for the rank of ``x``.
    """
    if is_op(node, "BatchNormalization"):
        return _batch_normalization(node)
    if not is_op(node, "Add", "Sub", "Mul", "Div") or len(node.inputs) != 2:
        return None
    for place in (0, 1):
        x, other = node.inputs[place], node.inputs[1 - place]
        numbers = constant(other)
        if x is None or numbers is None or constant(x) is not None or numbers.dtype.kind != "f":
            continue
        # A constant divided by x is not a scale of x.
        if node.op_type == "Div" and place == 1:
            return None
        channels = _by_channel(numbers, rank)
        if channels is None:
            return None
        values, last = channels
        one, zero = np.ones(()), np.zeros(())
        with np.errstate(all="ignore"):
            scale, shift = {
                "Add": (one, values),
                # x - c, or c - x, which is -x + c.
                "Sub": (one, -values) if place == 0 else (-one, values),
                "Mul": (values, zero),
                "Div": (1.0 / values, zero),
            }[node.op_type]
        result = Affine(x=x, y=node.outputs[0], scale=scale, shift=shift, rank=numbers.ndim, last=last)
        return result if result.finite else None
    return None


def _by_channel(numbers: np.ndarray, rank: int) -> tuple[Array, bool | None] | None:
    """Return (one number or one per channel, whether channels are last); None if the constants vary otherwise."""
    if numbers.size == 1:
        return numbers.astype(np.float64).reshape(()), None
    if rank < numbers.ndim:
        return None
    # Broadcasting aligns trailing axes: [64, 1, 1] with [N, 64, H, W] means [1, 64, 1, 1].
    shape = (1,) * (rank - numbers.ndim) + numbers.shape
    values = numbers.astype(np.float64).reshape(-1)
    if rank >= 2 and shape[-1] == numbers.size:
        return values, True
    if rank >= 3 and shape[1] == numbers.size:
        return values, False
    return None


def _batch_normalization(node: ir.Node) -> Affine | None:
    # Before opset 14, more than one output means training mode with batch statistics, whether or not they are
    # read.
    if len(node.inputs) != 5 or len(node.outputs) != 1:
        return None
    # Before opset 9, the attribute "spatial" could be 0, which normalizes differently.
    if has_parameters(node) or int_of(node, "training_mode", 0) or not int_of(node, "spatial", 1):
        return None
    parameters = [constant(v) for v in node.inputs[1:]]
    if any(v is None or v.dtype.kind != "f" for v in parameters):
        return None
    gamma, beta, mean, variance = (v.astype(np.float64) for v in parameters if v is not None)
    # gamma * (x - mean) / sqrt(variance + epsilon) + beta, rearranged to scale * x + shift.
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + float_of(node, "epsilon", 1e-5))
    x = node.inputs[0]
    assert x is not None
    result = Affine(
        x=x,
        y=node.outputs[0],
        scale=scale,
        shift=beta - mean * scale,
        rank=2,
        last=_is_matrix(x, node.outputs[0]),
    )
    return result if result.finite else None


def _is_matrix(x: ir.Value, y: ir.Value) -> bool:
    """Return whether axis 1 is the last axis, as the shape of ``x`` or an adjacent Gemm shows."""
    if x.shape is not None:
        return len(x.shape) == 2
    source, user = x.producer(), only_user(y)
    gives, takes = (node is not None and is_op(node, "Gemm") for node in (source, user))
    return gives or (takes and user is not None and user.inputs[0] is y)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A convolution or matrix product with constant weights.

    Attributes:
        node: The operator.
        weight, bias: The weights as stored, and the bias as float64 (zeros if the node has no bias).
        outs, ins: Numbers of output and input channels.
        groups: Number of groups of a convolution; 1 for a matrix product.
        rank: Lower bound for the rank of input and output.
        takes_bias: Whether the operator has a bias input.
    """

    node: ir.Node
    weight: np.ndarray
    bias: Array
    outs: int
    ins: int
    groups: int
    rank: int
    takes_bias: bool

    @property
    def last(self) -> bool:
        """Whether the channels are on the last axis."""
        return is_op(self.node, "Gemm", "MatMul")


def product(node: ir.Node | None) -> Product | None:
    """Match a convolution or matrix product with constant weights; return None for any other node."""
    if node is None or not is_op(node, *PRODUCTS) or len(node.inputs) < 2:
        return None
    if has_parameters(node):
        return None
    value, weight = node.inputs[1], constant(node.inputs[1])
    if value is None or weight is None or ir.DataType.from_numpy(weight.dtype) not in FLOATS:
        return None
    bias_value = node.inputs[2] if len(node.inputs) > 2 else None
    bias = constant(bias_value)
    if bias_value is not None and bias is None:
        return None
    if is_op(node, "Conv", "ConvTranspose"):
        return _convolution(node, weight, bias)
    return _matrix(node, weight, bias)


def _convolution(node: ir.Node, weight: np.ndarray, bias: np.ndarray | None) -> Product | None:
    groups = int_of(node, "group", 1)
    if weight.ndim < 3 or groups < 1 or weight.shape[0] % groups:
        return None
    straight = node.op_type == "Conv"
    # Conv stores [outs, ins / groups, ...], ConvTranspose [ins, outs / groups, ...].
    outs = weight.shape[0] if straight else weight.shape[1] * groups
    ins = weight.shape[1] * groups if straight else weight.shape[0]
    bias_values = np.zeros(outs) if bias is None else bias.astype(np.float64)
    if bias_values.shape != (outs,):
        return None
    return Product(
        node=node,
        weight=weight,
        bias=bias_values,
        outs=outs,
        ins=ins,
        groups=groups,
        rank=weight.ndim,
        takes_bias=True,
    )


def _matrix(node: ir.Node, weight: np.ndarray, bias: np.ndarray | None) -> Product | None:
    gemm = node.op_type == "Gemm"
    if weight.ndim != 2:
        return None
    if gemm and (
        int_of(node, "transA", 0) or float_of(node, "alpha", 1.0) != 1.0 or float_of(node, "beta", 1.0) != 1.0
    ):
        return None
    turned = gemm and bool(int_of(node, "transB", 0))
    ins, outs = weight.shape[::-1] if turned else weight.shape
    bias_values = np.zeros(outs) if bias is None else bias.astype(np.float64)
    if bias_values.size == 1:
        bias_values = np.broadcast_to(bias_values.reshape(()), (outs,))
    # [outs] and [1, outs] are a bias per column; [outs, 1] would be one per row.
    if bias_values.size != outs or bias_values.reshape(-1).shape[0] != bias_values.shape[-1]:
        return None
    rank = 2 if gemm else max(1, least_rank(node.inputs[0]))
    return Product(
        node=node,
        weight=weight,
        bias=bias_values.reshape(-1),
        outs=outs,
        ins=ins,
        groups=1,
        rank=rank,
        takes_bias=gemm,
    )


def pads(node: ir.Node) -> bool:
    """Return whether a convolution pads its input."""
    auto = text_of(node, "auto_pad", "NOTSET")
    return any(ints_of(node, "pads") or ()) if auto == "NOTSET" else auto != "VALID"


def fits(affine: Affine, channels: int, product: Product) -> bool:
    """Return whether a scale and shift vary at most by the product's channels and keep the shape."""
    sizes = {affine.scale.size, affine.shift.size} - {1}
    if sizes - {channels} or affine.rank > product.rank:
        return False
    # With one channel, one number per channel would broadcast along the wrong axis.
    return affine.last is None or not sizes or affine.last == product.last


def fold_after(product: Product, affine: Affine) -> tuple[np.ndarray, Array] | None:
    """Return the weights and bias of a product with the scale and shift after it folded in; None if impossible."""
    if not fits(affine, product.outs, product):
        return None
    scale = np.broadcast_to(affine.scale, (product.outs,))
    # (w x + b) s + t = (w s) x + (b s + t).
    bias = product.bias * scale + affine.shift
    if bias.any() and not product.takes_bias:
        return None
    weight = product.weight.astype(np.float64)
    if is_op(product.node, "Conv"):
        factors = scale.reshape(-1, *[1] * (weight.ndim - 1))
    elif is_op(product.node, "ConvTranspose"):
        factors = scale.reshape(product.groups, 1, -1, *[1] * (weight.ndim - 2))
        weight = weight.reshape(product.groups, -1, *weight.shape[1:])
    else:
        factors = scale[:, None] if is_transposed(product) else scale[None, :]
    return _stored(product, weight, factors, bias)


def fold_before(product: Product, affine: Affine) -> tuple[np.ndarray, Array] | None:
    """Return the weights and bias of a product with the scale and shift before it folded in; None if impossible."""
    if not is_op(product.node, "Conv", "Gemm", "MatMul") or not fits(affine, product.ins, product):
        return None
    scale = np.broadcast_to(affine.scale, (product.ins,))
    shift = np.broadcast_to(affine.shift, (product.ins,))
    # Padding adds zeros after the shift, so a shift cannot be folded into a padded convolution.
    if shift.any() and (not product.takes_bias or (is_op(product.node, "Conv") and pads(product.node))):
        return None
    # w (s x + t) + b = (w s) x + (w t + b); each tap of a convolution contributes its part of w t.
    weight = product.weight.astype(np.float64)
    if is_op(product.node, "Conv"):
        taps = weight.reshape(product.groups, -1, *weight.shape[1:])
        shape = (product.groups, 1, -1, *[1] * (weight.ndim - 2))
        axes = tuple(range(2, taps.ndim))
        bias = product.bias + (taps * shift.reshape(shape)).sum(axis=axes).reshape(-1)
        weight, factors = taps, scale.reshape(shape)
    elif is_transposed(product):
        bias, factors = product.bias + weight @ shift, scale[None, :]
    else:
        bias, factors = product.bias + shift @ weight, scale[:, None]
    return _stored(product, weight, factors, bias)


def is_transposed(product: Product) -> bool:
    """Return whether the product stores its weights transposed."""
    return is_op(product.node, "Gemm") and bool(int_of(product.node, "transB", 0))


def _stored(product: Product, weight: Array, factors: Array, bias: Array) -> tuple[np.ndarray, Array] | None:
    """Multiply weights by factors, keeping their type; return None if weights or bias overflow or lose precision."""
    with np.errstate(all="ignore"):
        scaled = weight * factors
        result = scaled.astype(product.weight.dtype)
        if not (np.isfinite(result).all() and np.isfinite(bias.astype(product.weight.dtype)).all()):
            return None
    # Underflow matters in float16 only; what float32 and float64 lose below their smallest number is
    # negligible.
    if result.dtype == np.float16:
        within = tuple(axis for axis, size in enumerate(factors.shape) if size == 1)
        lost, largest = (np.abs(v).max(axis=within, initial=0) for v in (scaled - result, scaled))
        if (lost > np.finfo(np.float16).eps * largest).any():
            return None
    return result.reshape(product.weight.shape), bias


def replace_weights(editor: Editor, product: Product, weight: np.ndarray, bias: Array) -> None:
    """Replace the weights and bias of a product, and remove the old weights if they are unused."""
    node = product.node
    name = node.name or node.outputs[0].name or "product"
    old = list(node.inputs[1:3])
    node.replace_input_with(1, editor.constant(node, f"{name}_weight", weight))
    if product.takes_bias and (bias.any() or len(old) > 1):
        value = editor.constant(node, f"{name}_bias", bias.astype(weight.dtype))
        if len(node.inputs) < 3:
            node.resize_inputs(3)
        node.replace_input_with(2, value)
    for unused in dict.fromkeys(old):
        editor.drop(unused)
