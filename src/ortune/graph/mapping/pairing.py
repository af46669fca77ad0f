"""Matching of nodes between two versions of a model that was edited or exported again.

Names are unreliable: exporters count, so one additional node renames all that follow. The nodes of both files are
therefore aligned in order to maximize similarity; equal names only decide between equally good alignments. Remaining
nodes are matched by name, since they were moved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import signature, small_contents
from ortune.graph.mapping.model_view import GraphStep, ModelView, Value

Codes = np.ndarray[Any, np.dtype[np.int64]]

_MOST_CELLS = 16_000_000
"""Maximum number of cells of the alignment table; models with larger differences are matched only by name."""
_HEAD = 16  # leading numbers of a weight that are compared


def counterparts(a: ir.Model, b: ir.Model) -> dict[str, str]:
    """Map the name of each matched node of ``b`` to the name of the same node in ``a``."""
    mine, theirs = ModelView(a).steps, ModelView(b).steps
    codes: dict[Hashable, int] = {}
    traits = _traits(mine, codes), _traits(theirs, codes)
    moved = _bind(*traits)
    pairs = dict(_aligned(*traits))
    pairs |= {i: j for i, j in moved.items() if i not in pairs}
    for key in (_name, _outputs):
        met = set(pairs.values())
        left = _unique_keys(key, [(i, step) for i, step in enumerate(mine) if i not in pairs])
        right = _unique_keys(key, [(j, step) for j, step in enumerate(theirs) if j not in met])
        pairs |= {left[name]: right[name] for name in left.keys() & right.keys()}
    return {theirs[j].name: mine[i].name for i, j in pairs.items()}


def _name(step: GraphStep) -> Hashable:
    return step.own_name or None


def _outputs(step: GraphStep) -> Hashable:
    return (step.op_type, *(value.name for value in step.outputs)) if step.outputs else None


def _unique_keys(
    key: Callable[[GraphStep], Hashable], steps: Iterable[tuple[int, GraphStep]]
) -> dict[Hashable, int]:
    """Map each unique key to the index of its step; keys that are None are omitted."""
    places_of: dict[Hashable, list[int]] = {}
    for place, step in steps:
        places_of.setdefault(key(step), []).append(place)
    return {name: places[0] for name, places in places_of.items() if name is not None and len(places) == 1}


def _bind(a: Codes, b: Codes) -> dict[int, int]:
    """Give steps that are unique on both sides their own operator code, in place, and return their index pairs."""
    places = []
    for side in (a, b):
        codes, first, counts = np.unique(side[:, _SAME], return_index=True, return_counts=True)
        places.append(dict(zip(codes[counts == 1].tolist(), first[counts == 1].tolist(), strict=True)))
    pairs = {places[0][code]: places[1][code] for code in places[0].keys() & places[1].keys()}
    for side, rows in ((a, list(pairs)), (b, list(pairs.values()))):
        # With a unique operator code, the step matches only its partner, wherever that is.
        side[rows, _OPERATOR] = side[rows, _SAME]
    return pairs


def _aligned(a: Codes, b: Codes) -> list[tuple[int, int]]:
    """Return index pairs of the alignment, in increasing order on both sides."""
    n = min(len(a), len(b))
    # Edited models differ in a few places; without the equal ends, the table is small.
    head = _equal_from_start(a[:n, _SAME], b[:n, _SAME])
    tail = _equal_from_start(a[::-1, _SAME][: n - head], b[::-1, _SAME][: n - head])
    ends = len(a) - tail, len(b) - tail
    pairs = [(i, i) for i in range(head)]
    pairs += [(head + i, head + j) for i, j in _best(a[head : ends[0]], b[head : ends[1]])]
    return pairs + [(ends[0] + i, ends[1] + i) for i in range(tail)]


_OPERATOR, _KIND, _SAME, _NAME, _MADE = range(5)


def _traits(steps: Sequence[GraphStep], codes: dict[Hashable, int]) -> Codes:
    """Return the codes by which steps are compared, of shape (steps, 5); equal traits have equal codes."""
    codes_of = np.zeros((len(steps), 5), dtype=np.int64)
    same: dict[GraphStep | None, Hashable] = {}
    for row, step in enumerate(steps):
        operator = (step.domain, step.op_type)
        stored = [value for value in step.reads() if value.constant]
        kind = (
            operator,
            signature(step.node, small_contents) if not step.bodies else (),
            tuple(map(_shape, stored)),
        )
        # A step without weights is identified by its predecessors.
        beside = tuple(map(_head, stored)) or tuple(same.get(value.step) for value in step.reads())
        same[step] = codes.setdefault((kind, beside), len(codes))
        keys = (operator, kind, (kind, beside), _name(step) or step, _outputs(step) or step)
        codes_of[row] = [codes.setdefault(key, len(codes)) for key in keys]
    return codes_of


def _shape(value: Value) -> Hashable:
    tensor = value.tensor
    return None if tensor is None else (tensor.dtype, tuple(tensor.shape.numpy()))


def _head(value: Value) -> Hashable:
    tensor = value.tensor
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.numpy().reshape(-1)[:_HEAD].tobytes()


def _equal_from_start(a: Codes, b: Codes) -> int:
    unequal = np.flatnonzero(a != b)
    return int(unequal[0]) if len(unequal) else len(a)


def _best(a: Codes, b: Codes) -> list[tuple[int, int]]:
    """Return the alignment with the highest total score; empty if the table would be too large."""
    if not len(a) or not len(b) or len(a) * len(b) > _MOST_CELLS:
        return []
    # Weighted longest common subsequence: each cell is the best score of two prefixes.
    best = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for row, traits in enumerate(a):
        met = best[row, :-1] + _scores(traits, b)
        np.maximum.accumulate(np.maximum(best[row, 1:], met), out=best[row + 1, 1:])
    pairs = []
    i, j = len(a), len(b)
    while i and j:
        if best[i, j] == best[i - 1, j]:
            i -= 1
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]


def _scores(traits: Codes, others: Codes) -> Codes:
    """Return the similarity of a step to each step in ``others``; 0 for different operators."""
    equal = (others == traits).astype(np.int64)
    # Equal names add at most 2 n over all pairs, so one more common trait outweighs them.
    grade = equal[:, _OPERATOR] + equal[:, _KIND] + equal[:, _SAME]
    scores: Codes = grade * (2 * len(others) + 1) + equal[:, _OPERATOR] * (equal[:, _NAME] + equal[:, _MADE])
    return scores
