"""Player of a recorded application's process in Node.js, with onnxruntime-node."""

from __future__ import annotations

import os

from ortune.records import PlayRequest
from ortune.targets.node.process import InNode
from ortune.targets.worker import Message, Worker


class NodePlayer(InNode, Worker):
    """Plays the steps of one recorded process in Node.js."""

    def send(self, message: Message) -> None:
        """Send a message; the affinity of a request is set from here, because Node.js cannot set its own."""
        if isinstance(message, PlayRequest) and self.child is not None:
            for setting in message.applied:
                if setting.key != "affinity":
                    continue
                try:
                    os.sched_setaffinity(self.child.pid, map(int, str(setting.value).split(",")))
                except (OSError, AttributeError) as error:  # the system has no such CPU, or no such function
                    self.end = self.error("not-applied", f"affinity {setting.value} was refused: {error}")
                    self.close()
                    return
        super().send(message)
