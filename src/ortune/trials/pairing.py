"""Two models, one set of inputs: which input of B takes which of A's, and the same for outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir

from ortune.analysis.symbolic_sizes import feedable
from ortune.errors import InputError
from ortune.inputs import feed_files
from ortune.inputs.feeds import FeedValue
from ortune.inputs.semantics import dtype_of
from ortune.records import FeedRef

CASTS = {
    "float": np.float32,
    "float16": np.float16,
    "double": np.float64,
    "int32": np.int32,
    "int64": np.int64,
}


def pair_inputs(a: onnx_ir.Model, b: onnx_ir.Model, given: Mapping[str, str]) -> dict[str, str]:
    """B's input -> A's input: as given, then by name, then by order among those left with a shape that fits.

    Raises:
        InputError: An input of B is left without a partner, or a given name does not exist.
    """
    theirs, ours = feedable(a), feedable(b)
    their_names, our_names = [v.name for v in theirs], [v.name for v in ours]
    pairs: dict[str, str] = {}
    for left, right in given.items():
        if left not in their_names or right not in our_names:
            missing, side = (left, "A") if left not in their_names else (right, "B")
            names = ", ".join(map(str, their_names if side == "A" else our_names))
            raise InputError(f"{side} has no input {missing!r}", where="--map", do=f"its inputs are {names}")
        pairs[right] = left
    for name in our_names:
        if name not in pairs and name in their_names and name not in pairs.values():
            pairs[str(name)] = str(name)
    free = [v for v in theirs if v.name not in pairs.values()]
    for value in ours:
        if value.name in pairs:
            continue
        partner = next((v for v in free if _fits(v, value)), None)
        if partner is None:
            raise InputError(
                f"no input of A fits input {value.name!r} of B", where="B", do=f"--map NAME_IN_A={value.name}"
            )
        pairs[str(value.name)] = str(partner.name)
        free.remove(partner)
    return pairs


def pair_outputs(a: onnx_ir.Model, b: onnx_ir.Model) -> dict[str, str]:
    """B's output -> A's output: by name where all agree, else by order."""
    theirs = [str(v.name) for v in a.graph.outputs]
    ours = [str(v.name) for v in b.graph.outputs]
    if set(theirs) <= set(ours):
        return {name: name for name in theirs}
    return dict(zip(ours, theirs, strict=False))


def _fits(a: onnx_ir.Value, b: onnx_ir.Value) -> bool:
    if a.shape is None or b.shape is None:
        return True
    if len(a.shape) != len(b.shape):
        return False
    return all(
        not (isinstance(x, int) and isinstance(y, int)) or x == y
        for x, y in zip(a.shape, b.shape, strict=True)
    )


def feeds_for(
    refs: Sequence[FeedRef], model: onnx_ir.Model, pairs: Mapping[str, str], folder: Path
) -> tuple[FeedRef, ...]:
    """A's feeds under B's names and in B's number types; the same folders where nothing has to change."""
    types = {str(v.name): dtype_of(v) for v in feedable(model)}
    out = []
    for i, ref in enumerate(refs):
        feeds = feed_files.read_feeds(Path(ref.path))
        changed: dict[str, FeedValue] = {}
        same = pairs.keys() == feeds.keys()
        for name, source in pairs.items():
            value, wanted = feeds[source], types[name]
            if isinstance(value, np.ndarray) and feed_files.onnx_type(value) != wanted:
                given = feed_files.onnx_type(value)
                if given not in CASTS or wanted not in CASTS:
                    what = f"input {name!r} of B is {wanted}, its partner {source!r} in A is {given}"
                    raise InputError(what, where="B", do="compare models whose inputs have the same types")
                value, same = value.astype(CASTS[wanted]), False
            changed[name] = value
            same = same and name == source
        if same:
            out.append(ref)
            continue
        place = folder / f"b-{i}"
        feed_files.write_feeds(place, changed)
        out.append(FeedRef(name=ref.name, path=str(place), weight=ref.weight))
    return tuple(out)


def rename_outputs(folder: Path, pairs: Mapping[str, str]) -> None:
    """Gives the outputs that a worker left the names that A's have."""
    path = folder / "outputs.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index["outputs"]:
        entry["name"] = pairs.get(entry["name"], entry["name"])
    path.write_text(json.dumps(index), encoding="utf-8")
