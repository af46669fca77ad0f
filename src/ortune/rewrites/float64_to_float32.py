"""Converts a float64 model to float32 internally; inputs and outputs keep their types.

What it is: float64 weights, constants, casts and declared types become float32, including subgraphs and functions.
    Inputs and outputs keep their type, with a Cast after or before them. Finite constants beyond the range of float32
    become its largest number.
Why it costs: float64 needs twice the memory and has half the values per vector instruction, and several operators
    have no float64 kernel (rule PRC002). Most such models use float64 only because it is NumPy's default type.
Evidence: float64 weights, constants and casts.
Fix and its safety: numerics: values keep 24 bits instead of 53. Integers above 16777216 that pass through float64 are
    rounded.
Example: ``--rewrite float64-to-float32``
References: ONNX Runtime documentation, "Operators and kernels", the types of each; IEEE 754, binary32.
"""

from __future__ import annotations

import onnx_ir as ir

from ortune.rewrites._base import Rewrite
from ortune.rewrites._to_float32 import ToFloat32

_CHANGE = ToFloat32(source=ir.DataType.DOUBLE, words="float64", why="which needs twice the memory of float32")

REWRITE = Rewrite(
    name="float64-to-float32",
    summary="converts float64 inside the model to float32",
    safety="numerics",
    stage=1,
    change=_CHANGE.change,
    proposes=_CHANGE.proposes,
)
