"""Moves scales between two layers, so the channels between them have similar ranges.

What it is: a Conv, Gemm or MatMul feeds another through Relu, LeakyRelu or pooling. Each channel in between is
    multiplied by a power of two in the first layer's weights and bias. The second layer's weights are divided by it.
Why it costs: an 8-bit activation has a single scale, and so does a weight quantized per tensor. A channel that is a
    hundred times smaller than the largest uses only two or three of the quantized values.
Evidence: channels whose largest weights before and after the activation differ by a factor of four or more; the error
    of the quantized model.
Fix and its safety: exact: powers of two only change exponents, so float outputs stay bit-identical. Float models do not
    become faster; ``ortune quantize`` tries this rewrite before static-int8.
Example: ``--rewrite cross-layer-equalization``
References: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import Array
from ortune.graph.nodes import is_op, only_user
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites import _affine
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

_BETWEEN = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LeakyRelu", "MaxPool", "Relu")
"""Operators with f(s * x) = s * f(x) for positive s, applied per channel."""
_MOST_ROUNDS = 32
"""Maximum number of rounds; in each round, a scale can move by one layer."""
_WITHIN = 1e-30, 1e30
"""Limits of the weight magnitudes for which scaling by a power of two is exact; channels outside are usually zero."""


@dataclass(slots=True, kw_only=True)
class _Pair:
    """Two layers and the value before the second layer."""

    first: ir.Node
    second: ir.Node
    value: ir.Value


def _pairs(model: ir.Model) -> Iterator[_Pair]:
    for node in model.graph:
        if not _is_own(_affine.product(node)):
            continue
        value = node.outputs[0]
        user = only_user(value)
        while user is not None and is_op(user, *_BETWEEN) and len(user.outputs) == 1:
            value = user.outputs[0]
            user = only_user(value)
        if user is not None and user.inputs and user.inputs[0] is value and _is_own(_affine.product(user)):
            yield _Pair(first=node, second=user, value=value)


def _is_own(product: _affine.Product | None) -> bool:
    """Return whether a layer is the only reader of its weights and bias."""
    return product is not None and all(
        v is None or (len(v.uses()) == 1 and not v.is_graph_output()) for v in product.node.inputs[1:3]
    )


def _exponents(first: _affine.Product, second: _affine.Product) -> Array | None:
    """Return the exponent of the power of two that scales each channel between two layers; None if all are 0."""
    if first.outs != second.ins or first.last != second.last or is_op(second.node, "ConvTranspose"):
        return None
    out, into = _out_ranges(first), _in_ranges(second)
    usable = (out > _WITHIN[0]) & (out < _WITHIN[1]) & (into > _WITHIN[0]) & (into < _WITHIN[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(usable, np.log2(into / out), 0.0)
    # Only differences between channels matter, so the median is removed.
    apart = np.where(usable, apart - np.median(apart[usable]), 0.0) if usable.any() else apart
    # Each layer takes half of the ratio: ranges 1 and 16 become 4 and 4, with an exponent of 2.
    exponents = np.trunc(apart / 2)
    return exponents if exponents.any() else None


def _out_ranges(product: _affine.Product) -> Array:
    weight = np.abs(product.weight)
    if is_op(product.node, "Conv"):
        return _wide(weight.reshape(product.outs, -1).max(axis=1))
    if is_op(product.node, "ConvTranspose"):
        by_group = weight.reshape(product.groups, product.ins // product.groups, -1, *weight.shape[2:])
        return _wide(by_group.max(axis=(1, *range(3, by_group.ndim))).reshape(-1))
    return _wide(weight.max(axis=1 if _affine.is_transposed(product) else 0))


def _in_ranges(product: _affine.Product) -> Array:
    weight = np.abs(product.weight)
    if is_op(product.node, "Conv"):
        by_group = weight.reshape(product.groups, -1, *weight.shape[1:])
        return _wide(by_group.max(axis=(1, *range(3, by_group.ndim))).reshape(-1))
    return _wide(weight.max(axis=0 if _affine.is_transposed(product) else 1))


def _wide(ranges: Array) -> Array:
    """Convert ranges to float64 for ratios; weights themselves are not converted, to save memory."""
    return np.asarray(ranges.astype(np.float64))


def _move_scales(pair: _Pair, editor: Editor) -> bool:
    """Move scales between two layers and return whether any scale was moved."""
    first, second = _affine.product(pair.first), _affine.product(pair.second)
    exponents = _exponents(first, second) if first is not None and second is not None else None
    if first is None or second is None or exponents is None:
        return False

    def scale(by: Array) -> _affine.Affine:
        return _affine.Affine(
            x=pair.value, y=pair.value, scale=by, shift=np.zeros(()), rank=1, last=first.last
        )

    new = (
        _affine.fold_after(first, scale(np.exp2(exponents))),
        _affine.fold_before(second, scale(np.exp2(-exponents))),
    )
    if new[0] is None or new[1] is None:
        return False
    _affine.replace_weights(editor, first, *new[0])
    _affine.replace_weights(editor, second, *new[1])
    return True


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    pairs = list(_pairs(model))
    editor, moved = Editor(model), set[int]()
    for _ in range(_MOST_ROUNDS):
        now = {number for number, pair in enumerate(pairs) if _move_scales(pair, editor)}
        moved |= now
        if not now:
            break
    if not moved:
        return unchanged("no two consecutive layers have channels whose ranges differ by a factor of four")
    layers = amount(len(moved), "pair of layers", "pairs of layers")
    return RewriteResult(modified=True, what=f"Equalized the channels of {layers}.")


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    """Return no proposals, since the rewrite does not make a model faster and helps only before quantization."""
    return []


REWRITE = Rewrite(
    name="cross-layer-equalization",
    summary="moves scales between layers, so channels have similar ranges before quantization",
    safety="exact",
    change=_change,
    proposes=_proposes,
)
