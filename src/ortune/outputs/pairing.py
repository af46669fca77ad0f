"""Two models, one set of inputs: which input of B takes which of A's, and the same for outputs.

Numbers of one kind alone are joined: token ids are no float, whatever their shape and their name.
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


def fed_as(
    a: onnx_ir.Model, refs: Sequence[FeedRef], b: onnx_ir.Model, folder: Path, place: Path
) -> Path | None:
    """Return a file with the values that A ran with, for B; None if B's inputs do not take them.

    Args:
        a: Whose inputs they are; ``refs`` are their files.
        refs: Of which the first shape is taken.
        b: What is to be fed with them.
        folder: Where files may lie.
        place: Of the file that is written, an .npz.
    """
    try:
        (ref,) = feeds_for(refs[:1], b, pair_inputs(a, b, {}), folder)
    except InputError:
        return None  # models of two kinds are fed each its own way
    values = feed_files.read_feeds(Path(ref.path))
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "biuf" for value in values.values()):
        return None  # what no file of the user's holds
    arrays: dict[str, Any] = dict(values)
    np.savez(place, **arrays)
    return place


def pair_inputs(
    a: onnx_ir.Model, b: onnx_ir.Model, mapped: Mapping[str, str], name: str = "B"
) -> dict[str, str]:
    """B's input -> A's input: as given, then by name, then by order among those left with a shape and kind that fit.

    Args:
        a: Whose inputs are there.
        b: Whose are wanted.
        mapped: As the user pairs them, A's -> B's.
        name: What B is called.

    Raises:
        InputError: An input of B is left without a partner, a given name does not exist, or the two are made for
            inputs of other sizes.
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
        # The one input left is of the right kind and has another size: it is meant, and made for other work.
        if partner is None and len(free) == 1 and _kind(free[0]) == _kind(value) is not None:
            raise other_work(free[0], value, name)
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
        # Names were joined without a look at the sizes.
        partner = by_name[pairs[str(value.name)]]
        if not _same_sizes(partner, value):
            raise other_work(partner, value, name)
    return pairs


def other_work(a: onnx_ir.Value, b: onnx_ir.Value, name: str) -> InputError:
    """Return the error for two sides that are made for inputs of other sizes."""
    there = "" if a.name == b.name else f"{b.name!r} "
    sizes = f"input {a.name!r} is {_sizes(a)} in A, and {there}{_sizes(b)} in {name}"
    of_a, of_b = list(a.shape or ()), list(b.shape or ())
    # The channels of NCHW moved to the end are NHWC.
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
    """B's output -> A's output: by name, then by order among those left with a shape and kind that fit."""
    theirs = {str(v.name): v for v in a.graph.outputs}
    ours = {str(v.name): v for v in b.graph.outputs}
    pairs = {name: name for name in ours if name in theirs}
    free = [name for name in theirs if name not in pairs]
    for name, value in ours.items():
        fits = [candidate for candidate in free if name not in pairs and _fits(theirs[candidate], value)]
        # What is no tensor, such as a list of maps, fits anything: it comes last.
        partner = min(fits, key=lambda candidate: _kind(theirs[candidate]) is None, default=None)
        if partner is not None:
            pairs[name] = partner
            free.remove(partner)
    return pairs


def joint_labels(
    of_a: Mapping[str, tuple[str, ...]], a: onnx_ir.Model, b: onnx_ir.Model, pairs: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """The classes of outputs that are maps on a side, by their names in A, in the order of the other side's columns.

    Args:
        of_a: What is known of A's outputs.
        a: The base.
        b: The other side.
        pairs: B's output -> A's output.
    """
    joint = {pairs.get(name, name): labels for name, labels in class_labels(b).items()} | dict(of_a)
    columns = column_classes(a) | {pairs.get(name, name): cs for name, cs in column_classes(b).items()}
    # Where a classifier made the columns, their order is known. Else it is that of the map, or of A's own.
    known = {name: cs for name, cs in columns.items() if set(cs) == set(joint.get(name, ()))}
    return joint | known


def _kind(value: onnx_ir.Value) -> str | None:
    """Numbers of one kind may stand for each other; None if the type is not told, or is no tensor's."""
    if not isinstance(value.type, onnx_ir.TensorType) or value.type.dtype.name == "UNDEFINED":
        return None
    return family(dtype_of(value))


def _fits(a: onnx_ir.Value, b: onnx_ir.Value) -> bool:
    kinds = _kind(a), _kind(b)
    if None not in kinds and kinds[0] != kinds[1]:
        return False
    return _same_sizes(a, b)


def _same_sizes(a: onnx_ir.Value, b: onnx_ir.Value) -> bool:
    """Return whether no dimension is fixed to two different sizes."""
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
    """Return a's feeds under B's names and in B's number types; the same folders where nothing has to change.

    Raises:
        InputError: The values of an input of A are none for its partner in B.
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
    """Return whether a declared shape leaves room for this one; a scalar or unknown rank is left to the runtime."""
    if shape is None or len(shape) != len(of):
        return True
    return all(not isinstance(d, int) or d == n for d, n in zip(shape, of, strict=True))


def _size(dimension: int | onnx_ir.SymbolicDim) -> str:
    return str(dimension) if isinstance(dimension, int) else "?"


def rename_outputs(folder: Path, pairs: Mapping[str, str]) -> None:
    """Give the outputs that a worker left the names that A's have.

    Raises:
        MeasurementError: The worker left no outputs, or their index is damaged.
    """
    read_outputs(folder)
    path = folder / "outputs.json"
    index = json.loads(files.read(path))
    for entry in index["outputs"]:
        entry["name"] = pairs.get(entry["name"], entry["name"])
    path.write_text(json.dumps(index), encoding="utf-8")
