"""Finds the model files of a recording, and determines properties on which a replay depends."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from ortune import files
from ortune.graph.shapes.symbols import feedable
from ortune.records import Recording

_MODEL_FILES = (".onnx", ".ort")


def find_models(recording: Recording, more: Sequence[Path]) -> dict[int, Path]:
    """Return the file of each model that is found by sha256 at its recorded path or among ``more``, by model index.

    Args:
        recording: The recording.
        more: Further files, and folders to search.
    """
    wanted: dict[str, list[int]] = {}
    for index, model in enumerate(recording.models):
        wanted.setdefault(model.sha256, []).append(index)  # one content may be a file here and bytes there
    wanted.pop("", None)
    sizes = {model.size_bytes for model in recording.models}
    was = (Path(model.path) for model in recording.models if model.path)
    found: dict[int, Path] = {}
    for path in itertools.chain(was, *map(_model_files, more)):
        try:
            if not files.is_file(path) or (all(sizes) and path.stat().st_size not in sizes):
                continue
            digest = hashlib.sha256(files.read(path)).hexdigest()
        except OSError:
            continue
        for index in wanted.get(digest, ()):
            found.setdefault(index, path)
    return found


def _model_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.suffix in _MODEL_FILES)


def has_threads(recording: Recording) -> bool:
    """Return whether several threads of a process create or call sessions."""
    threads = [{call.thread for call in process.arrivals} for process in recording.processes]
    for session in recording.sessions:
        threads[session.process].add(session.thread)
    return any(len(each) > 1 for each in threads)


def has_free_batch(model: ir.Model) -> bool:
    """Return whether all inputs and outputs of a model have the same dynamic first dimension."""
    shapes = [value.shape for value in (*feedable(model), *model.graph.outputs)]
    first = {shape[0] if shape is not None and len(shape) else None for shape in shapes}
    return len(first) == 1 and all(isinstance(size, ir.SymbolicDim) and size.value for size in first)
