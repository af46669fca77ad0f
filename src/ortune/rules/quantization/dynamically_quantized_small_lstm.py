"""A small LSTM is quantized dynamically, which takes longer than it saves.

What it is: DynamicQuantizeLSTM with a hidden size of 32 or less, the result of dynamic quantization of an LSTM.
Why it costs: every step computes the range of the state, quantizes the state and converts the product back to float.
    For a few elements this takes longer than the 8-bit product saves.
Evidence: the hidden size. On one AVX2 core without VNNI, at batch size 1 and hidden sizes 8 to 32, the quantized LSTM
    took 1.2 to 1.3 times the CPU time of float32 (ONNX Runtime 1.32). At hidden sizes of 64 and above it took less
    time than in float32, so this rule reports nothing there.
Fix and its safety: numerics: the rewrite ``small-lstm-to-float``, which keeps the weights and omits the rounding of
    inputs and states.
Example: ``quantize_dynamic(..., op_types_to_quantize=["MatMul"])`` leaves LSTMs in float32
References: ONNX Runtime contrib operators, "DynamicQuantizeLSTM"; microsoft/onnxruntime#5747.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortune.graph.model.graphs import name_of
from ortune.records import Finding
from ortune.rewrites.small_lstm_to_float import MOST_HIDDEN, REWRITE, small_ones
from ortune.rules._fixes import with_fix
from ortune.rules._words import counted
from ortune.rules.facts import Facts

CODE = "QNT016"


def _model(hidden: int, name: str) -> onnx.ModelProto:
    weights: dict[str, np.ndarray] = {
        "w": np.ones((1, 4, 4 * hidden), np.int8), "r": np.ones((1, hidden, 4 * hidden), np.int8),
        "s": np.ones(1, np.float32), "z": np.zeros(1, np.int8),
    }  # fmt: skip
    inputs = ["x", "w", "r", "", "", "", "", "", "s", "z", "s", "z"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", inputs, ["y"], name, domain="com.microsoft", hidden_size=hidden
    )
    sides = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 1, 4]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 1, 1, hidden]),
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "steps", sides[:1], sides[1:], initializers)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def bad() -> onnx.ModelProto:
    """Return a model with a hidden size of 16."""
    return _model(16, "bad_lstm")


def good() -> onnx.ModelProto:
    """Return a model with a hidden size of 64, which is faster in 8 bits."""
    return _model(64, "lstm")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on small quantized LSTMs, if a CPU runs the model."""
    if facts.model is None or not facts.provider.cpu_kernels:
        return
    small = [match.node for match in small_ones(facts.model.ir)[0]]
    if small:
        finding = Finding(
            code=CODE,
            what=f"LSTMs with a hidden size of at most {MOST_HIDDEN} are quantized in every step: {counted(small)}",
            where=tuple(map(name_of, small)),
        )
        yield with_fix(REWRITE, finding, facts)
