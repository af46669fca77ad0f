"""Costs of RNN, GRU and LSTM, for each sequence's own length, or for the whole input if the lengths are unknown."""

from __future__ import annotations

import numpy as np

from ortune.graph.cost.activations import PER_ELEMENT
from ortune.graph.cost.call import Call, Count, Formula, Uncounted
from ortune.graph.model.graphs import op_set

RECURRENT = op_set("RNN GRU LSTM")
_LENGTHS = 4
"""Index of the input ``sequence_lens``; steps after a sequence's end are not computed."""
_SIGMOID, _TANH = PER_ELEMENT["Sigmoid"], PER_ELEMENT["Tanh"]


def _recurrent(call: Call, *, gates: int, rest: int) -> Count:
    """Count ``gates`` matrix products with input and state each, and ``rest`` other operations per hidden element."""
    length, batch, width = (call.dim(0, axis) for axis in range(3))
    if call.int("layout"):
        length, batch = batch, length
    steps, note = length * batch, ""
    if call.has(_LENGTHS):
        lengths = call.values.get(_LENGTHS)
        if lengths is None or lengths.size != batch:
            note = f"at most: sequence_lens is not known, and all {length} steps are counted"
        else:
            steps = int(np.clip(lengths, 0, length).sum())
    hidden, bias = call.int("hidden_size") or call.dim(2, 2), call.has(3)
    directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
    if hidden < 1:
        raise Uncounted("the size of the hidden state is unknown")
    cells = steps * directions
    # An LSTM has 4 gates: 10 steps of width 64 with a state of 128 are 10 x 4 x 128 x (64 + 128) = 983,040.
    macs = cells * gates * hidden * (width + hidden)
    flops = 2 * macs + cells * hidden * (gates * (1 + bias) + rest)
    return Count(flops=flops, macs=macs, note=note)


# Three sigmoid gates, one tanh; the cell (3), its tanh and the output (1); peepholes (6).
_LSTM_REST = 3 * _SIGMOID + 2 * _TANH + 3 + 1


def lstm(call: Call) -> Count:
    """Count an LSTM, including peepholes if present."""
    return _recurrent(call, gates=4, rest=_LSTM_REST + 6 * call.has(7))


# Two sigmoid gates, one tanh; the previous state is reset (1) and mixed with the new one (4).
_GRU_REST = 2 * _SIGMOID + _TANH + 1 + 4

FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        "RNN": lambda call: _recurrent(call, gates=1, rest=_TANH),
        "GRU": lambda call: _recurrent(call, gates=3, rest=_GRU_REST),
        "LSTM": lstm,
    },
    "com.microsoft": {"DynamicQuantizeLSTM": lstm},
}
