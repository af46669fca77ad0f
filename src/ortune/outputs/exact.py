"""Evaluation of a small model in double precision by ONNX's reference evaluator; the result counts as exact."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, numpy_helper

from ortune.graph import cost
from ortune.graph.model.extent import written_nodes
from ortune.graph.model.operators import STANDARD
from ortune.graph.model.save import in_memory
from ortune.graph.randomness import random_ops
from ortune.inputs import feed_files
from ortune.inputs.value_files import VERSION
from ortune.outputs.files import Array
from ortune.records import FeedRef, NotEvaluated
from ortune.store import evaluations

MOST_S = 5.0
"""Time limit in seconds for one evaluation, if no budget is given."""
FLOPS_PER_S = 1e8
"""Assumed speed of the reference evaluator, which is not optimized, as measured on convolutions."""
NODES_PER_S = 2e3
MOST_BYTES = 1 << 29
"""Maximum total bytes of a run's values in float32: the evaluator keeps all values, with twice the width."""
_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NameError, RuntimeError, TypeError,
    ValueError, onnx.defs.SchemaError,
)  # fmt: skip
"""Exceptions that the evaluator raises for operators that it does not support in double precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOutputs:
    """Outputs of the reference evaluator for every set of inputs, or the reason why there are none.

    Attributes:
        wide: Folder with one folder of outputs per set of inputs, computed in double precision.
        plain: Folder with the same layout and outputs computed in the model's own types.
        why: Reason why there are no outputs; "" if there are outputs.
        needed_s: Expected seconds of the evaluation if that exceeds the limit, else 0.0.
    """

    wide: Path | None = None
    plain: Path | None = None
    why: NotEvaluated = ""
    needed_s: float = 0.0


class Evaluations:
    """Evaluates each model at most once per set of inputs, within a session and, through the store, across sessions.

    Args:
        folder: Folder for outputs, created on demand.
        store_folder: Folder of the store; None to store nothing.
    """

    def __init__(self, folder: Path, store_folder: Path | None) -> None:
        self._folder, self._store_folder = folder, store_folder
        self._known: dict[str, ExactOutputs] = {}

    def evaluate(
        self, model: ir.Model, sha256: str, refs: Sequence[FeedRef], most_s: float = MOST_S
    ) -> ExactOutputs:
        """Evaluate a model for its inputs, unless that takes too long or the evaluator does not support the model.

        Args:
            model: The model as stored in its file.
            sha256: Digest of the model.
            refs: The sets of inputs.
            most_s: Maximum expected time in seconds; the model is not evaluated if the estimate exceeds it.
        """
        key = _key(sha256, refs)
        known = self._known.get(key)
        if known is None or known.needed_s > 0.0 >= known.needed_s - most_s:
            known = self._known[key] = self._evaluate(model, key, refs, most_s)
        return known

    def _evaluate(self, model: ir.Model, key: str, refs: Sequence[FeedRef], most_s: float) -> ExactOutputs:
        if why := _not_evaluable(model):
            return ExactOutputs(why=why)
        stored = evaluations.load(self._store_folder, key) if self._store_folder else None
        outputs: list[dict[str, Array] | None]
        if stored is None:
            feeds = [_tensors(ref) for ref in refs]
            # Both precisions. Nodes first, since counting the work of a long graph takes time too.
            if (needed_s := 2 * len(refs) * written_nodes(model) / NODES_PER_S) <= most_s:
                needed_s = 2 * sum(expected_s(model, feed) for feed in feeds)
            if not math.isfinite(needed_s):
                return ExactOutputs(why="work-unknown")
            if needed_s > most_s:
                return ExactOutputs(why="time", needed_s=needed_s)
            outputs = [evaluate(model, feed, wide=wide) for wide in (True, False) for feed in feeds]
            stored = [output for output in outputs if output]
            if len(stored) != len(outputs):
                return ExactOutputs(why="failed")
            if self._store_folder:
                evaluations.keep(self._store_folder, key, stored)
        place = self._folder / key
        names = [ref.name for ref in refs]
        for kind, of_kind in (("wide", stored[: len(refs)]), ("plain", stored[len(refs) :])):
            for name, arrays in zip(names, of_kind, strict=True):
                _write(place / kind / name, arrays)
        return ExactOutputs(wide=place / "wide", plain=place / "plain")


def expected_s(model: ir.Model, feeds: dict[str, Array]) -> float:
    """Return the expected seconds of one evaluation; infinite if the work is unknown or needs over ``MOST_BYTES``."""
    shapes = {name: value.shape for name, value in feeds.items()}
    whole = {name: value for name, value in feeds.items() if value.dtype.kind in "iub"}
    counted = cost.costs(model, shapes, whole)
    if not all(node.known for node in counted.nodes) or counted.bytes_written > MOST_BYTES:
        return math.inf
    return counted.flops / FLOPS_PER_S + sum(node.times for node in counted.nodes) / NODES_PER_S


def evaluate(model: ir.Model, feeds: dict[str, Array], *, wide: bool = True) -> dict[str, Array] | None:
    """Evaluate a model with ONNX's reference evaluator and return its outputs by name.

    Args:
        model: The model as stored in its file.
        feeds: Inputs by name.
        wide: Whether to compute in double precision instead of the types of the model.

    Returns:
        The tensor outputs by name; None if the evaluator does not support the model.
    """
    # Imported late because they load every operator.
    from onnx.reference import ReferenceEvaluator

    from ortune.graph.reference_operators import OURS

    try:
        proto = in_memory(model)
        if wide:
            _widen(proto.graph)
            feeds = {name: _wide(value) for name, value in feeds.items()}
        with np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(proto, new_ops=[*OURS])
            results = evaluator.run(None, feeds)
    except _FAILURES:
        return None
    names = [str(value.name) for value in model.graph.outputs]
    return {
        name: _plain(value)
        for name, value in zip(names, results, strict=True)
        if isinstance(value, np.ndarray)
    }


def _not_evaluable(model: ir.Model) -> NotEvaluated:
    """Return the reason why a model cannot be evaluated, or "": unsupported or misread operators, or randomness."""
    from ortune.graph.reference_operators import misread

    if model.functions or any(node.domain not in STANDARD for node in model.graph.all_nodes()):
        return "operators"
    if any(map(misread, model.graph.all_nodes())):
        return "misread"
    return "random" if random_ops(model) else ""


def _tensors(ref: FeedRef) -> dict[str, Array]:
    feeds = feed_files.read_feeds(Path(ref.path))
    return {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}


def _key(sha256: str, refs: Sequence[FeedRef]) -> str:
    digest = hashlib.sha256(f"{evaluations.VERSION} {onnx.__version__} {sha256}\n".encode())
    for ref in refs:
        for file in sorted(Path(ref.path).iterdir()):
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:32]


def _write(folder: Path, arrays: dict[str, Array]) -> None:
    """Write outputs to a folder in the format of a worker."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for i, (name, array) in enumerate(arrays.items()):
        onnx_type = feed_files.onnx_type(array)
        np.save(folder / f"{i}.npy", array, allow_pickle=False)
        entries.append({"name": name, "kind": "tensor", "onnx_type": onnx_type, "files": [f"{i}.npy"]})
    text = json.dumps({"version": VERSION, "outputs": entries})
    (folder / "outputs.json").write_text(text, encoding="utf-8")


def _plain(array: Array) -> Array:
    """Convert an array to a type that ``.npy`` files can store: objects to text, extension types to float64."""
    if array.dtype.kind == "O":
        return array.astype(np.str_)
    return array.astype(np.float64) if array.dtype.num >= 256 else array


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _widen(graph: onnx.GraphProto) -> None:
    """Convert the floating-point types of a graph and its subgraphs to double, in place."""
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in _NARROW:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            if attribute.HasField("g"):
                _widen(attribute.g)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in _NARROW:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in _NARROW:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
