"""Execution provider of each node: from a session, or from the log if the provider cannot compile them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from typing import Any, Callable, Dict, List, Tuple

from . import channels
from . import main as trial
from .protocol import Stop

CPU = "CPUExecutionProvider"
_VERDICT = re.compile(r"Validation (PASSED|FAILED) for \d+ nodes? in ")
_NODE = re.compile(r"^\s*Operator type: (\S+) Node name: (.*) Node index: \d+\s*$")
"""Log line of QNN's provider for a node that it is offered, before it compiles supported ones."""


def ask(ort: Any, request: Dict[str, Any]) -> str:
    """Write operator, name and provider of each node as JSON, and why the provider did not compile ("" if it did)."""
    settings = channels.apply(ort, request["applied"])
    for library in request["custom_ops"]:
        settings.session.register_custom_ops_library(library)
    arguments = channels.session_arguments(ort, settings, request["providers"])
    provider = request["providers"][0]["name"]
    nodes, not_compiled = nodes_of(ort, request["model"], settings.session, arguments, provider)
    with open(request["output"], "w", encoding="utf-8") as file:
        json.dump({"nodes": nodes, "not_compiled": not_compiled}, file)
    return "Asked onnxruntime %s where %d nodes run." % (ort.__version__, len(nodes))


def nodes_of(
    ort: Any, model: str, options: Any, arguments: Dict[str, Any], provider: str
) -> Tuple[List[List[str]], str]:
    """Return operator, name and provider of each node, and the reason why the provider did not compile, or ""."""
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        return _assigned(ort, ort.InferenceSession(model, options, **arguments)), ""
    except ort.capi.onnxruntime_pybind11_state.EPFail as error:
        nodes = _validated(ort, model, options, arguments, provider)
        if not nodes:
            raise
        return nodes, str(error)


def _assigned(ort: Any, session: Any) -> List[List[str]]:
    read = getattr(session, trial.PLACEMENT, None)
    if read is None:
        raise Stop(
            "unsupported", "onnxruntime %s does not report the provider of each node" % ort.__version__
        )
    return [[n.op_type, n.name, part.ep_name] for part in read() for n in part.get_nodes()]


def _validated(
    ort: Any, model: str, options: Any, arguments: Dict[str, Any], provider: str
) -> List[List[str]]:
    """Return operator, name and provider of each node, from the log of a session that cannot be created."""
    options.log_severity_level, options.log_verbosity_level = 0, 1

    def again() -> None:
        with contextlib.suppress(ort.capi.onnxruntime_pybind11_state.EPFail):
            ort.InferenceSession(model, options, **arguments)

    return verdicts(_logged(again), provider)


def verdicts(log: str, provider: str) -> List[List[str]]:
    """Return operator, name and provider of each node from the log of QNN's provider; the last entry counts."""
    place, nodes = CPU, {}
    for line in log.splitlines():
        verdict, node = _VERDICT.search(line), _NODE.match(line)
        if verdict:
            place = provider if verdict.group(1) == "PASSED" else CPU
        elif node:
            nodes[node.group(2)] = [node.group(1), node.group(2), place]
    return list(nodes.values())


def _logged(do: Callable[[], None]) -> str:
    """Return the text that a call writes to stderr, including the log of ONNX Runtime."""
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            do()
        finally:
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        return file.read().decode("utf-8", "replace")
