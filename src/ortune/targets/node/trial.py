"""A trial that runs as a process of Node.js."""

from __future__ import annotations

from ortune.targets.node.process import InNode
from ortune.targets.process import ProcessRunner


class NodeTrial(InNode, ProcessRunner):
    """Runner of a trial in a process of Node.js with onnxruntime-node; it takes turns like a worker."""
