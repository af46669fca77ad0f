"""Values of recorded calls: what went in and what came out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ortune import files
from ortune.recorder.events import Row, Session, Text, parse

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallValues:
    """One call.

    Attributes:
        row: The number of its row in the log of its process.
        model: The sha256 or the path of the model.
    """

    row: int
    model: str
    inputs: dict[str, Array]
    outputs: tuple[Array, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The model and a digest of the inputs: equal calls of two runs have the same."""
        digest = hashlib.sha256()
        for name, value in sorted(self.inputs.items()):
            digest.update(f"{name} {value.dtype.str} {value.shape} ".encode())
            digest.update(value.tobytes())
        return self.model, digest.hexdigest()


def calls(folder: Path) -> Iterator[CallValues]:
    """Read the calls that all processes wrote with their values; a last one that is cut off is left out."""
    for path in sorted(folder.glob("*.values")):
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


def _models(log: Path) -> dict[int, str]:
    """Return the model of each row of a log."""
    events = list(parse(files.read(log)))
    texts = {event.id: json.loads(event.v) for event in events if isinstance(event, Text)}
    sessions = {event.id: texts[event.model] for event in events if isinstance(event, Session)}
    found = {}
    for event in events:
        if isinstance(event, Row) and event.session in sessions:
            model = sessions[event.session]
            found[event.key] = str(model.get("sha256") or model.get("path", ""))
    return found
