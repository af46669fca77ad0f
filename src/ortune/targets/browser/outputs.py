"""Outputs that a page sends: untrusted data, rejected before it is read if it is impossible for the model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

FACTOR = 4
"""Factor on the number of elements of the reference, since the number of results above a threshold may vary."""
ROOM = 1 << 16
MOST_OUTPUTS = 10_000
MOST_UNKNOWN = 1 << 28
"""Limit in bytes of an output with a size that neither the model nor a reference determines."""
DTYPES = {
    "float": "<f4", "double": "<f8", "float16": "<f2", "int8": "i1", "uint8": "u1", "int16": "<i2", "uint16": "<u2",
    "int32": "<i4", "uint32": "<u4", "int64": "<i8", "uint64": "<u8", "bool": "?",
}  # fmt: skip
_PER_CHARACTER = 6  # "\\u0000", the longest form of a character in JSON
_AROUND = 3  # quotes and a comma

_Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class ImpossibleOutput(Exception):
    """A page sent an output that is impossible for this model; the message gives the reason."""


class _About(msgspec.Struct, frozen=True, kw_only=True):
    """A page's description of an output."""

    case: _Size
    index: _Size
    name: Annotated[str, msgspec.Meta(max_length=10_000)]
    onnx_type: str
    dims: Annotated[list[_Size], msgspec.Meta(max_length=100)]


class Outputs:
    """Storage of the outputs of one trial, with the checks on them.

    Args:
        folder: Parent of one folder per case, in the native worker's format; None to store nothing.
        cases: Names of the cases, in order.
        declared: The model's declared outputs: element type ("" if not a tensor) and sizes, None if any is dynamic;
            None if the file does not declare them.
        reference: Folder of reference outputs for the same cases; None if there are none.
    """

    def __init__(
        self,
        folder: Path | None,
        cases: Sequence[str],
        declared: Mapping[str, tuple[str, Sequence[int] | None]] | None,
        reference: Path | None,
    ) -> None:
        self._folder, self._cases, self._declared = folder, cases, declared
        self._reference = [_sizes(reference / name) if reference else {} for name in cases]
        self._kept: list[dict[int, dict[str, Any]]] = [{} for _ in cases]

    def expect(self, about: str, size: int) -> _About:
        """Return the validated description of an output, before its bytes are read.

        Raises:
            ImpossibleOutput: The description is invalid, the output was not requested, or its type or size is
                impossible.
        """
        try:
            output = msgspec.json.decode(about, type=_About)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            raise ImpossibleOutput(f"the page sent an unreadable description of an output: {error}") from None
        if self._folder is None or output.case >= len(self._cases):
            raise ImpossibleOutput("the page sent an output that was not requested")
        name, declared = repr(output.name[:100]), self._declared
        if declared is not None and (output.index >= len(declared) or output.name not in declared):
            raise ImpossibleOutput(
                f"the page sent output {output.index}, {name}, which the model does not have"
            )
        kind = declared[output.name][0] if declared is not None else ""
        if kind and kind != output.onnx_type:
            raise ImpossibleOutput(
                f"the page sent output {name} as {output.onnx_type[:40]!r}, expected {kind}"
            )
        if output.onnx_type not in (*DTYPES, "string"):
            raise ImpossibleOutput(
                f"the page sent output {name} as {output.onnx_type[:40]!r}, which is not a JavaScript type"
            )
        if output.index in self._kept[output.case] or len(self._kept[output.case]) >= MOST_OUTPUTS:
            raise ImpossibleOutput(f"the page sent output {output.index}, {name}, twice")
        most = self._most_bytes(output)
        if size > most:
            raise ImpossibleOutput(f"the page sent {size} bytes as output {name}, more than its {most}")
        return output

    def keep(self, about: str, body: bytes) -> None:
        """Store an output in the native worker's format.

        Raises:
            ImpossibleOutput: The output is impossible for the model, or its bytes do not match their description.
            OSError: It cannot be written.
        """
        output = self.expect(about, len(body))
        assert self._folder is not None
        array = _strings(body) if output.onnx_type == "string" else _numbers(body, DTYPES[output.onnx_type])
        if array is None or array.size != math.prod(output.dims):
            raise ImpossibleOutput(
                f"the bytes of output {output.name[:100]!r} do not match their description"
            )
        folder = self._folder / self._cases[output.case]
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{output.index}.npy"
        np.save(folder / file, array.reshape(output.dims), allow_pickle=False)
        kept = self._kept[output.case]
        kept[output.index] = {
            "name": output.name,
            "onnx_type": output.onnx_type,
            "files": [file],
            "kind": "tensor",
        }
        index = {"version": 1, "outputs": [entry for _, entry in sorted(kept.items())]}
        (folder / "outputs.json").write_text(json.dumps(index), encoding="utf-8")

    def missing(self) -> str:
        """Return a message about the first input with missing outputs; "" if all requested outputs were sent."""
        if self._folder is None:
            return ""
        for name, kept in zip(self._cases, self._kept, strict=True):
            expected = max(1, len(self._declared or ()))
            if len(kept) < expected:
                return f"for {name}, the page sent {len(kept)} of {expected} outputs"
        return ""

    def _most_bytes(self, output: _About) -> int:
        """Return the largest number of bytes that an output may have."""
        text = output.onnx_type == "string"
        sizes = self._declared[output.name][1] if self._declared is not None else None
        bounds = [
            self._reference[output.case].get(output.name),
            None if sizes is None or text else (math.prod(sizes), 0),
        ]
        known_bounds = [bound for bound in bounds if bound is not None]
        if not known_bounds:
            return MOST_UNKNOWN
        # Example: floats of shape [1, 1000] may have (4 x 1000 + 65,536) x 4 bytes, about 278 kB.
        return max(
            (FACTOR * elements + ROOM)
            * (_PER_CHARACTER * characters + _AROUND if text else np.dtype(DTYPES[output.onnx_type]).itemsize)
            for elements, characters in known_bounds
        )


def _sizes(folder: Path) -> Mapping[str, tuple[int, int]]:
    """Return the number of elements of each stored output, and the length of its longest text (0 for numbers)."""
    try:
        listed = json.loads((folder / "outputs.json").read_text(encoding="utf-8"))["outputs"]
    except FileNotFoundError:
        return {}
    sizes = {}
    for entry in listed:
        if entry["kind"] == "tensor":
            array = np.load(folder / entry["files"][0], mmap_mode="r", allow_pickle=False)
            characters = array.dtype.itemsize // np.dtype("U1").itemsize if array.dtype.kind == "U" else 0
            sizes[entry["name"]] = array.size, characters
    return sizes


def _numbers(body: bytes, dtype: str) -> np.ndarray[Any, Any] | None:
    return None if len(body) % np.dtype(dtype).itemsize else np.frombuffer(body, dtype=dtype)


def _strings(body: bytes) -> np.ndarray[Any, Any] | None:
    try:
        strings = msgspec.json.decode(body, type=list[str])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    # In an array, each text takes as much memory as the longest.
    if len(strings) * max(map(len, strings), default=0) * np.dtype("U1").itemsize > MOST_UNKNOWN:
        return None
    return np.asarray(strings, dtype=str)
