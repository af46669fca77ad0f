"""Processes of Node.js that run ``runner.mjs`` with onnxruntime-node."""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ortune import launcher
from ortune.errors import RuntimeNotFound
from ortune.records import Applied, NodeRuntime
from ortune.runtimes import node
from ortune.targets.process import ProcessRunner
from ortune.targets.worker import Worker

RUNNER = "runner.mjs"


class InNode(Worker):
    """A worker that is a process of Node.js."""

    def open(self, settings: tuple[Applied, ...], arguments: Sequence[str] = ()) -> None:
        """Start the process; set ``end`` to an error if the runtime is remote or lacks onnxruntime-node."""
        if self.runtime.host is not None:
            self.end = self.error("unsupported", "Node.js on another machine is not supported")
            return
        try:
            self._node: NodeRuntime = self.runtime.node or node.find()
        except RuntimeNotFound as error:
            self.end = self.error("no-runtime", f"{error.what} -> {error.do}")
            return
        super().open(settings, arguments)

    def _child(
        self, program: str, settings: tuple[Applied, ...], arguments: Sequence[str], log: IO[bytes]
    ) -> launcher.Child:
        command = [self._node.program, "--expose-gc", program, self._node.folder, *arguments]
        # While a run blocks the event loop, the process cannot detect the end of ortune.
        return launcher.Child(
            command, environment=self.environment(settings), folder=self.folder, log=log, guarded=True
        )

    def program(self) -> Path:
        """Return the path of the script that Node.js runs."""
        place = self.scratch / RUNNER
        if not place.exists():
            part = self.folder / RUNNER
            part.write_bytes(
                importlib.resources.files("ortune").joinpath("targets", "node", RUNNER).read_bytes()
            )
            part.replace(place)
        return place


class NodeTrial(InNode, ProcessRunner):
    """Runner of a trial in a process of Node.js with onnxruntime-node; it takes turns like a worker."""
