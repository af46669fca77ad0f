"""What a model's values are while it runs: on given inputs, one after another."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List

from .graph_tools import is_large
from .protocol import Stop


def tapped(
    ort: Any, onnx: Any, model: Any, names: List[str], request: Dict[str, Any]
) -> Iterator[Dict[str, Any]]:
    """The values of these names for each input of a request; the model is changed by that.

    They are outputs of the session, so no fusion takes them away.
    """
    from . import values

    fed = {value.name for value in model.graph.input}
    there = fed | {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    path = request["output"] + ".taps.onnx"
    outside = is_large(model)
    onnx.save(model, path, save_as_external_data=outside, location=os.path.basename(path) + ".data")
    options = ort.SessionOptions()
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for feed in request["feeds"]:
        arrays, needs_ort_values = values.read_feeds(feed["path"])
        if needs_ort_values:
            raise Stop("unsupported", "calibration supports numpy types only, not bfloat16 or float8")
        # One input at a time: what all of them leave inside a network is more than memory holds.
        computed = [name for name in names if name not in fed]
        results = dict(zip(computed, session.run(computed, arrays)))
        yield {name: results[name] if name in results else arrays[name] for name in names}
    for name in (path, path + ".data"):
        if os.path.exists(name):
            os.remove(name)


def constants(onnx: Any, graph: Any) -> Dict[str, Any]:
    """The arrays of a graph's weights and constants by name, without weights that a caller may feed."""
    fed = {value.name for value in graph.input}
    arrays = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.name not in fed
    }
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            arrays[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    return arrays


def attribute(onnx: Any, node: Any, name: str, usual: Any) -> Any:
    """An attribute's value, or the usual one."""
    for entry in node.attribute:
        if entry.name == name:
            return onnx.helper.get_attribute_value(entry)
    return usual
