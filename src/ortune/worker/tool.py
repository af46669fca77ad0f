"""The tool process: what must be done by ONNX Runtime itself and is no trial, from one file to another.

It is started like a trial (``ortune-worker.pyz tool``) and speaks the same JSON lines, one request and one answer.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Dict

from . import channels, protocol
from . import main as trial
from .protocol import Link, Stop

LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "layout": "ORT_ENABLE_LAYOUT",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "disable": "ORT_DISABLE_ALL",
}


def main() -> None:
    """The tool's top frame: whatever goes wrong becomes one message."""
    link = Link()
    try:
        protocol.die_with_parent()
        _run(link, link.read_request())
    except Stop as stop:
        link.send("error", reason=stop.reason, what=stop.what, phase=link.phase, knob=stop.knob)
    except MemoryError as error:
        link.send("error", reason="out-of-memory", what=str(error) or "MemoryError", phase=link.phase)
    except BrokenPipeError:
        pass  # nobody is left to tell
    except Exception as error:  # the one broad except: a task's failure is data
        link.send("error", reason=_reason(error), what=_first_lines(error), phase=link.phase)
    sys.stdout.flush()
    os._exit(0)


def _run(link: Link, request: Dict[str, Any]) -> None:
    task = TASKS.get(request["task"])
    if task is None:
        raise Stop("unsupported", "this worker knows no task %r" % request["task"])
    link.phase = "importing"
    ort = trial._import_onnxruntime()
    link.phase = "loading"
    what = task(ort, request)
    link.send("tool-done", version=protocol.VERSION, what=what, ort_version=ort.__version__)


def _optimize(ort: Any, request: Dict[str, Any]) -> str:
    """Creates a session for the sake of the graph that it optimises and saves."""
    settings = channels.apply(ort, request["applied"])
    options, level = settings.session, request["params"]["level"]
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    options.optimized_model_filepath = request["output"]
    # Folding can make a small file larger than protobuf allows, and what lies in external data would otherwise
    # stay a reference to a file that is not beside the output.
    entry = "session.optimized_model_external_initializers_%s"
    options.add_session_config_entry(entry % "file_name", request["external_name"])
    options.add_session_config_entry(entry % "min_size_in_bytes", "1024")
    providers = channels.providers(request["providers"], settings.provider_options)
    session = ort.InferenceSession(request["model"], options, providers=providers)
    trial._require_providers(session, request["providers"])
    if not os.path.exists(request["output"]):
        raise Stop("unsupported", "onnxruntime %s created the session and wrote no model" % ort.__version__)
    return "Saved the graph as onnxruntime %s optimises it at level %s." % (ort.__version__, level)


def _levels(ort: Any, request: Dict[str, Any]) -> str:
    """Saves the graph at each level, in one process, and says where ONNX Runtime placed the nodes of one.

    ``output`` is a folder: ``<level>.onnx`` with its data, and ``placement.json`` ({} where the build does not tell).
    """
    placed = {}  # type: Dict[str, int]
    folder, params = request["output"], request["params"]
    for level in params["levels"].split(","):
        settings = channels.apply(ort, request["applied"])
        options = settings.session
        for library in request["custom_ops"]:
            options.register_custom_ops_library(library)
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
        options.optimized_model_filepath = os.path.join(folder, level + ".onnx")
        entry = "session.optimized_model_external_initializers_%s"
        options.add_session_config_entry(entry % "file_name", level + ".data")
        options.add_session_config_entry(entry % "min_size_in_bytes", "1024")
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        providers = channels.providers(request["providers"], settings.provider_options)
        session = ort.InferenceSession(request["model"], options, providers=providers)
        trial._require_providers(session, request["providers"])
        if not os.path.exists(options.optimized_model_filepath):
            raise Stop(
                "unsupported", "onnxruntime %s created the session and wrote no model" % ort.__version__
            )
        if level == params["placement"]:
            placed = _placement(session)
        # Only the graph is looked at, and four copies of a large model's weights would fill a disk.
        data = os.path.join(folder, level + ".data")
        if os.path.exists(data):
            os.unlink(data)
        del session
    with open(os.path.join(folder, "placement.json"), "w", encoding="utf-8") as file:
        json.dump(placed, file)
    return "Saved the graph as onnxruntime %s optimises it at levels %s." % (
        ort.__version__,
        params["levels"],
    )


def _placement(session: Any) -> Dict[str, int]:
    """Nodes by execution provider, where this build of ONNX Runtime keeps account of it."""
    found = {}  # type: Dict[str, int]
    if hasattr(session, "get_provider_graph_assignment_info"):
        for part in session.get_provider_graph_assignment_info():
            found[part.ep_name] = found.get(part.ep_name, 0) + len(part.get_nodes())
    return found


TASKS: Dict[str, Callable[[Any, Dict[str, Any]], str]] = {"optimize": _optimize, "levels": _levels}


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and trial._disk_full(error):
        return "disk-full"
    return trial._reason(error, "loading")


def _first_lines(error: Exception) -> str:
    return ("%s: %s" % (type(error).__name__, error))[:2000]
