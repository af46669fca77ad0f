"""Source of a converted model, which is recorded in the model's metadata."""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from ortune.records import ConvertedFrom

KEY = "ortune.source"


def labelled(model: ir.Model, source: ConvertedFrom) -> ir.Model:
    """Return a copy of the model with ``source`` recorded in the metadata."""
    copy = model.clone()
    copy.metadata_props[KEY] = msgspec.json.encode(source).decode()
    return copy


def source_of(model: ir.Model) -> ConvertedFrom | None:
    """Return the source recorded in a model's metadata; None if it is missing or unreadable."""
    try:
        return msgspec.json.decode(model.metadata_props.get(KEY, ""), type=ConvertedFrom)
    except (msgspec.MsgspecError, UnicodeError):
        return None
