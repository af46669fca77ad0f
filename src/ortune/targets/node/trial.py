"""A trial that is a process of Node.js, which takes turns as a worker does."""

from __future__ import annotations

from ortune.targets.node.process import InNode
from ortune.targets.process import ProcessRunner


class NodeTrial(InNode, ProcessRunner):
    """A runner that is a process of Node.js with onnxruntime-node."""
