"""Turns a per-channel scale and shift between convolutions into a 1x1 depthwise convolution.

What it is: ``x * scale + shift`` per channel or with a scalar, where the weights of neither adjacent layer can absorb
    it (the next convolution pads, or other nodes use the value too).
Why it costs: the CPU provider computes convolutions in a blocked layout (NCHWc) that has no Mul or Add with a
    constant. Around each, the tensor is converted out of the layout and back, which is two extra passes. A depthwise
    convolution stays in the layout and does both operations in one pass.
Evidence: ReorderOutput before and ReorderInput after a Mul or Add in the optimised graph.
Fix and its safety: exact: the same multiplications and additions. It helps only where the layout is blocked: float32
    on x86 CPUs, or on ARM CPUs in builds with NCHWc kernels.
Example: ``--rewrite affine-as-convolution``
References: ONNX Runtime source, ``core/optimizer/nchwc_transformer.cc``; Cui et al., "PP-LCNet", 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import Array, constant
from ortune.graph.nodes import is_op, only_user, scopes_of
from ortune.graph.shapes.nearby import least_rank
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites import _affine, affine_into_weights
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

_BLOCK = 16  # channels of the widest block (AVX-512); a multiple of it also fits narrower blocks
_IN_LAYOUT = (
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "MaxPool",
    "AveragePool",
    "BatchNormalization",
)
_DEPTH = 6  # maximum nodes to search upstream for a convolution


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """A chain of consecutive scales and shifts.

    Attributes:
        x, y: Input and output of the chain.
        scale, shift: Combined scale and shift of the chain, one number per channel.
        first: First node of the chain.
    """

    x: ir.Value
    y: ir.Value
    scale: Array
    shift: Array
    first: ir.Node


def _from_convolution(value: ir.Value | None, depth: int = _DEPTH) -> int | None:
    """Return the number of channels of a value in the blocked layout (NCHWc); None for values in other layouts."""
    node = value.producer() if value is not None else None
    if node is None or depth == 0 or (value is not None and value.dtype not in (None, ir.DataType.FLOAT)):
        return None
    if is_op(node, "Conv"):
        product = _affine.product(node)
        return (
            product.outs
            if product is not None and product.weight.ndim == 4 and product.weight.dtype == np.float32
            else None
        )
    if is_op(node, *_IN_LAYOUT):
        return _from_convolution(node.inputs[0], depth - 1)
    if is_op(node, "Mul", "Add") and not any(constant(v) is not None for v in node.inputs):
        channels = {_from_convolution(v, depth - 1) for v in node.inputs}
        return channels.pop() if len(channels) == 1 else None
    return None


def _chain(node: ir.Node) -> _Chain | None:
    """Match the longest chain that starts at a node and is between two convolutions; None if there is none."""
    start = next((v for v in node.inputs if v is not None and constant(v) is None), None)
    channels = _from_convolution(start)
    if start is None or channels is None or channels % _BLOCK:
        return None
    scale, shift, value = np.ones(()), np.zeros(()), start
    step: ir.Node | None = node
    while step is not None:
        affine = _affine.affine(step, 4)
        if affine is None or affine.x is not value or affine.rank > 4 or affine.last:
            break
        if {affine.scale.size, affine.shift.size} - {1, channels}:
            break
        # (s x + t) s' + t' = (s s') x + (t s' + t').
        scale, shift, value = scale * affine.scale, shift * affine.scale + affine.shift, affine.y
        step = only_user(value)
    if value is start or value.is_graph_output() or not any(is_op(u.node, "Conv") for u in value.uses()):
        return None
    if _into_weights(node, value):
        return None
    return _Chain(
        x=start,
        y=value,
        scale=np.broadcast_to(scale, (channels,)),
        shift=np.broadcast_to(shift, (channels,)),
        first=node,
    )


def _into_weights(first: ir.Node, end: ir.Value) -> bool:
    """Return whether an adjacent convolution can absorb the first or last node of a chain into its weights."""
    source = next((v.producer() for v in first.inputs if v is not None and constant(v) is None), None)
    user, last = only_user(end), end.producer()
    return (
        is_op(source, "Conv") and source is not None and affine_into_weights.scale_after(source) is first
    ) or (is_op(user, "Conv") and user is not None and affine_into_weights.scale_before(user) is last)


def _chains(scope: ir.Graph | ir.Function) -> list[_Chain]:
    chains: list[_Chain] = []
    within: set[ir.Value] = set()
    for node in scope:
        if not is_op(node, "Mul", "Add", "Sub", "Div") or any(
            v in within for v in node.inputs if v is not None
        ):
            continue
        chain = _chain(node)
        if chain is None or least_rank(chain.x) > 4:
            continue
        chains.append(chain)
        value: ir.Value | None = chain.x
        while value is not None and value is not chain.y:
            user = chain.first if value is chain.x else only_user(value)
            value = user.outputs[0] if user is not None else None
            if value is not None and value is not chain.y:
                within.add(value)
    return chains


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    editor = Editor(model)
    count, before = 0, -1
    # A new convolution may be where another chain begins.
    while before != count:
        before = count
        count += sum(_replace(editor, _chains(scope)) for scope, _ in scopes_of(model))
    if not count:
        why = "there is no per-channel scale or shift between two convolutions"
        return unchanged(why)
    what = f"Replaced scales and shifts with {amount(count, 'depthwise 1x1 convolution')}."
    return RewriteResult(modified=True, what=what)


def _replace(editor: Editor, chains: list[_Chain]) -> int:
    """Replace chains with depthwise 1x1 convolutions and return the number of replaced chains."""
    for chain in chains:
        node, channels = chain.first, len(chain.scale)
        name = node.name or chain.y.name or "affine"
        weight = chain.scale.astype(np.float32).reshape(-1, 1, 1, 1)
        inputs = [chain.x, editor.constant(node, f"{name}_scale", weight)]
        if chain.shift.any():
            inputs.append(editor.constant(node, f"{name}_shift", chain.shift.astype(np.float32)))
        attributes = [ir.AttrInt64s("kernel_shape", [1, 1]), ir.AttrInt64("group", channels)]
        editor.replace(chain.y, editor.node(node, "Conv", inputs, attributes, name=f"{name}_affine"))
    return len(chains)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    count = sum(len(_chains(scope)) for scope, _ in scopes_of(model))
    return (
        [({}, f"scales or shifts between convolutions force layout conversions ({count})")] if count else []
    )


REWRITE = Rewrite(
    name="affine-as-convolution",
    summary="turns scales and shifts between convolutions into depthwise 1x1 convolutions",
    safety="exact",
    stage=5,
    change=_change,
    proposes=_proposes,
)
