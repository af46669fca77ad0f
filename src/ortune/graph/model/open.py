"""Opening of ``.onnx`` and ``.ort`` models, with or without external data, without loading the weights into memory."""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import msgspec
import onnx_ir as ir

from ortune import files
from ortune.errors import ModelError
from ortune.graph.model.extent import require_bounded
from ortune.graph.model.garbage import without_collection
from ortune.graph.model.graphs import graphs, mark_never_fed, mark_shared_names, nodes, parameters, tensors
from ortune.graph.model.onnx_file import read_onnx
from ortune.graph.model.operators import dotted
from ortune.graph.model.ort_file import is_ort, read_ort
from ortune.graph.model.tensors import FileTensor, WeightFile, WeightFiles
from ortune.records import ModelInfo, ModelRef

__all__ = ["OpenModel", "graphs", "nodes", "open_model"]

# It warns about every attribute with bytes that are not text, such as compiled code in an EPContext node.
logging.getLogger(ir.__name__).setLevel(logging.ERROR)


BLOCK_BYTES = 512
"""Unit of ``st_blocks`` in bytes, on every system that reports this field."""
MOST_HOLE_BYTES = 8 << 30
"""Maximum length of a file that is not checked for holes, since it can be read within seconds."""
LEAST_WRITTEN = 0.01
"""Minimum fraction of a file's bytes that is allocated on disk; no compressing file system shrinks weights further."""


@dataclass(frozen=True, kw_only=True)
class OpenModel:
    """An opened model: its graph is in memory, its weights remain in their files.

    Attributes:
        path: The file, as passed to ``open_model``.
        ir: The graph. Tensors of 1 KiB or more are ``FileTensor``: ``numpy()`` maps them on demand.
            Modify a clone instead of this graph.
        facts: All fields of ``info`` except the sha256, which alone requires reading the weights.
        external: Tensors in external data, in the order in which ``sha256`` includes them.
        stamps: Path, size and modification time of each file when the model was opened.
    """

    path: Path
    ir: ir.Model
    facts: ModelInfo
    external: tuple[FileTensor, ...] = ()
    stamps: tuple[tuple[Path, int, int], ...] = ()

    def changed(self) -> Path | None:
        """Return the first file of this model that changed since it was opened (by size and time), or None."""
        now = (stamp(path) for path, _, _ in self.stamps)
        return next((was[0] for was, is_ in zip(self.stamps, now, strict=True) if was != is_), None)

    @cached_property
    def info(self) -> ModelInfo:
        """Description of the model; the first use reads all weights once, for the sha256."""
        return msgspec.structs.replace(self.facts, sha256=self.sha256)

    @property
    def in_ort_format(self) -> bool:
        """Whether the file is in ORT format, so that its graph is already optimised and cannot be rewritten."""
        return self.facts.format == "ort"

    @property
    def size_bytes(self) -> int:
        """Size of the model file and of its external data, in bytes."""
        return self.facts.size_bytes + self.facts.external_bytes

    @property
    def ref(self) -> ModelRef:
        """Reference to the model, as stored in documents."""
        return ModelRef(path=self.facts.path, sha256=self.sha256)

    @cached_property
    def sha256(self) -> str:
        """Identity of the model's graph and weights.

        The sha256 of the file's bytes, followed by the bytes of each tensor in external data in the order of
        ``graphs.tensors`` (initializers, then attributes, graph by graph). Without external data it equals the output
        of ``sha256sum``.

        Raises:
            ModelError: If a file was truncated while it was read.
        """
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            while chunk := file.read(4 << 20):
                digest.update(chunk)
        for tensor in self.external:
            for part in tensor.file.chunks(tensor.offset or 0, tensor.length or 0):
                digest.update(part)
        return digest.hexdigest()

    @cached_property
    def op_counts(self) -> Counter[str]:
        """Number of nodes in all graphs, by operator ("Conv", "com.microsoft.FusedConv")."""
        return Counter(dotted(n.domain, n.op_type) for n in nodes(self.ir))


@without_collection()
def open_model(path: str | Path, *, called: str = "") -> OpenModel:
    """Open a model; the format is detected from the content, not from the file extension.

    Args:
        path: File of the model.
        called: Path for documents, if the file is in a temporary folder.

    Raises:
        ModelError: If the file does not exist, cannot be read, is not a model, is damaged, or lacks
            external data.
    """
    path = Path(path)
    try:
        _require_file(path)
        with path.open("rb") as file:
            head = file.read(8)
        if path.suffix.lower() == ".ort" and not is_ort(head):
            raise ModelError(
                "The file is named .ort but is not in ORT format (its bytes 4 to 7 are not 'ORTM').",
                where=str(path),
                do="If it is an ONNX model, rename it to .onnx; else convert or download it again.",
            )
        model, files = read_ort(path) if is_ort(head) else read_onnx(path)
    except OSError as error:
        raise ModelError(
            f"The file cannot be read: {error.strerror or error}.",
            where=str(error.filename or path),
            do="Check the path and its permissions.",
        ) from error
    opened = _opened(path, model, files, "ort" if is_ort(head) else "onnx")
    return replace(opened, facts=msgspec.structs.replace(opened.facts, path=called)) if called else opened


def _require_file(path: Path) -> None:
    if files.is_folder(path):
        inside = sorted(entry.name for entry in path.iterdir() if entry.suffix in (".onnx", ".ort"))
        do = f"Pass one of the models in it: {', '.join(inside[:5])}." if inside else "Pass the model's file."
        raise ModelError("This is a folder, not a model.", where=str(path), do=do)
    if not files.exists(path):
        raise ModelError("No such file.", where=str(path), do="Check the path and its spelling.")
    if not files.is_file(path):
        raise ModelError(
            "This is not a regular file; a model cannot be streamed.",
            where=str(path),
            do="Save the model to a file first.",
        )
    if path.stat().st_size == 0:
        raise ModelError(
            "The file is empty.", where=str(path), do="The download or export stopped; run it again."
        )


def stamp(path: Path) -> tuple[Path, int, int]:
    """Return the path with its size in bytes and modification time in nanoseconds, both -1 if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return path, -1, -1
    return path, status.st_size, status.st_mtime_ns


def _require_written(file: WeightFile) -> None:
    """Raise ModelError for a huge, almost empty (sparse) file, since reading its holes takes longer than any budget."""
    status = file.path.stat()
    n_written = getattr(status, "st_blocks", status.st_size) * BLOCK_BYTES
    if status.st_size > MOST_HOLE_BYTES and n_written < LEAST_WRITTEN * status.st_size:
        raise ModelError(
            f"The file is {status.st_size / 1e9:,.0f} GB long, but only {n_written / 1e6:,.1f} MB are on disk: "
            "it is not complete.",
            where=str(file.path),
            do="The download or export stopped; run it again.",
        )


def _opened(path: Path, model: ir.Model, files: WeightFiles, kind: str) -> OpenModel:
    require_bounded(model, str(path))
    mark_shared_names(model)
    mark_never_fed(model)
    external = tuple(
        tensor for tensor in tensors(model) if isinstance(tensor, FileTensor) and tensor.file is not files.own
    )
    for file in dict.fromkeys([files.own, *(tensor.file for tensor in external)]):
        _require_written(file)
    # Tensors that share a part of a file are read, and counted, once.
    segments = {(str(t.file.path), t.offset, t.length or 0) for t in external}
    facts = ModelInfo(
        path=str(path),
        format="ort" if kind == "ort" else "onnx",
        sha256="",
        size_bytes=files.own.size_bytes,
        external_bytes=sum(length for _, _, length in segments),
        producer=" ".join(filter(None, (model.producer_name, model.producer_version))),
        ir_version=model.ir_version,
        opsets=dict(model.opset_imports),
        n_nodes=sum(1 for _ in nodes(model, functions=False)),
        n_parameters=sum(math.prod(tensor.shape.numpy()) for tensor in parameters(model)),
    )
    own = dict.fromkeys([path, *(Path(tensor.file.path) for tensor in external)])
    stamps = tuple(stamp(file) for file in own)
    return OpenModel(path=path, ir=model, facts=facts, external=external, stamps=stamps)
