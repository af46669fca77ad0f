"""Sizes that shape inference cannot determine (``NonZero``, ``Range`` and others), observed in one profiled run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import onnx_ir as ir
from onnx import GraphProto

from ortune.engines.locks.snapshot.memory import Sizes
from ortune.engines.locks.snapshot.structure import all_nodes
from ortune.graph.shapes.types import n_bytes

_SUFFIX = "_kernel_time"


def observed_sizes(profile: Path, graph: GraphProto) -> Sizes:
    """Return the bytes of a run's values by name, from the shapes in the profile; {} if the profile cannot be read."""
    try:
        events = json.loads(profile.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return {}
    outputs_of = {n.name: [o for o in n.output if o] for n in all_nodes(graph)}
    # Two nodes with one name cannot be distinguished in a profile.
    twice = {
        name for name, count in Counter(n.name for n in all_nodes(graph)).items() if count > 1 or not name
    }
    sizes: Sizes = {}
    for event in events if isinstance(events, list) else ():
        name = str(event.get("name", "")).removesuffix(_SUFFIX)
        if event.get("cat") != "Node" or name in twice or name not in outputs_of:
            continue
        shapes = event.get("args", {}).get("output_type_shape", [])
        if len(shapes) != len(outputs_of[name]):
            continue  # some outputs are not tensors, and it is unknown which
        for value, entry in zip(outputs_of[name], shapes, strict=True):
            size = _size(entry)
            if size is not None:
                # A loop computes the same value many times: the largest counts.
                sizes[value] = max(size, sizes.get(value, 0))
    return sizes


def _size(entry: dict[str, Any]) -> int | None:
    for kind, dims in entry.items():
        if kind.upper() in ir.DataType.__members__:
            return n_bytes(ir.DataType[kind.upper()], dims)
    return None
