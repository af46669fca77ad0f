"""Two models, one set of inputs: which input of B takes which of A's, and the same for outputs.

Numbers of one kind alone are joined: token ids are no float, whatever their shape and their name.
"""

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
from ortune.trials.output_files import family

CASTS = {
    "float": np.float32,
    "float16": np.float16,
    "double": np.float64,
    "int32": np.int32,
    "int64": np.int64,
}


def pair_inputs(
    a: onnx_ir.Model, b: onnx_ir.Model, given: Mapping[str, str], name: str = "B"
) -> dict[str, str]:
    """B's input -> A's input: as given, then by name, then by order among those left with a shape and kind that fit.

    Args:
        a: Whose inputs are there.
        b: Whose are wanted.
        given: As the user pairs them, A's -> B's.
        name: What B is called.

    Raises:
        InputError: An input of B is left without a partner, or a given name does not exist.
    """
    theirs, ours = feedable(a), feedable(b)
    their_names, our_names = [v.name for v in theirs], [v.name for v in ours]
    pairs: dict[str, str] = {}
    for left, right in given.items():
        if left not in their_names or right not in our_names:
            missing, side = (left, "A") if left not in their_names else (right, name)
            names = ", ".join(map(str, their_names if side == "A" else our_names))
            raise InputError(f"{side} has no input {missing!r}", where="--map", do=f"its inputs are {names}")
        pairs[right] = left
    for each in our_names:
        if each not in pairs and each in their_names and each not in pairs.values():
            pairs[str(each)] = str(each)
    free = [v for v in theirs if v.name not in pairs.values()]
    for value in ours:
        if value.name in pairs:
            continue
        partner = next((v for v in free if _fits(v, value)), None)
        if partner is None:
            raise InputError(
                f"no input of A fits input {value.name!r} of {name}, which is {dtype_of(value)}",
                where=name,
                do=f"--map NAME_IN_A={value.name}",
            )
        pairs[str(value.name)] = str(partner.name)
        free.remove(partner)
    return pairs


def pair_outputs(a: onnx_ir.Model, b: onnx_ir.Model) -> dict[str, str]:
    """B's output -> A's output: by name, then by order among those left with a shape and kind that fit."""
    theirs = {str(v.name): v for v in a.graph.outputs}
    ours = {str(v.name): v for v in b.graph.outputs}
    pairs = {name: name for name in ours if name in theirs}
    free = [name for name in theirs if name not in pairs]
    for name, value in ours.items():
        partner = next((each for each in free if name not in pairs and _fits(theirs[each], value)), None)
        if partner is not None:
            pairs[name] = partner
            free.remove(partner)
    return pairs


def _kind(value: onnx_ir.Value) -> str | None:
    """Numbers of one kind may stand for each other; None where the type is not told, or is no tensor's."""
    if not isinstance(value.type, onnx_ir.TensorType) or value.type.dtype.name == "UNDEFINED":
        return None
    return family(dtype_of(value))


def _fits(a: onnx_ir.Value, b: onnx_ir.Value) -> bool:
    kinds = _kind(a), _kind(b)
    if None not in kinds and kinds[0] != kinds[1]:
        return False
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
    """A's feeds under B's names and in B's number types; the same folders where nothing has to change.

    Raises:
        InputError: The values of an input of A are none for its partner in B.
    """
    types = {str(v.name): dtype_of(v) for v in feedable(model)}
    out = []
    for i, ref in enumerate(refs):
        feeds = feed_files.read_feeds(Path(ref.path))
        changed: dict[str, FeedValue] = {}
        same = pairs.keys() == feeds.keys()
        for ours, source in pairs.items():
            value, wanted = feeds[source], types[ours]
            if isinstance(value, np.ndarray) and feed_files.onnx_type(value) != wanted:
                given = feed_files.onnx_type(value)
                if given not in CASTS or wanted not in CASTS or family(given) != family(wanted):
                    what = f"input {ours!r} of {name} is {wanted}, its partner {source!r} in A is {given}"
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


def rename_outputs(folder: Path, pairs: Mapping[str, str]) -> None:
    """Gives the outputs that a worker left the names that A's have."""
    path = folder / "outputs.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index["outputs"]:
        entry["name"] = pairs.get(entry["name"], entry["name"])
    path.write_text(json.dumps(index), encoding="utf-8")
