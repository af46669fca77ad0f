"""Inputs and outputs of recorded calls."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ortune import files
from ortune.recorder.events import Row, Session, Text, parse
from ortune.records import RecordedModel, RecordedTensor, RecordedValues

Array = NDArray[Any]
MOST_BYTES = 64 << 20
"""Maximum total size of all recorded inputs in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallValues:
    """Inputs and outputs of one call.

    Attributes:
        row: Number of the call's row in the log of its process.
        model: The sha256 or the path of the model; "" if unknown.
    """

    row: int
    model: str
    inputs: dict[str, Array]
    outputs: tuple[Array, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The model and a digest of the inputs; the same for equal calls of different runs."""
        digest = hashlib.sha256()
        for name, value in sorted(self.inputs.items()):
            digest.update(f"{name} {value.dtype.str} {value.shape} ".encode())
            digest.update(value.tobytes())
        return self.model, digest.hexdigest()


def calls(folder: Path) -> Iterator[CallValues]:
    """Yield the calls of all processes whose values were stored; a truncated last call of a process is skipped."""
    for path in sorted(folder.glob("*.values")):
        yield from _calls_of(path)


def _calls_of(path: Path) -> Iterator[CallValues]:
    """Yield the calls of one process."""
    models = _models(path.with_suffix(".log"))
    data, at = files.read(path), 0
    while (end := data.find(b"\n", at)) >= 0:
        head = json.loads(data[at:end])
        at = end + 1
        arrays = []
        for dtype, shape in [each[-2:] for each in (*head["inputs"], *head["outputs"])]:
            size = int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
            if at + size > len(data):
                return
            arrays.append(np.frombuffer(data, dtype, size // np.dtype(dtype).itemsize, at).reshape(shape))
            at += size
        names = [each[0] for each in head["inputs"]]
        yield CallValues(
            row=head["row"],
            model=models.get(head["row"], ""),
            inputs=dict(zip(names, arrays, strict=False)),
            outputs=tuple(arrays[len(names) :]),
        )


def inputs_of(folder: Path, models: Sequence[RecordedModel], most: int) -> tuple[RecordedValues, ...]:
    """Return distinct inputs of calls, limited in number per model and combination of shapes.

    The total size is at most ``MOST_BYTES``; calls that exceed it are skipped.

    Args:
        folder: Folder of a recording with values.
        models: The recorded models.
        most: Maximum number per model and combination of shapes.
    """
    numbers = {
        name: number for number, each in enumerate(models) for name in (each.path, each.sha256) if name
    }
    seen: set[tuple[str, str]] = set()
    shapes: Counter[object] = Counter()
    found: list[RecordedValues] = []
    size = 0
    for call in calls(folder):
        shape = (call.model, tuple((name, value.shape) for name, value in sorted(call.inputs.items())))
        if call.model not in numbers or call.key in seen or shapes[shape] >= most:
            continue
        n_bytes = sum(value.nbytes for value in call.inputs.values())
        if size + n_bytes > MOST_BYTES:
            continue
        seen.add(call.key)
        shapes[shape] += 1
        size += n_bytes
        found.append(
            RecordedValues(model=numbers[call.model], inputs=tuple(map(_tensor, call.inputs.items())))
        )
    return tuple(found)


def _tensor(item: tuple[str, Array]) -> RecordedTensor:
    name, value = item
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return RecordedTensor(name=name, dtype=value.dtype.name, shape=value.shape, data=little.tobytes())


def _models(log: Path) -> dict[int, str]:
    """Return the sha256 or the path of the model of each row in a log, by row number."""
    events = list(parse(files.read(log)))
    texts = {event.id: json.loads(event.v) for event in events if isinstance(event, Text)}
    sessions = {event.id: texts[event.model] for event in events if isinstance(event, Session)}
    found = {}
    for event in events:
        if isinstance(event, Row) and event.session in sessions:
            model = sessions[event.session]
            found[event.key] = str(model.get("sha256") or model.get("path", ""))
    return found
