"""Fills in the inputs of a language model that follow from token ids, which the user's files may omit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ortune.graph.shapes.symbols import Size, kind_of_name
from ortune.inputs.declared import InputSet, InputSpec
from ortune.inputs.feed_files import Array
from ortune.inputs.feeds import FeedValue, numpy_dtype

_FOLLOW = frozenset({"mask", "past", "past-flag", "positions", "token-types"})


def filled(raw: Mapping[str, FeedValue], inputs: InputSet) -> dict[str, FeedValue]:
    """Return a set of inputs with the missing inputs that follow from its token ids.

    A missing past is empty, every token is attended to, positions continue the past, and token types are 0. Other
    missing inputs stay missing.
    """
    ids = [raw.get(spec.name) for spec in inputs.with_role("token-ids")]
    if len(ids) != 1 or not isinstance(ids[0], np.ndarray) or ids[0].ndim != 2:
        return dict(raw)
    batch, new = ids[0].shape
    past = _past(raw, inputs)
    if past is None:
        return dict(raw)
    sizes = {"batch": batch, "seq": new, "past": past, "total": past + new}
    left_out = [spec for spec in inputs.inputs if spec.name not in raw and spec.role in _FOLLOW]
    added = {spec.name: _value(spec, sizes) for spec in left_out}
    return {**raw, **{name: value for name, value in added.items() if value is not None}}


def _past(raw: Mapping[str, FeedValue], inputs: InputSet) -> int | None:
    """Return the length of the user's past, 0 without a past; None if a part of the past is missing."""
    specs = inputs.with_role("past")
    values = [raw[spec.name] for spec in specs if spec.name in raw]
    if not values:
        return 0
    first = values[0]
    if len(values) < len(specs) or not isinstance(first, np.ndarray) or "past" not in specs[0].kinds:
        return None
    return int(first.shape[specs[0].kinds.index("past")]) if first.ndim == len(specs[0].kinds) else None


def _value(spec: InputSpec, sizes: Mapping[str, int]) -> Array | None:
    """Return the values of one input; None if the size of an axis is unknown."""
    shape = list[int]()
    for dim, kind in zip(spec.shape, spec.kinds, strict=True):
        size = _size(dim, kind, sizes)
        if size is None:
            return None
        shape.append(size)
    dtype = numpy_dtype(spec.dtype, spec.name)
    if spec.role == "mask":
        return np.ones(shape, dtype)
    if spec.role == "positions":
        return np.broadcast_to(np.arange(sizes["past"], sizes["total"]), shape).astype(dtype)
    return np.zeros(shape, dtype)


def _size(dim: Size, kind: str, sizes: Mapping[str, int]) -> int | None:
    if dim.value is not None:
        return dim.value
    if len(dim.terms) == 1 and not dim.add:
        return sizes.get(kind)
    # "past_sequence_length + sequence_length": each symbol has the kind of its own name.
    parts = [(factor, sizes.get(kind_of_name(symbol))) for symbol, factor in dim.terms]
    known = [factor * size for factor, size in parts if size is not None]
    return dim.add + sum(known) if len(known) == len(parts) else None
