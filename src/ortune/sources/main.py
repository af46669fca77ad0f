"""The top frame of a framework's process: one answer to each request, until its stdin ends."""

from __future__ import annotations

import importlib
import os
import re
import time
from typing import Any

from ..worker import protocol
from ..worker.protocol import Link
from .source import Refused, Source

MODULES = {
    "torch": "torch_model",
    "tensorflow": "tensorflow_model",
    "tflite": "tensorflow_model",
    "fitted": "fitted_model",
}
"""What opens a source, by its kind; a closed list."""
_LONGEST = 2000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def main() -> None:
    """Answers one request after another: whatever goes wrong in one becomes its answer."""
    link = Link()
    protocol.die_with_parent()
    request = link.read_request()
    link.send("ready", version=protocol.VERSION, pid=os.getpid())
    opened: Source | None = None
    while True:
        began = time.monotonic()
        try:
            if request["do"] == "open":
                opened = _open(request)
                answer = _described(opened, request["example"])
            else:
                assert opened is not None
                answer = _export(opened, request) if request["do"] == "export" else _run(opened, request)
            link.send(answer.pop("message"), elapsed_s=time.monotonic() - began, **answer)
        except Refused as error:
            link.send("failed", reason="refused", what=error.what, do=error.do)
        except MemoryError as error:
            link.send("failed", reason="out-of-memory", what=str(error) or "MemoryError")
        except Exception as error:  # a source that fails is data
            link.send("failed", reason="failed", what=_words(error))
        request = link.next_command()


def _open(request: dict[str, Any]) -> Source:
    os.chdir(request["folder"])
    module = importlib.import_module("." + MODULES[request["kind"]], __package__)
    opened: Source = module.open_source(request)
    return opened


def _described(source: Source, example: str) -> dict[str, Any]:
    import numpy as np

    if source.example:
        np.savez(example, **source.example)
    return {
        "message": "opened",
        "kind": source.kind,
        "versions": source.versions,
        "exporters": list(source.exporters),
        "inputs": [{"name": i.name, "type": i.type, "shape": list(i.shape)} for i in source.inputs],
        "example": bool(source.example),
    }


def _export(source: Source, request: dict[str, Any]) -> dict[str, Any]:
    dynamic = {
        name: {int(axis): text for axis, text in axes.items()} for name, axes in request["dynamic"].items()
    }
    done = source.export(request["exporter"], dynamic, request["opset"], request["output"])
    return {"message": "exported", "inputs": dict(done.inputs), "messages": list(done.messages)}


def _run(source: Source, request: dict[str, Any]) -> dict[str, Any]:
    from ..worker import values

    for case in request["feeds"]:
        feeds, _ = values.read_feeds(case["path"])
        named = {request["inputs"].get(name, name): value for name, value in feeds.items()}
        outputs = source.run(named)
        folder = os.path.join(request["output"], case["name"])
        types = ["tensor(%s)" % _element(value) for _, value in outputs]
        values.write_outputs(folder, [name for name, _ in outputs], types, [value for _, value in outputs])
    return {"message": "ran", "outputs": [name for name, _ in outputs] if request["feeds"] else []}


def _element(value: Any) -> str:
    from .source import onnx_type

    return onnx_type(value.dtype)


def _words(error: BaseException) -> str:
    """What was raised first: exporters wrap it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = _COLOURS.sub("", str(error)).strip()
    return ("%s: %s" % (type(error).__name__, text))[:_LONGEST]
