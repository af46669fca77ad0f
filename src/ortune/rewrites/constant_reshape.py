"""Replaces the computed target shape of a Reshape with a constant.

What it is: the target shape of a Reshape is assembled by Shape, Gather, Unsqueeze and Concat, although all sizes but
    one are numbers or unchanged. It becomes a constant, with 0 for an unchanged size and -1 for the inferred one.
Why it costs: a chain of five to ten tiny nodes before every Reshape, in each head of each layer, costs mostly
    overhead. ONNX Runtime simplifies such a chain only if it starts at the reshaped tensor itself; exporters often use
    the input of the layer.
Evidence: symbolic sizes, propagated from the model's inputs by shape inference: the same symbol is the same size.
Fix and its safety: exact: every Reshape returns the same result.
Example: ``--rewrite constant-reshape``
References: ONNX operators, "Reshape"; ONNX Runtime source, ``core/optimizer/reshape_fusion.cc``.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of, is_parameter
from ortune.graph.constants import constant
from ortune.graph.nodes import is_op
from ortune.rewrites._base import CLEAN_UP
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 5  # before it, the target shape of Reshape is an attribute


def _target_shape(node: ir.Node, look: PatternFacts) -> list[int] | str:
    """Return the constant target shape for a Reshape, or the reason that there is none ("" if already constant)."""
    if len(node.inputs) < 2 or node.inputs[1] is None or constant(node.inputs[1]) is not None:
        return ""
    zeros = is_parameter(node, "allowzero") or int_of(node, "allowzero", 0)
    if not all(is_op(use.node, "Reshape") and use.idx == 1 for use in node.inputs[1].uses()):
        return f"the target shape of Reshape {node.name!r} is also used by other nodes"
    asked, source = look.values.contents(node.inputs[1]), look.inferred(node.inputs[0]).dims
    if asked is None or zeros:
        return f"the rank of the target shape of Reshape {node.name!r} is unknown, or allowzero is set"
    sizes: list[int] = []
    for place, size in enumerate(asked):
        here = source[place] if source is not None and place < len(source) else None
        if isinstance(size, int):
            sizes.append(size)
        elif size is not None and size == here:
            sizes.append(0)
        else:
            # -2 marks an unknown size.
            sizes.append(-2)
    if -2 not in sizes:
        return sizes
    # The unknown size can be inferred (-1) only if all others are positive numbers.
    if sizes.count(-2) > 1 or min(sizes) < -2 or -1 in sizes or 0 in sizes:
        return f"more than one target size of Reshape {node.name!r} is unknown"
    return [-1 if size == -2 else size for size in sizes]


_Match = tuple[ir.Node, list[int]]
"""A Reshape, and its constant target shape."""


def _match(node: ir.Node, look: PatternFacts) -> _Match | str:
    asked = _target_shape(node, look)
    return asked if isinstance(asked, str) else (node, asked)


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    node, asked = match
    computed = node.inputs[1]
    sizes = editor.constant(node, f"{node.name or 'reshape'}_sizes", np.array(asked, np.int64))
    node.replace_input_with(1, sizes)
    editor.drop(computed)


PATTERN = Pattern(
    anchors=("Reshape",),
    match=_match,
    replace=_replace,
    made="Gave {n} {Reshape|Reshapes} a constant target shape.",
    proposed="{n} {Reshape computes|Reshapes compute}, in every run, a target shape that could be constant",
    none="every Reshape has a constant target shape",
    least_opset=_LEAST_OPSET,
    repeats=True,  # a constant target shape reveals sizes to later Reshapes
    counts_replaced=True,
)
REWRITE = PATTERN.rewrite(
    name="constant-reshape",
    summary="replaces computed target shapes of Reshape with constants",
    stage=CLEAN_UP,
)
