"""Small models, written as ONNX text: what a test is about stands in it, and nothing else has to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import onnx.parser
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Weights: TypeAlias = Mapping[str, NDArray[np.generic]] | Iterable[onnx.TensorProto]
Sides: TypeAlias = str | Iterable[onnx.ValueInfoProto]


def model_of(
    text: str,
    opset: int = 17,
    weights: Weights = (),
    *,
    ir_version: int = 8,
    contrib: bool = False,
) -> onnx.ModelProto:
    """A model from the text of its graph.

    Args:
        text: ``g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }``; ONNX describes the syntax in ``docs/Syntax.md``.
        opset: Of the standard operators.
        weights: Initializers beside those that the text has.
        ir_version: Of the file.
        contrib: ONNX Runtime's own operators may be in it.
    """
    opsets = f'"" : {opset}' + (', "com.microsoft" : 1' if contrib else "")
    proto = onnx.parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{opsets}]>\n{text}")
    proto.graph.initializer.extend(_tensors(weights))
    return proto


def assemble(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sides,
    outputs: Sides,
    weights: Weights = (),
    *,
    opset: int = 17,
    ir_version: int = 8,
    opsets: Mapping[str, int] | None = None,
    functions: Iterable[onnx.FunctionProto] = (),
    name: str = "g",
) -> onnx.ModelProto:
    """A model whose nodes are made in a loop, or by cases.

    Args:
        nodes: In their order.
        inputs: As text (``float[n,3] x, int64[2] y``; ``float[]`` has no shape), or as values.
        outputs: As the inputs.
        weights: Initializers.
        opset: Of the standard operators.
        ir_version: Of the file.
        opsets: Of other domains.
        functions: Of the model itself.
        name: Of the graph: a file with another one is another model, for which a simulated machine has another noise.
    """
    graph = helper.make_graph(nodes, name, _values(inputs), _values(outputs), list(_tensors(weights)))
    imports = [helper.make_opsetid(*pair) for pair in {"": opset, **(opsets or {})}.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=list(functions))


def dims(shape: Iterable[int | str | None]) -> str:
    """A shape as it stands between brackets: ``2,n,?``."""
    return ",".join("?" if size is None else str(size) for size in shape)


def saved(path: Path, proto: onnx.ModelProto) -> Path:
    """The path, once the model is there."""
    onnx.save(proto, path)
    return path


def _tensors(weights: Weights) -> Iterable[onnx.TensorProto]:
    if not isinstance(weights, Mapping):
        return weights
    return (numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items())


def _values(sides: Sides) -> list[onnx.ValueInfoProto]:
    if not isinstance(sides, str):
        return list(sides)
    return list(onnx.parser.parse_graph(f"g ({sides}) => () {{}}").input)
