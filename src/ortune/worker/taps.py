"""Intermediate values of a model during runs on given inputs; and copies of models with their weights."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, Iterator, List

import numpy as np

from .graph_tools import is_large, stored_tensors
from .protocol import Stop


def tapped(
    ort: Any, onnx: Any, model: Any, names: List[str], request: Dict[str, Any]
) -> Iterator[Dict[str, Any]]:
    """Yield the named values for each input of a request; the model's outputs are extended.

    They become outputs of the session, so no fusion removes them. External weights next to the request's model need not
    be loaded.
    """
    from . import values

    fed = {value.name for value in model.graph.input}
    there = fed | {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    folder = request["output"] + ".taps"
    os.mkdir(folder)
    path = os.path.join(folder, "taps.onnx")
    beside = {location_of(tensor) for tensor in stored_tensors(model.graph)} - {""}
    if beside:
        for location in beside:
            _link(os.path.join(os.path.dirname(request["model"]), location), os.path.join(folder, location))
        onnx.save(model, path)
    else:
        onnx.save(model, path, save_as_external_data=is_large(model), location="taps.data")
    options = ort.SessionOptions()
    # Weights are read from the mapped file; packing them for products would copy them into memory.
    options.add_session_config_entry("session.disable_prepacking", "1")
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for feed in request["feeds"]:
        arrays, needs_ort_values = values.read_feeds(feed["path"])
        if needs_ort_values:
            raise Stop("unsupported", "calibration supports numpy types only, not bfloat16 or float8")
        # One input at a time, since the intermediate values of all inputs would exceed the memory.
        computed = [name for name in names if name not in fed]
        results = dict(zip(computed, session.run(computed, arrays)))
        yield {name: results[name] if name in results else arrays[name] for name in names}
    del session
    shutil.rmtree(folder, ignore_errors=True)


def _link(source: str, goal: str) -> None:
    os.makedirs(os.path.dirname(goal), exist_ok=True)
    try:
        os.link(source, goal)
    except OSError:  # a file system without links, or another one
        shutil.copyfile(source, goal)


def copied(path: str, model: Any) -> str:
    """Copy a model and its external data to this process's own folder; return the copy's path.

    ONNX Runtime's quantizers and its ORT-format converter write next to the model, which a confined process may not do.
    """
    folder = os.path.join(os.getcwd(), "source")
    copy = os.path.join(folder, os.path.basename(path))
    locations = {location_of(tensor) for tensor in stored_tensors(model.graph)} - {""}
    goals = {
        path: copy,
        **{os.path.join(os.path.dirname(path), name): os.path.join(folder, name) for name in locations},
    }
    for source, goal in goals.items():
        os.makedirs(os.path.dirname(goal), exist_ok=True)
        shutil.copyfile(source, goal)
    return copy


def location_of(tensor: Any) -> str:
    """Return the file of a weight that is external data of the model and was not loaded; "" for any other.

    Raises:
        Stop: The path is not below the model's folder.
    """
    if tensor.data_location != tensor.EXTERNAL or tensor.HasField("raw_data"):
        return ""
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    if not location or os.path.isabs(location) or ".." in location.replace("\\", "/").split("/"):
        raise Stop("unsupported", "weights are in %r, which is not below the model's folder" % location)
    return location


def constants(onnx: Any, graph: Any, folder: str = "") -> Dict[str, Any]:
    """Return the arrays of a graph's weights and constants by name, except weights that a caller may feed.

    Args:
        onnx: The package.
        graph: The graph; external weights are mapped.
        folder: Folder of the model, for external weights.
    """
    fed = {value.name for value in graph.input}
    arrays = {
        tensor.name: _array(onnx, tensor, folder) for tensor in graph.initializer if tensor.name not in fed
    }
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            arrays[node.output[0]] = _array(onnx, node.attribute[0].t, folder)
    return arrays


def _array(onnx: Any, tensor: Any, folder: str) -> Any:
    location = location_of(tensor)
    if not location:
        return onnx.numpy_helper.to_array(tensor)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_type != tensor.FLOAT:
        return onnx.numpy_helper.to_array(tensor, folder)
    offset, shape = int(entries.get("offset", 0)), tuple(tensor.dims)
    if not all(shape):
        return np.zeros(shape, np.float32)
    return np.memmap(os.path.join(folder, location), np.float32, "r", offset, shape)


def attribute(onnx: Any, node: Any, name: str, usual: Any) -> Any:
    """Return an attribute's value, or the default."""
    for entry in node.attribute:
        if entry.name == name:
            return onnx.helper.get_attribute_value(entry)
    return usual
