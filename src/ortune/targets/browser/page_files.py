"""Files that a page receives for a trial: those of its model, and its inputs as JavaScript typed arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ortune.targets.browser.outputs import DTYPES

MOST_FILE = 2 << 30  # Chromium fails to fetch larger files, after half a minute


class CannotServe(Exception):
    """The trial cannot run in a page; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutline:
    """Properties of a model that a page needs before loading it.

    Attributes:
        external: Files with its weights, by their names in the model.
        outputs: Declared outputs: element type ("" if not a tensor), and the sizes, None unless all are fixed. None if
            the file is not ONNX; onnxruntime-web then reports the error.
    """

    external: tuple[str, ...] = ()
    outputs: dict[str, tuple[str, list[int] | None]] | None = None


def model_of(path: Path) -> ModelOutline:
    """Return the outline of a model file; cached while the file is unchanged, since every trial needs the outline.

    Raises:
        CannotServe: A file is too large for a page, or is outside of the model's folder.
    """
    _require_fetchable(path)
    if path.suffix == ".ort":
        return ModelOutline()
    stat = path.stat()
    contents = _read(path, stat.st_mtime_ns, stat.st_size)
    for name in contents.external:
        _require_fetchable(path.parent / name)
    return contents


def inputs_of(folder: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Return the description of each input of a case, and its bytes for a JavaScript typed array.

    Raises:
        CannotServe: An input has no counterpart in JavaScript.
    """
    inputs = []
    for entry in json.loads((folder / "feeds.json").read_text(encoding="utf-8"))["feeds"]:
        name, kind = entry["name"], entry["onnx_type"]
        if entry["kind"] != "tensor" or kind not in (*DTYPES, "string"):
            raise CannotServe(
                f"input {name!r} is a {entry['kind']} of {kind}, which onnxruntime-web does not support"
            )
        array = np.load(folder / entry["files"][0], allow_pickle=False)
        data = (
            json.dumps([str(text) for text in array.ravel()]).encode()
            if kind == "string"
            else np.ascontiguousarray(array).astype(DTYPES[kind], copy=False).tobytes()
        )
        inputs.append(({"name": name, "onnx_type": kind, "dims": list(array.shape)}, data))
    return inputs


def _require_fetchable(file: Path) -> None:
    if file.is_file() and (size := file.stat().st_size) >= MOST_FILE:
        raise CannotServe(
            f"{file.name} is {size / 2**30:.1f} GiB, and a page cannot fetch 2 GiB or more: quantize the weights, "
            "or split them across several files"
        )


@lru_cache(maxsize=32)
def _read(path: Path, changed_ns: int, size: int) -> ModelOutline:
    """Read the outline of a model; the file's time and size are only part of the cache key."""
    import onnx
    from google.protobuf.message import DecodeError
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    try:
        proto = onnx.load(path, load_external_data=False)
    except DecodeError:
        return ModelOutline()
    external: dict[str, None] = {}
    for tensor in proto.graph.initializer:
        if uses_external_data(tensor):
            name = ExternalDataInfo(tensor).location
            if not (path.parent / name).resolve().is_relative_to(path.parent.resolve()):
                raise CannotServe(f"its external data is outside the model folder: {name}")
            external[name] = None
    outputs: dict[str, tuple[str, list[int] | None]] = {}
    for value in proto.graph.output:
        tensor_type = value.type.tensor_type
        kind = onnx.TensorProto.DataType.Name(tensor_type.elem_type).lower() if tensor_type.elem_type else ""
        dims = tensor_type.shape.dim
        fixed = tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims)
        outputs[value.name] = kind, [max(0, dim.dim_value) for dim in dims] if fixed else None
    return ModelOutline(external=tuple(external), outputs=outputs)
