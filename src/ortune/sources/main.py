"""The main loop of a framework's process: one answer to each request, until its stdin ends."""

from __future__ import annotations

import os
import time
from typing import Any

from ..worker import confined as fenced
from ..worker import failures, protocol
from ..worker.fence import Unfenced
from ..worker.protocol import Link
from . import confined, trial
from .source import Source, SourceRefused
from .trial import cause, first_error_text

_HELPS = {
    "out-of-memory": "free memory, and try again",
    "disk-full": "free space in the folder of temporary files, or set TMPDIR to another one",
}
"""Advice for failures that are not the source's fault, by reason: the machine lacks memory or disk space."""


def main() -> None:
    """Answer one request after another; any error of a request becomes its answer."""
    link = Link()
    protocol.die_with_parent()
    request = link.first_line()
    lacking = ""
    try:
        # Before importing a framework, while the process has only one thread.
        fenced.confine(request["fence"])
    except Unfenced as error:
        lacking = "this system cannot confine the source: %s" % error
    link.listen()
    if request["do"] == "time":
        trial.run(request, link, lacking)
    if lacking:
        link.send("failed", reason="unfenced", what=lacking, do=confined.TRUST)
        request = link.next_command()
    is_confined = request.get("fence") is not None
    link.send("ready", version=protocol.VERSION, pid=os.getpid())
    opened: Source | None = None
    while True:
        began = time.monotonic()
        try:
            if request["do"] == "open":
                opened = trial.open_source(request)
                answer = _described(opened, request["example"])
            else:
                assert opened is not None
                answer = _export(opened, request) if request["do"] == "export" else _run(opened, request)
            link.send(answer.pop("message"), elapsed_s=time.monotonic() - began, **answer)
        except SourceRefused as error:
            link.send("failed", reason="refused", what=error.what, do=error.do)
        except Exception as error:  # a source that fails is data
            reason = failures.reason(cause(error), "running")
            known = _HELPS.get(reason, "")
            do = known or (confined.advice(error) if is_confined else "")
            link.send("failed", reason=reason if known else "failed", what=first_error_text(error), do=do)
        request = link.next_command()


def _described(source: Source, example: str) -> dict[str, Any]:
    import numpy as np

    if source.example:
        np.savez(example, **source.example)
    return {
        "message": "opened",
        "kind": source.kind,
        "framework": source.framework,
        "styles": list(source.styles),
        "left_out": source.left_out,
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
        outputs = source.outputs_of(source.prepared(named)(), named)
        folder = os.path.join(request["output"], case["name"])
        types = [trial.type_of(value) for _, value in outputs]
        values.write_outputs(folder, [name for name, _ in outputs], types, [value for _, value in outputs])
    return {"message": "ran", "outputs": [name for name, _ in outputs] if request["feeds"] else []}
