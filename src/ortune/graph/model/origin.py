"""Where a converted model came from, kept in its own metadata, so that whoever gets the file can tell."""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from ortune.records import ConvertedFrom

KEY = "ortune.source"


def labelled(model: ir.Model, source: ConvertedFrom) -> ir.Model:
    """Return a copy of the model that says where it came from."""
    copy = model.clone()
    copy.metadata_props[KEY] = msgspec.json.encode(source).decode()
    return copy


def source_of(model: ir.Model) -> ConvertedFrom | None:
    """Return what a model says of where it came from; None if it says nothing that can be read."""
    try:
        return msgspec.json.decode(model.metadata_props.get(KEY, ""), type=ConvertedFrom)
    except (msgspec.MsgspecError, UnicodeError):
        return None
