"""Gives a Reshape constant sizes where it computes them at every call.

What it is: the sizes that a Reshape is asked for are put together by Shape, Gather, Unsqueeze and Concat, though each
    but one is a number, or is a size that the tensor has in this very place. They become a constant: 0 for what stays
    in its place, -1 for the one that follows from the others.
Why it costs: a chain of five to ten tiny nodes before every Reshape, in each head of each layer: their time is that of
    starting them. ONNX Runtime sees through such a chain where it begins at the reshaped tensor itself; exporters often
    ask the input of the layer for its sizes.
Evidence: sizes as symbols, followed from the model's inputs by shape inference: the same symbol is the same size.
Fix and its safety: exact: every Reshape gives what it gave.
Example: ``--rewrite constant-reshape``
References: ONNX operators, "Reshape"; ONNX Runtime source, ``core/optimizer/reshape_fusion.cc``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import has_parameters, int_of, is_parameter, optional_int
from ortune.graph.constants import constant
from ortune.graph.nodes import is_op
from ortune.graph.shapes.known import Dims, Known
from ortune.rewrites._base import CLEAN_UP
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Look, Pattern

_LEAST_OPSET = 5  # Reshape has its sizes as an attribute before
_DEPTH = 32
_SAME = ("Unsqueeze", "Squeeze", "Cast", "Identity")
"""What changes the shape or the type of sizes, not what they are."""


class _Sizes:
    """Follows sizes through what computes with them."""

    def __init__(self, known: Mapping[ir.Value, Known]) -> None:
        self._known = known

    def dims(self, value: ir.Value | None) -> Dims | None:
        """The sizes of a value."""
        known = self._known.get(value) if value is not None else None
        return known.dims if known is not None else None

    def held(self, value: ir.Value | None, depth: int = _DEPTH) -> Dims | None:  # noqa: PLR0911  (one a case)
        """The sizes that a value holds, in order; None where not even their number is known."""
        numbers = constant(value)
        if numbers is not None:
            whole = numbers.dtype.kind in "iu"
            return tuple(int(n) for n in numbers.reshape(-1)) if whole else None
        node = value.producer() if value is not None else None
        if node is None or depth == 0 or has_parameters(node):
            return None
        if is_op(node, *_SAME):
            to = self._known.get(node.outputs[0], Known()).dtype
            # Through a type of fewer digits a size might not come back as it was.
            whole = to in (ir.DataType.INT64, ir.DataType.INT32)
            return self.held(node.inputs[0], depth - 1) if whole else self._unknown(value)
        if is_op(node, "Shape"):
            dims = self.dims(node.inputs[0])
            cut = slice(optional_int(node, "start"), optional_int(node, "end"))
            return dims[cut] if dims is not None else self._unknown(value)
        if is_op(node, "Concat"):
            parts = [self.held(v, depth - 1) for v in node.inputs]
            return None if None in parts else tuple(n for part in parts if part is not None for n in part)
        if is_op(node, "Gather", "Slice"):
            return self._picked(node, depth) or self._unknown(value)
        return self._unknown(value)

    def _picked(self, node: ir.Node, depth: int) -> Dims | None:
        given = self.held(node.inputs[0], depth - 1)
        dims = self.dims(node.inputs[0])
        if given is None or dims is None or len(dims) != 1:
            return None
        if is_op(node, "Gather"):
            places = constant(node.inputs[1])
            if places is None or (np.abs(places) > len(given)).any() or (places == len(given)).any():
                return None
            return tuple(given[int(place)] for place in places.reshape(-1))
        bounds = [constant(v) for v in node.inputs[1:3]]
        steps = (
            constant(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else np.ones(1)
        )
        if (
            len(bounds) < 2
            or any(b is None or b.size != 1 for b in bounds)
            or steps is None
            or steps.size != 1
        ):
            return None
        low, high = (int(b.reshape(())) for b in bounds if b is not None)
        return given[low:high] if int(steps.reshape(())) == 1 else None

    def _unknown(self, value: ir.Value | None) -> Dims | None:
        dims = self.dims(value)
        if dims is None or len(dims) > 1:
            return None
        count = dims[0] if dims else 1
        return (None,) * count if isinstance(count, int) and count < _DEPTH else None


def _asked(node: ir.Node, sizes: _Sizes) -> list[int] | str:
    """The constant that a Reshape can be given; why not; or "" where it has one."""
    if len(node.inputs) < 2 or node.inputs[1] is None or constant(node.inputs[1]) is not None:
        return ""
    zeros = is_parameter(node, "allowzero") or int_of(node, "allowzero", 0)
    if not all(is_op(use.node, "Reshape") and use.idx == 1 for use in node.inputs[1].uses()):
        return f"others than a Reshape use the sizes that Reshape {node.name!r} is asked for"
    asked, given = sizes.held(node.inputs[1]), sizes.dims(node.inputs[0])
    if asked is None or zeros:
        return f"how many sizes Reshape {node.name!r} is asked for is not known, or 0 means empty"
    made: list[int] = []
    for place, size in enumerate(asked):
        here = given[place] if given is not None and place < len(given) else None
        if isinstance(size, int):
            made.append(size)
        elif size is not None and size == here:
            made.append(0)
        else:
            made.append(-2)
    if -2 not in made:
        return made
    # Of an empty tensor what remains does not follow, unless the others are numbers.
    if made.count(-2) > 1 or min(made) < -2 or -1 in made or 0 in made:
        return f"more than one size that Reshape {node.name!r} is asked for is not known, or one beside others that are"
    return [-1 if size == -2 else size for size in made]


_Match = tuple[ir.Node, list[int]]
"""A Reshape, and the constant that it can be given."""


def _match(node: ir.Node, look: Look) -> _Match | str:
    asked = _asked(node, _Sizes(look.values))
    return asked if isinstance(asked, str) else (node, asked)


def _replace(editor: Editor, match: _Match, look: Look) -> None:
    node, asked = match
    computed = node.inputs[1]
    sizes = editor.constant(node, f"{node.name or 'reshape'}_sizes", np.array(asked, np.int64))
    node.replace_input_with(1, sizes)
    editor.drop(computed)


PATTERN = Pattern(
    anchors=("Reshape",),
    match=_match,
    replace=_replace,
    made="Gave {n} {Reshape|Reshapes} constant sizes.",
    proposed="{n} {Reshape computes|Reshapes compute} sizes at every call that could be constants",
    none="every Reshape has constant sizes",
    least_opset=_LEAST_OPSET,
    repeats=True,  # what one is given tells sizes to those behind it
    counts_replaced=True,
)
REWRITE = PATTERN.rewrite(
    name="constant-reshape",
    summary="sizes that a Reshape computes at every call become constants",
    stage=CLEAN_UP,
)
