"""Rewrites a nearest Resize with integer scale factors in the form that phones support.

What it is: Resize with ``mode=nearest``, integer factors and ``coordinate_transformation_mode=half_pixel`` (the
    default) or ``pytorch_half_pixel`` repeats each element. With ``asymmetric`` and ``nearest_mode=floor`` it repeats
    the same ones.
Why it costs: NNAPI and CoreML support a nearest Resize only with ``asymmetric`` and ``floor``. Any other Resize splits
    the model into one more region.
Evidence: Resize among the nodes that ``ortune partition`` leaves on the CPU.
Fix and its safety: exact: the same elements.
Example: ``--rewrite resize-asymmetric``
References: ONNX operators, "Resize".
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortune.catalogue.providers import COREML, NNAPI
from ortune.graph.attributes import has_parameters, text_of
from ortune.graph.constants import constant
from ortune.graph.nodes import input_of
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 11
_CENTRED = ("half_pixel", "pytorch_half_pixel")
_ROUNDED = ("round_prefer_floor", "round_prefer_ceil")
"""For integer factors, no coordinate is half-way between two elements, so these rounding modes agree."""


def _match(node: ir.Node, look: PatternFacts) -> ir.Node | str:
    if has_parameters(node) or text_of(node, "mode", "nearest") != "nearest":
        return ""
    mode = text_of(node, "coordinate_transformation_mode", "half_pixel")
    if mode not in _CENTRED:
        return ""
    if text_of(node, "nearest_mode", "round_prefer_floor") not in _ROUNDED:
        return f"Resize {node.name!r} always rounds in one direction"
    factors = _factors(node, look)
    if factors is None or not factors.size:
        return f"the scale factors of Resize {node.name!r} are unknown"
    if (factors < 1).any() or (factors != factors.round()).any():
        return f"a scale factor of Resize {node.name!r} is not an integer"
    return node


def _factors(node: ir.Node, look: PatternFacts) -> np.ndarray | None:
    scales = constant(input_of(node, 2))
    if scales is not None and scales.size:
        return scales
    after, before = constant(input_of(node, 3)), look.values.sizes(node.inputs[0])
    if after is None or before is None or len(before) != after.size or None in before or 0 in before:
        return None
    return np.asarray([int(new) / (old or 1) for new, old in zip(after, before, strict=True)])


def _replace(editor: Editor, node: ir.Node, look: PatternFacts) -> None:
    attributes = [
        attribute
        for name, attribute in node.attributes.items()
        if name not in ("coordinate_transformation_mode", "nearest_mode")
    ]
    attributes.append(ir.AttrString("coordinate_transformation_mode", "asymmetric"))
    attributes.append(ir.AttrString("nearest_mode", "floor"))
    resized = editor.node(
        node, "Resize", list(node.inputs), attributes, name=f"{node.name or 'resize'}_nearest"
    )
    look.values[resized] = look.inferred(node.outputs[0])
    editor.replace(node.outputs[0], resized)


PATTERN = Pattern(
    anchors=("Resize",),
    match=_match,
    replace=_replace,
    made="Set {n} nearest Resize {node|nodes} to asymmetric coordinates.",
    proposed="{n} nearest Resize {node repeats|nodes repeat} each element an integer number of times",
    none="no nearest Resize with integer scale factors uses half-pixel coordinates",
    least_opset=_LEAST_OPSET,
)
REWRITE = PATTERN.rewrite(
    name="resize-asymmetric",
    summary="a nearest Resize with integer scale factors gets asymmetric coordinates, for NNAPI and CoreML",
    stage=7,
    targets=(NNAPI.target, COREML.target),
)
