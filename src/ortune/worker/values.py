"""Feeds and outputs as folders of ``.npy`` files with an index; never a pickle.

Types that numpy lacks travel as bits: bfloat16 as uint16, float8 as uint8, with the ONNX type in the index.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Tuple

import numpy as np

from .protocol import Stop

# ONNX TensorProto.DataType of the types that numpy lacks.
BIT_TYPES = {
    "bfloat16": 16,
    "float8e4m3fn": 17,
    "float8e4m3fnuz": 18,
    "float8e5m2": 19,
    "float8e5m2fnuz": 20,
    "uint4": 21,
    "int4": 22,
}


def read_feeds(folder: str) -> Tuple[Dict[str, Any], bool]:
    """Read the feeds of one case; the flag is whether a value needs ONNX Runtime's own value type."""
    entries = _index(folder, "feeds")
    needs_ort_values = any(e["kind"] == "tensor" and e["onnx_type"] in BIT_TYPES for e in entries)
    return {entry["name"]: _value(folder, entry) for entry in entries}, needs_ort_values


def read_outputs(folder: str) -> Dict[str, Any]:
    """Read the outputs of ``write_outputs``: arrays, lists of arrays, and maps."""
    return {entry["name"]: _value(folder, entry) for entry in _index(folder, "outputs")}


def _index(folder: str, what: str) -> List[Dict[str, Any]]:
    with open(os.path.join(folder, what + ".json"), encoding="utf-8") as f:
        entries: List[Dict[str, Any]] = json.load(f)[what]
    return entries


def _value(folder: str, entry: Dict[str, Any]) -> Any:
    paths = [os.path.join(folder, name) for name in entry["files"]]
    if entry["kind"] == "none":
        return None
    if entry["kind"] == "json":
        with open(paths[0], encoding="utf-8") as f:
            return json.load(f)
    arrays = [_load(path, entry) for path in paths]
    return arrays if entry["kind"] == "sequence" else arrays[0]


def bit_types(folder: str) -> Dict[str, int]:
    """Return the ONNX element type numbers by input name, for inputs that are stored as bits."""
    entries = _index(folder, "feeds")
    return {e["name"]: BIT_TYPES[e["onnx_type"]] for e in entries if e["onnx_type"] in BIT_TYPES}


def _load(path: str, entry: Dict[str, Any]) -> Any:
    array = np.load(path, allow_pickle=False)
    # ONNX Runtime takes strings as an object array only.
    return array.astype(object) if entry["onnx_type"] == "string" else array


def shifted(feeds: Dict[str, Any]) -> Dict[str, Any]:
    """Return other feeds of the same shapes, types and ranges, by shifting the elements."""
    return {name: np.ascontiguousarray(np.roll(value, 1)) for name, value in feeds.items()}


def as_ort_values(ort: Any, feeds: Dict[str, Any], bits: Dict[str, int]) -> Dict[str, Any]:
    """Return the feeds as OrtValues, for models with inputs of types that numpy lacks."""
    values: Dict[str, Any] = {}
    for name, value in feeds.items():
        if name in bits:
            make = getattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type", None)
            if make is None:
                raise Stop(
                    "unsupported",
                    "onnxruntime %s does not accept the type of input %r" % (ort.__version__, name),
                )
            values[name] = make(value, bits[name])
        elif isinstance(value, np.ndarray):
            values[name] = ort.OrtValue.ortvalue_from_numpy(value)
        else:
            raise Stop("unsupported", "input %r cannot be combined with a bfloat16 or float8 input" % name)
    return values


def shapes(outputs: List[Any]) -> List[List[int]]:
    """Return the shape of every output; a sequence or map has one dimension, its length."""
    sizes = []
    for value in outputs:
        value = _plain(value)
        if isinstance(value, np.ndarray):
            sizes.append(list(value.shape))
        else:
            sizes.append([len(value)] if value is not None else [])
    return sizes


def write_outputs(folder: str, names: List[str], types: List[str], outputs: List[Any]) -> None:
    """Write the outputs and ``outputs.json`` into a new folder."""
    os.makedirs(folder, exist_ok=True)
    index = []
    for i, (name, onnx_type, value) in enumerate(zip(names, types, outputs)):
        element = _element(onnx_type)
        value = _plain(value)
        entry: Dict[str, Any] = {"name": name, "onnx_type": element, "files": []}
        if value is None:
            entry["kind"] = "none"
        elif isinstance(value, np.ndarray):
            entry["kind"] = "tensor"
            entry["files"] = [_save(folder, "%d.npy" % i, value)]
        elif isinstance(value, list) and all(isinstance(v, np.ndarray) for v in value):
            entry["kind"] = "sequence"
            entry["files"] = [_save(folder, "%d-%d.npy" % (i, j), v) for j, v in enumerate(value)]
        else:
            entry["kind"] = "json"
            entry["files"] = ["%d.json" % i]
            with open(os.path.join(folder, "%d.json" % i), "w", encoding="utf-8") as f:
                json.dump(value, f, default=_scalar)
        index.append(entry)
    with open(os.path.join(folder, "outputs.json"), "w", encoding="utf-8") as f:
        json.dump({"version": 1, "outputs": index}, f)


def _plain(value: Any) -> Any:
    """Return tensors, numpy scalars and elements of lists as arrays; lists of dicts and other values unchanged."""
    if hasattr(value, "numpy") and hasattr(value, "is_tensor"):
        return value.numpy() if value.is_tensor() else value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, list) and value and not isinstance(value[0], dict):
        return [np.asarray(v) for v in value]
    return value


def _element(onnx_type: str) -> str:
    """Return the innermost element type: ``tensor(float)`` gives float, ``seq(tensor(int64))`` gives int64."""
    return onnx_type.rstrip(")").rsplit("(", 1)[-1]


def _save(folder: str, name: str, value: Any) -> str:
    if value.dtype == object:
        value = value.astype(str)
    if value.dtype.kind == "V" or value.dtype.name in BIT_TYPES:  # ml_dtypes: keep the bits
        value = value.view(np.uint16 if value.dtype.itemsize == 2 else np.uint8)
    np.save(os.path.join(folder, name), value, allow_pickle=False)
    return name


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
