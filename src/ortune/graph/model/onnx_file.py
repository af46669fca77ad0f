"""Opening of ``.onnx`` files without loading the weights, and identification of other file types."""

from __future__ import annotations

import mmap
import shlex
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from ortune.errors import ModelError
from ortune.graph.model import wire
from ortune.graph.model.from_proto import to_ir
from ortune.graph.model.tensors import WeightFiles

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"

# Offset and bytes at the beginning of a file, its type, and what to do.
_OTHER_FORMATS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, _LFS_POINTER, "a Git LFS pointer, not the model itself", "Run `git lfs pull` in its repository."),
    (0, b"PK\x03\x04", "a ZIP archive (PyTorch and Keras also save these)",
     "Unpack it and pass the .onnx inside, or export the checkpoint to ONNX first."),
    (0, b"\x1f\x8b", "compressed with gzip", "Decompress it with gunzip."),
    (0, b"\xfd7zXZ", "compressed with xz", "Decompress it with unxz."),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", "Decompress it with unzstd."),
    (0, b"\x89HDF", "an HDF5 file (Keras)", "Save it again with model.save('model.keras'), then run ortune convert."),
    (0, b"\x80\x02", "a Python pickle", "Export the model to ONNX (skl2onnx, torch.onnx.export)."),
    (0, b"\x80\x04", "a Python pickle", "Export the model to ONNX (skl2onnx, torch.onnx.export)."),
    (0, b"GGUF", "a GGUF model (llama.cpp)", "ortune reads ONNX; find or export an ONNX version."),
    (4, b"TFL3", "a TensorFlow Lite model", "Convert it: ortune convert MODEL.tflite"),
    (8, b'{"', "a safetensors file: weights without a graph", "Export the model to ONNX (optimum, torch.onnx.export)."),
)  # fmt: skip

# Fields of ModelProto with their wire types, which a model's first byte can have.
_MODEL_FIELDS = {(1, 0), (5, 0)} | {(number, 2) for number in (2, 3, 4, 6, 7, 8, 14)}

_EXPORT_AGAIN = "Pass an .onnx or .ort file; if this should be one, export or download it again."


def read_onnx(path: Path) -> tuple[ir.Model, WeightFiles]:
    """Open an ``.onnx`` file.

    Returns:
        The model, in which tensors of ``wire.THRESHOLD`` bytes or more stay in their files, and these files.

    Raises:
        ModelError: If the file is not an ONNX model, is damaged, or lacks external data.
    """
    proto, files = read_proto(path)
    return to_ir(proto, files, str(path)), files


def read_proto(path: Path) -> tuple[onnx.ModelProto, WeightFiles]:
    """Read a model with large tensors as references, which ``WeightFiles.tensor`` resolves.

    Raises:
        ModelError: As in ``read_onnx``, but inconsistencies within the graph are not detected.
    """
    where = str(path)
    files = WeightFiles(path)
    buffer = files.own.map()
    _refuse_other_formats(buffer, where)
    if len(buffer) > wire.MAX_PROTOBUF_BYTES:
        raise ModelError(
            f"The file has {len(buffer)} bytes; protobuf and ONNX Runtime read at most 2 GiB.",
            where=where,
            do="Save the model with external data (onnx.save(..., save_as_external_data=True)).",
        )
    proto, data = onnx.ModelProto(), wire.skeleton(buffer, where)
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        if _is_tensor(data):
            raise ModelError(
                "This is not an ONNX model but a tensor, like the inputs of a test model.",
                where=where,
                do="Pass the model itself, and the tensors with --inputs.",
            ) from error
        raise ModelError(
            "The file is damaged: it starts like an ONNX model, but protobuf cannot read it.",
            where=where,
            do="Download or export the model again.",
        ) from error
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(
            "This is not an ONNX model: it is protobuf, but has no graph with nodes or outputs.",
            where=where,
            do=_EXPORT_AGAIN,
        )
    if not proto.opset_import and proto.ir_version >= 3:
        raise ModelError(
            "The model declares no opset, so its operators are undefined.",
            where=where,
            do="The file may be truncated; download or export the model again.",
        )
    return proto, files


_SOURCES = {
    ".pt2": "an exported program of PyTorch",
    ".keras": "a model of Keras",
    ".tflite": "a model of TensorFlow Lite",
}
"""Convertible files of other frameworks, by file name extension."""


def _refuse_other_formats(buffer: mmap.mmap, where: str) -> None:
    head = buffer[:512]
    ending = Path(where).suffix.lower()
    if ending in _SOURCES:
        convert = shlex.join(["ortune", "convert", where])
        raise ModelError(
            f"This is not an ONNX model: a {ending} file is {_SOURCES[ending]}.",
            where=where,
            do=f"Convert it first: {convert}, or {convert} --tune to tune the result too.",
        )
    for offset, magic, what, do in _OTHER_FORMATS:
        if head.startswith(magic, offset):
            raise ModelError(f"This is not an ONNX model: it is {what}.", where=where, do=do)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise ModelError(
            "This is not an ONNX model: it is a web page.",
            where=where,
            do="The download returned a page instead of the file (a login, a licence or an error); open it, "
            "and use the address of the raw file.",
        )
    # The first fields of a model are numbers or lengths, never only readable text. The text is not quoted: in a
    # bundle, a hard link may stand for any file of the user's.
    if all(byte >= 0x20 or byte in b"\t\r\n" for byte in head) and _is_utf8(head):
        raise ModelError("This is not an ONNX model: it is text.", where=where, do=_EXPORT_AGAIN)
    # Field numbers from 16 on take two bytes; a first byte below 0x80 is the whole key.
    if head[0] < 0x80 and (head[0] >> 3, head[0] & 7) not in _MODEL_FIELDS:
        raise ModelError(
            f"This is not an ONNX model: no model begins with the bytes {head[:8].hex(' ')}.",
            where=where,
            do=_EXPORT_AGAIN,
        )


def _is_tensor(data: bytes) -> bool:
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(data)
    except DecodeError:
        return False
    return bool(tensor.data_type and tensor.HasField("raw_data"))


def _is_utf8(head: bytes) -> bool:
    try:
        # The last character may be cut.
        head[:-3].decode() if len(head) == 512 else head.decode()
    except UnicodeDecodeError:
        return False
    return True
