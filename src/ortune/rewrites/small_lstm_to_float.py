"""Replaces a small LSTM that is quantized dynamically with a float32 LSTM.

What it is: DynamicQuantizeLSTM with a hidden size of 32 or less becomes LSTM. Its 8-bit weights become float32.
Why it costs: in every step the state is quantized, and the product is converted back to float. For a few elements,
    both conversions take longer than the 8-bit product saves.
Evidence: the hidden size. On an AVX2 CPU without VNNI, with batch size 1 and hidden sizes 8 to 32, float32 LSTMs took
    0.76 to 0.85 times the CPU time (ONNX Runtime 1.32). At hidden sizes of 64 and above, the quantized LSTMs
    took less time.
Fix and its safety: numerics: the same weights, without the rounding of inputs and states. The weights take four times
    the memory, at most 32 KiB for the recurrent weights.
Example: ``--rewrite small-lstm-to-float``
References: ONNX Runtime contrib operators, "DynamicQuantizeLSTM"; ONNX operators, "LSTM".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.catalogue import providers
from ortune.graph.attributes import int_of
from ortune.graph.constants import Array, constant
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import input_of, operator
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

MOST_HIDDEN = 32
"""Largest hidden size at which an LSTM is faster in float32."""

_LSTM_INPUTS = 8  # inputs shared with LSTM; scales and zero points follow
_WEIGHTS = {1: (8, 9), 2: (10, 11)}
"""Maps the input position of weights to the positions of their scales and zero points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallLSTM:
    """A DynamicQuantizeLSTM with a small state, and its float32 weights in LSTM's layout, keyed by input position."""

    node: ir.Node
    weights: Mapping[int, Array]


def small_ones(model: ir.Model) -> tuple[list[SmallLSTM], list[str]]:
    """Return (LSTMs that would be faster in float32, reasons that other LSTMs stay)."""
    matches, reasons = list[SmallLSTM](), list[str]()
    for node in nodes(model):
        if operator(node) != "com.microsoft:DynamicQuantizeLSTM":
            continue
        match = _match(node)
        if isinstance(match, SmallLSTM):
            matches.append(match)
        else:
            reasons.append(f"DynamicQuantizeLSTM {node.name!r} {match}")
    return matches, reasons


def _match(node: ir.Node) -> SmallLSTM | str:
    hidden = int_of(node, "hidden_size", 0)
    if not 0 < hidden <= MOST_HIDDEN:
        return f"has a hidden size of {hidden}, and LSTMs above {MOST_HIDDEN} are faster in 8 bits"
    weights = {place: _in_float(node, place, *of) for place, of in _WEIGHTS.items()}
    floats = {place: array for place, array in weights.items() if array is not None}
    return (
        SmallLSTM(node=node, weights=floats)
        if len(floats) == len(weights)
        else "has weights that are not constant"
    )


def _in_float(node: ir.Node, place: int, scale_place: int, zero_place: int) -> Array | None:
    """Return the dequantized weights in LSTM's layout (directions, gates, inputs); None if they are not constant."""
    weights, scale, zero = (constant(input_of(node, i)) for i in (place, scale_place, zero_place))
    if weights is None or scale is None or zero is None or weights.ndim != 3:
        return None
    # One number per direction, or one per direction and gate.
    scale, zero = (array.reshape(array.shape[0], 1, -1) for array in (scale, zero))
    floats = (weights.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)
    return np.ascontiguousarray(floats.transpose(0, 2, 1), np.float32)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    matches, reasons = small_ones(model)
    if not matches:
        return unchanged(*(reasons or ("the model has no DynamicQuantizeLSTM",)))
    editor = Editor(model)
    for match in matches:
        _replace(editor, match)
    what = f"Converted {len(matches)} quantized {'LSTM' if len(matches) == 1 else 'LSTMs'} to float32."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _replace(editor: Editor, match: SmallLSTM) -> None:
    node, name = match.node, match.node.name or "lstm"
    inputs = list(node.inputs[:_LSTM_INPUTS])
    for place, array in match.weights.items():
        inputs[place] = editor.constant(node, f"{name}_{'input' if place == 1 else 'state'}_weights", array)
    while inputs and inputs[-1] is None:
        inputs.pop()
    new = editor.outputs(
        node, "LSTM", inputs, list(node.attributes.values()), name=f"{name}_float", count=len(node.outputs)
    )
    for old, value in zip(node.outputs, new, strict=True):
        if old.uses() or old.is_graph_output():
            editor.replace(old, value)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    matches, _ = small_ones(model)
    if not matches:
        return []
    verb = "LSTM is" if len(matches) == 1 else "LSTMs are"
    return [({}, f"{len(matches)} small {verb} quantized in every step")]


REWRITE = Rewrite(
    name="small-lstm-to-float",
    summary="computes a small, dynamically quantized LSTM in float32",
    safety="numerics",
    targets=providers.target_names(lambda p: p.cpu_kernels),
    stage=4,
    change=_change,
    proposes=_proposes,
)
