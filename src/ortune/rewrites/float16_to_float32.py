"""Converts a float16 model to float32 internally; inputs and outputs keep their types.

What it is: float16 weights, constants, casts and declared types become float32, including subgraphs and functions.
    Inputs and outputs keep their type, with a Cast after or before them.
Why it costs: ONNX Runtime's CPU provider has few float16 kernels. At every load it inserts Casts around the other
    nodes, removes most of them again, and converts the weights. A convolutional model took twice as long to load in
    float16, while its runs were equally fast. Remaining Casts cost time in every run.
Evidence: float16 weights; Casts that ONNX Runtime inserted into the optimised graph, and their share of the
    run in a profile.
Fix and its safety: numerics: sums are rounded less, and values beyond 65504 no longer become infinite. Weights take
    twice the memory.
Example: ``--rewrite float16-to-float32``
References: ONNX Runtime source, ``core/optimizer/insert_cast_transformer.cc``; IEEE 754, binary16.
"""

from __future__ import annotations

import onnx_ir as ir

from ortune.rewrites._base import Rewrite
from ortune.rewrites._to_float32 import ToFloat32

_CHANGE = ToFloat32(source=ir.DataType.FLOAT16, words="float16", why="for which the CPU has few kernels")

REWRITE = Rewrite(
    name="float16-to-float32",
    summary="converts float16 inside the model to float32",
    safety="numerics",
    stage=1,
    change=_CHANGE.change,
    proposes=_CHANGE.proposes,
)
