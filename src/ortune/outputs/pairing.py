"""Pairing of the inputs and outputs of two models for comparison with the same data.

Only numbers of the same kind are paired: token ids never match floats, whatever their shape and name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir

from ortune import files
from ortune.errors import InputError
from ortune.graph.outputs import class_labels, column_classes
from ortune.graph.shapes.symbols import feedable
from ortune.inputs import feed_files
from ortune.inputs.feeds import FeedValue
from ortune.inputs.semantics import dtype_of
from ortune.outputs.files import family, read_outputs
from ortune.records import FeedRef

CASTS = {
    "float": np.float32,
    "float16": np.float16,
    "double": np.float64,
    "int32": np.int32,
    "int64": np.int64,
}


def write_inputs_for(
    a: onnx_ir.Model, refs: Sequence[FeedRef], b: onnx_ir.Model, folder: Path, place: Path
) -> Path | None:
    """Write A's input values to a file for B and return its path; None if B's inputs do not accept the values.

    Args:
        a: The model that ran with ``refs``.
        refs: Input files of A; the first one is used.
        b: The model to feed.
        folder: Folder for temporary files.
        place: Path of the ``.npz`` file to write.
    """
    try:
        (ref,) = feeds_for(refs[:1], b, pair_inputs(a, b, {}), folder)
    except InputError:
        return None  # models of different kinds are fed separately
    values = feed_files.read_feeds(Path(ref.path))
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "biuf" for value in values.values()):
        return None  # values that user files cannot contain
    arrays: dict[str, Any] = dict(values)
    np.savez(place, **arrays)
    return place


def pair_inputs(
    a: onnx_ir.Model, b: onnx_ir.Model, mapped: Mapping[str, str], name: str = "B"
) -> dict[str, str]:
    """Map B's inputs to A's: as given, then by name, then in order among inputs with matching shape and kind.

    Args:
        a: The model with known inputs.
        b: The model to feed.
        mapped: The user's pairs, from A's input name to B's input name.
        name: Name of B in messages.

    Raises:
        InputError: If an input of B has no counterpart, a given name does not exist, or the models need
            inputs of different sizes.
    """
    theirs, ours = feedable(a), feedable(b)
    their_names, our_names = [v.name for v in theirs], [v.name for v in ours]
    pairs: dict[str, str] = {}
    for left, right in mapped.items():
        if left not in their_names or right not in our_names:
            missing, side = (left, "A") if left not in their_names else (right, name)
            names = ", ".join(map(str, their_names if side == "A" else our_names))
            raise InputError(f"{side} has no input {missing!r}", where="--map", do=f"its inputs are {names}")
        pairs[right] = left
    for input_name in our_names:
        if input_name not in pairs and input_name in their_names and input_name not in pairs.values():
            pairs[str(input_name)] = str(input_name)
    free = [v for v in theirs if v.name not in pairs.values()]
    for value in ours:
        if value.name in pairs:
            continue
        partner = next((v for v in free if _fits(v, value)), None)
        # The only remaining input has the right kind but another size, so the models do different work.
        if partner is None and len(free) == 1 and _kind(free[0]) == _kind(value) is not None:
            raise different_sizes_error(free[0], value, name)
        if partner is None:
            raise InputError(
                f"no input of A fits input {value.name!r} of {name}, which is {dtype_of(value)}",
                where=name,
                do=f"--map NAME_IN_A={value.name}",
            )
        pairs[str(value.name)] = str(partner.name)
        free.remove(partner)
    by_name = {str(v.name): v for v in theirs}
    for value in ours:
        # Names were paired regardless of sizes.
        partner = by_name[pairs[str(value.name)]]
        if not _same_sizes(partner, value):
            raise different_sizes_error(partner, value, name)
    return pairs


def different_sizes_error(a: onnx_ir.Value, b: onnx_ir.Value, name: str) -> InputError:
    """Return the error for two models with inputs of different sizes."""
    there = "" if a.name == b.name else f"{b.name!r} "
    sizes = f"input {a.name!r} is {_sizes(a)} in A, and {there}{_sizes(b)} in {name}"
    of_a, of_b = list(a.shape or ()), list(b.shape or ())
    # NCHW with the channels moved to the end is NHWC.
    if of_a[:1] + of_a[2:] + of_a[1:2] == of_b or of_b[:1] + of_b[2:] + of_b[1:2] == of_a:
        what = f"A and {name} take their input in different layouts: {sizes}"
        return InputError(what, do="compare models with the same layout")
    return InputError(
        f"A and {name} do different amounts of work: {sizes}",
        do="compare models with equal input sizes, or measure each with ortune bench",
    )


def _sizes(value: onnx_ir.Value) -> str:
    return "x".join(map(_size, value.shape or ())) or "a scalar"


def pair_outputs(a: onnx_ir.Model, b: onnx_ir.Model) -> dict[str, str]:
    """Map B's outputs to A's: by name, then in order among outputs with matching shape and kind."""
    theirs = {str(v.name): v for v in a.graph.outputs}
    ours = {str(v.name): v for v in b.graph.outputs}
    pairs = {name: name for name in ours if name in theirs}
    free = [name for name in theirs if name not in pairs]
    for name, value in ours.items():
        fits = [candidate for candidate in free if name not in pairs and _fits(theirs[candidate], value)]
        # Outputs that are not tensors, such as lists of maps, match anything, so they come last.
        partner = min(fits, key=lambda candidate: _kind(theirs[candidate]) is None, default=None)
        if partner is not None:
            pairs[name] = partner
            free.remove(partner)
    return pairs


def joint_labels(
    of_a: Mapping[str, tuple[str, ...]], a: onnx_ir.Model, b: onnx_ir.Model, pairs: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Return the classes of outputs that are maps on one side, in the other side's column order, keyed by A's names.

    Args:
        of_a: Known classes of A's outputs, by output name.
        a: The base model.
        b: The other model.
        pairs: Maps B's output names to A's.
    """
    joint = {pairs.get(name, name): labels for name, labels in class_labels(b).items()} | dict(of_a)
    columns = column_classes(a) | {pairs.get(name, name): cs for name, cs in column_classes(b).items()}
    # The column order is known if a classifier produced the columns; otherwise it is that of the map, or of A's
    # own.
    known = {name: cs for name, cs in columns.items() if set(cs) == set(joint.get(name, ()))}
    return joint | known


def _kind(value: onnx_ir.Value) -> str | None:
    """Return the kind of number in a tensor; None if the type is unknown or not a tensor type."""
    if not isinstance(value.type, onnx_ir.TensorType) or value.type.dtype.name == "UNDEFINED":
        return None
    return family(dtype_of(value))


def _fits(a: onnx_ir.Value, b: onnx_ir.Value) -> bool:
    kinds = _kind(a), _kind(b)
    if None not in kinds and kinds[0] != kinds[1]:
        return False
    return _same_sizes(a, b)


def _same_sizes(a: onnx_ir.Value, b: onnx_ir.Value) -> bool:
    """Return whether no dimension has two different fixed sizes."""
    if a.shape is None or b.shape is None:
        return True
    if len(a.shape) != len(b.shape):
        return False
    return all(
        not (isinstance(x, int) and isinstance(y, int)) or x == y
        for x, y in zip(a.shape, b.shape, strict=True)
    )


def feeds_for(
    refs: Sequence[FeedRef], model: onnx_ir.Model, pairs: Mapping[str, str], folder: Path, name: str = "B"
) -> tuple[FeedRef, ...]:
    """Return A's feeds, renamed and converted for B; feeds that need no change stay in their folder.

    Raises:
        InputError: If the values of an input do not fit the paired input of B.
    """
    types = {str(v.name): dtype_of(v) for v in feedable(model)}
    sizes = {str(v.name): v.shape for v in feedable(model)}
    out = []
    for i, ref in enumerate(refs):
        feeds = feed_files.read_feeds(Path(ref.path))
        changed: dict[str, FeedValue] = {}
        same = pairs.keys() == feeds.keys()
        for ours, source in pairs.items():
            value, wanted = feeds[source], types[ours]
            if isinstance(value, np.ndarray) and not _takes(sizes[ours], value.shape):
                fixed, theirs = ("x".join(map(_size, shape)) for shape in (sizes[ours] or (), value.shape))
                raise InputError(
                    f"A and {name} would do different amounts of work: input {ours!r} is {theirs} for A, and "
                    f"{fixed} in {name}",
                    do=f"choose A's sizes: --shape {source}:{fixed.replace('?', '1')}",
                )
            if isinstance(value, np.ndarray) and feed_files.onnx_type(value) != wanted:
                value_type = feed_files.onnx_type(value)
                if value_type not in CASTS or wanted not in CASTS or family(value_type) != family(wanted):
                    what = f"input {ours!r} of {name} is {wanted}, but input {source!r} of A is {value_type}"
                    raise InputError(what, where=name, do="compare models whose inputs have the same types")
                value, same = value.astype(CASTS[wanted]), False
            changed[ours] = value
            same = same and ours == source
        if same:
            out.append(ref)
            continue
        place = folder / f"{name.lower()}-{i}"
        feed_files.write_feeds(place, changed)
        out.append(FeedRef(name=ref.name, path=str(place), weight=ref.weight))
    return tuple(out)


def _takes(shape: onnx_ir.Shape | None, of: tuple[int, ...]) -> bool:
    """Return whether a declared shape accepts shape ``of``; the runtime checks unknown or different ranks."""
    if shape is None or len(shape) != len(of):
        return True
    return all(not isinstance(d, int) or d == n for d, n in zip(shape, of, strict=True))


def _size(dimension: int | onnx_ir.SymbolicDim) -> str:
    return str(dimension) if isinstance(dimension, int) else "?"


def rename_outputs(folder: Path, pairs: Mapping[str, str]) -> None:
    """Rename the outputs written by a worker to A's names, in place.

    Raises:
        MeasurementError: If the worker wrote no outputs, or their index is damaged.
    """
    read_outputs(folder)
    path = folder / "outputs.json"
    index = json.loads(files.read(path))
    for entry in index["outputs"]:
        entry["name"] = pairs.get(entry["name"], entry["name"])
    path.write_text(json.dumps(index), encoding="utf-8")
