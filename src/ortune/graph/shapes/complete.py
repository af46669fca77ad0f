"""Shapes and types of a model's values, those of ONNX Runtime's own operators and of what follows them included."""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.model.garbage import without_collection
from ortune.graph.shapes.known import InferredShape, Values, known_values
from ortune.graph.shapes.operators import visit
from ortune.graph.shapes.symbols import size_of
from ortune.graph.shapes.types import output_types
from ortune.graph.shapes.walk import Walk


@without_collection()
def complete_values(model: ir.Model) -> Values:
    """Infer shapes with onnx, and the remaining ones with a walk that supports ONNX Runtime's own operators."""
    values = known_values(model)
    walk = Walk(keep=lambda _: 0, defaults=False, soft=True)
    for value in model.graph.inputs:
        walk.shapes[value] = tuple(size_of(dim, "") for dim in value.shape or ())
    for node in model.graph:
        visit(walk, node)
        opset = node.version or model.opset_imports.get(node.domain, 1)
        types = output_types(node, [values.inferred(value).dtype for value in node.inputs], opset)
        for value, dtype in zip(node.outputs, types, strict=True):
            inferred, walked = values.inferred(value), walk.shape(value)
            dims = inferred.dims
            if walked is not None and (dims is None or len(dims) == len(walked)):
                numbers = tuple(dim.value if dim is not None else None for dim in walked)
                dims = numbers if dims is None else tuple(map(_either, dims, numbers))
            values[value] = InferredShape(dtype=inferred.dtype or dtype, dims=dims)
    return values


def _either(inferred: int | str | None, walked: int | None) -> int | str | None:
    return inferred if isinstance(inferred, int) or walked is None else walked
