"""What the rewrites by tools for whole graphs have in common: which models they are not given."""

from __future__ import annotations

import onnx_ir as ir

from ortune.rewrites._marks import made_by

_LARGEST_BYTES = 1 << 31  # these tools hold a model in one protobuf


def refuses(model: ir.Model, name: str) -> tuple[str, ...]:
    """Why a tool is not asked; empty where it is."""
    if name in made_by(model):
        return ("the model went through this tool already",)
    held = sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)
    if held >= _LARGEST_BYTES:
        return (f"the weights are {held / 1e9:.1f} GB, and the tool holds at most 2",)
    return ()
