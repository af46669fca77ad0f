"""Weights contain denormal numbers, which some CPUs process slowly.

What it is: denormal numbers (closer to zero than 1.2e-38), which training with weight decay produces.
Why it costs: arithmetic on them is up to a hundred times slower on many CPUs. Others, such as AMD's Zen 5, do not slow
    down.
Evidence: the share of denormal numbers in each weight.
Fix and its safety: numerics: the setting set_denormal_as_zero, or zeros in the file.
Example: ``--set set_denormal_as_zero=1``
References: microsoft/onnxruntime#6865, #7448, #5472.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir

from ortune.catalogue.named import SET_DENORMAL_AS_ZERO
from ortune.catalogue.providers import CPU
from ortune.graph.model.graphs import parameters
from ortune.graph.model.tensors import pieces
from ortune.printable import amount
from ortune.records import Finding, Plan
from ortune.rules._words import listed, percent
from ortune.rules.facts import Facts

CODE = "PRC005"
TIER = "preview"

_SHARE = 0.001
_LEAST = 64


def _model(value: float) -> onnx.ModelProto:
    tensor = onnx.helper.make_tensor("bad_weights", onnx.TensorProto.FLOAT, [32, 32], [value] * 1024)
    sides = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 32]) for name in ("x", "y")]
    node = onnx.helper.make_node("MatMul", ["x", "bad_weights"], ["y"])
    graph = onnx.helper.make_graph([node], "g", sides[:1], sides[1:], [tensor])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def bad() -> onnx.ModelProto:
    """Return a model with weights of 1e-40."""
    return _model(1e-40)


def good() -> onnx.ModelProto:
    """Return a model with weights that are small but not denormal."""
    return _model(1e-30)


def find(facts: Facts) -> Iterator[Finding]:
    """Read all weights and yield a finding on float32 weights with denormal numbers, if the CPU runs the model."""
    if (
        facts.model is None
        or facts.target != CPU.target
        or facts.plan.settings.get(SET_DENORMAL_AS_ZERO.name)
    ):
        return
    shares = {
        t.name or "": _share(t)
        for t in parameters(facts.model.ir)
        if t.dtype == ir.DataType.FLOAT and t.size >= _LEAST
    }
    denormal = {name: share for name, share in shares.items() if share >= _SHARE}
    if denormal:
        yield Finding(
            code=CODE,
            what=f"{amount(len(denormal), 'weight')} {'contains' if len(denormal) == 1 else 'contain'} "
            f"denormal numbers, up to {percent(max(denormal.values()))} of a tensor: {listed(denormal)}",
            where=tuple(denormal),
            plan=Plan(settings={SET_DENORMAL_AS_ZERO.name: True}),
            safety="numerics",
        )


def _share(tensor: ir.TensorProtocol) -> float:
    """Return the fraction of denormal numbers in a float32 tensor."""
    # The exponent is zero and the mantissa is not.
    n_denormal = sum(
        int(np.count_nonzero(((bits & 0x7F800000) == 0) & ((bits & 0x007FFFFF) != 0)))
        for bits in (numbers.view(np.uint32) for numbers in pieces(tensor))
    )
    return n_denormal / tensor.size
