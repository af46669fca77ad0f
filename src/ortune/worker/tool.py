"""Process of a task other than a trial that needs ONNX Runtime itself, from one file to another.

It is started like a trial (``ortune-worker tool``) and uses the same JSON lines, one request and one answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any, Callable, Dict

from . import channels, confined, failures, fence, placement, protocol
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
    """Run one task and exit."""
    link = Link()
    failures.conclude(link, lambda: _run(link))


def _run(link: Link) -> None:
    protocol.die_with_parent()
    request = link.first_line()
    # Before ONNX Runtime is imported, and while there is one thread. If the fence is unsupported, or a library that
    # was loaded before has a thread, the model is opened without it, as in a trial.
    with contextlib.suppress(fence.Unfenced):
        confined.confine(request["fence"])
    link.listen()
    task = TASKS.get(request["task"])
    if task is None:
        raise Stop("unsupported", "unknown task %r" % request["task"])
    link.phase = "importing"
    ort = trial.import_onnxruntime()
    link.phase = "loading"
    what = task(ort, request)
    link.send("tool-done", version=protocol.VERSION, what=what, ort_version=ort.__version__)


def _optimize(ort: Any, request: Dict[str, Any]) -> str:
    """Create a session to save the graph that it optimises."""
    without = request["params"].get("without", "").replace("+", ";")
    applied = list(request["applied"])
    if without:
        from . import probes  # imports numpy

        named = {"knob": "without", "channel": "session_config", "key": probes.OPTIMIZERS, "value": without}
        probes.check_known_keys(ort, [named])
        applied = [item for item in applied if item["key"] != probes.OPTIMIZERS] + [named]
    settings = channels.apply(ort, applied)
    options, level = settings.session, request["params"]["level"]
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    options.optimized_model_filepath = request["output"]
    # Folding can make a small file larger than protobuf allows, and external data would otherwise stay a
    # reference to a file that is not in the output's folder.
    entry = "session.optimized_model_external_initializers_%s"
    options.add_session_config_entry(entry % "file_name", request["external_name"])
    options.add_session_config_entry(entry % "min_size_in_bytes", "1024")
    arguments = channels.session_arguments(ort, settings, request["providers"])
    _fit_platform(options, arguments, request["params"])
    session = ort.InferenceSession(request["model"], options, **arguments)
    trial._require_providers(session, request["providers"], ort.get_available_providers())
    if not os.path.exists(request["output"]):
        raise Stop("unsupported", "onnxruntime %s created the session and wrote no model" % ort.__version__)
    left_out = " without %s" % without.replace(";", ", ") if without else ""
    return "Saved the graph as onnxruntime %s optimises it at level %s%s." % (
        ort.__version__,
        level,
        left_out,
    )


def _compile(ort: Any, request: Dict[str, Any]) -> str:
    """Write a model in which the parts compiled by its provider are EPContext nodes."""
    settings = channels.apply(ort, request["applied"])
    options = settings.session
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", request["output"])
    options.add_session_config_entry("ep.context_embed_mode", "1")
    arguments = channels.session_arguments(ort, settings, request["providers"])
    started = time.perf_counter()
    session = ort.InferenceSession(request["model"], options, **arguments)
    took = time.perf_counter() - started
    trial._require_providers(session, request["providers"], ort.get_available_providers())
    if not os.path.exists(request["output"]):
        what = "onnxruntime %s created the session, and its execution provider saved no compiled part"
        raise Stop("unsupported", what % ort.__version__)
    megabytes = os.path.getsize(request["output"]) / 1e6
    return "Saved the parts that %s compiled in %.2f s: %.1f MB." % (
        ", ".join(p["name"] for p in request["providers"]),
        took,
        megabytes,
    )


def _fit_platform(options: Any, arguments: Dict[str, Any], params: Dict[str, str]) -> None:
    """Set the options of ONNX Runtime's converter for the request's platform, if it has one."""
    from . import ort_format

    if "platform" in params:
        arguments["disabled_optimizers"] = ort_format.fit_platform(options, params["platform"])


def _levels(ort: Any, request: Dict[str, Any]) -> str:
    """Save the graph optimised at each level, in one process, as ``<level>.onnx`` in the folder ``output``."""
    folder, levels = request["output"], request["params"]["levels"]
    # Applied once for all sessions: ONNX Runtime rejects a second global pool or arena in one process.
    settings = channels.apply(ort, request["applied"])
    options = settings.session
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    entry = "session.optimized_model_external_initializers_%s"
    options.add_session_config_entry(entry % "min_size_in_bytes", "1024")
    arguments = channels.session_arguments(ort, settings, request["providers"])
    _fit_platform(options, arguments, request["params"])
    for level in levels.split(","):
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
        options.optimized_model_filepath = os.path.join(folder, level + ".onnx")
        options.add_session_config_entry(entry % "file_name", level + ".data")
        session = ort.InferenceSession(request["model"], options, **arguments)
        trial._require_providers(session, request["providers"], ort.get_available_providers())
        if not os.path.exists(options.optimized_model_filepath):
            raise Stop(
                "unsupported", "onnxruntime %s created the session and wrote no model" % ort.__version__
            )
        # Only the graph is read, and four copies of a large model's weights would fill a disk.
        data = os.path.join(folder, level + ".data")
        if os.path.exists(data):
            # A file of the same length without content, so tensors are still found at their offsets.
            size = os.path.getsize(data)
            with open(data, "wb") as file:
                file.truncate(size)
        del session
    return "Saved the graph as onnxruntime %s optimises it at levels %s." % (ort.__version__, levels)


def _graphs(ort: Any, request: Dict[str, Any]) -> str:
    """Save the optimised graphs of several models, as ``<number>.onnx`` in the folder ``output``."""
    models = json.loads(request["params"]["models"])
    options = channels.apply(ort, request["applied"]).session
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    for i, model in enumerate(models):
        options.optimized_model_filepath = os.path.join(request["output"], "%d.onnx" % i)
        ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return "Saved %d graphs as onnxruntime %s optimises them." % (len(models), ort.__version__)


def _peaks(ort: Any, request: Dict[str, Any]) -> str:
    """Measure the machine's peaks; see ``peaks``, which imports numpy."""
    from . import peaks

    return peaks.measure(ort, request)


def _quantize(kind: str) -> Callable[[Any, Dict[str, Any]], str]:
    """Return the task that runs one of ONNX Runtime's quantizers; ``quantize`` imports it on first use."""

    def task(ort: Any, request: Dict[str, Any]) -> str:
        from . import quantize

        done: str = getattr(quantize, kind)(ort, request)
        return done

    return task


def _float16(ort: Any, request: Dict[str, Any]) -> str:
    """Run ONNX Runtime's converter to float16; ``float16`` imports it on first use."""
    from . import float16

    return float16.convert(ort, request)


def _graph_tool(name: str) -> Callable[[Any, Dict[str, Any]], str]:
    """Return the task that runs a tool for whole graphs; ``graph_tools`` imports the tool on first use."""

    def task(ort: Any, request: Dict[str, Any]) -> str:
        from . import graph_tools

        done: str = getattr(graph_tools, name)(ort, request)
        return done

    return task


def _metric(ort: Any, request: Dict[str, Any]) -> str:
    """Apply the user's metric to outputs; see ``metric``, which imports numpy."""
    from . import metric

    return metric.measure(request)


def _smooth(ort: Any, request: Dict[str, Any]) -> str:
    """Move the ranges of activations into weights; see ``smoothing``, which imports numpy."""
    from . import smoothing

    return smoothing.smooth(ort, request)


def _saturated(ort: Any, request: Dict[str, Any]) -> str:
    """Emulate the model on a processor without VNNI; see ``saturation``, which imports numpy."""
    from . import saturation

    return saturation.emulate(ort, request)


def _nncf(ort: Any, request: Dict[str, Any]) -> str:
    """Quantize the model with NNCF, write it to the request's output path, and return a sentence about it."""
    from . import nncf_quantizer

    return nncf_quantizer.quantize(ort, request)


def _openvino_layers(ort: Any, request: Dict[str, Any]) -> str:
    """Write the layers that OpenVINO compiled; see ``openvino_layers``, which loads OpenVINO's C library."""
    from . import openvino_layers

    return openvino_layers.ask(ort, request)


def _ort_format(ort: Any, request: Dict[str, Any]) -> str:
    """Write the model in ORT format; see ``ort_format``, which imports ONNX Runtime's converter."""
    from . import ort_format

    return ort_format.convert(ort, request)


TASKS: Dict[str, Callable[[Any, Dict[str, Any]], str]] = {
    "optimize": _optimize,
    "compile": _compile,
    "graphs": _graphs,
    "levels": _levels,
    "placement": placement.ask,
    "openvino-layers": _openvino_layers,
    "peaks": _peaks,
    "quantize-prepare": _quantize("prepare"),
    "quantize-dynamic": _quantize("dynamic"),
    "quantize-static": _quantize("static"),
    "quantize-weights": _quantize("weights"),
    "nncf": _nncf,
    "saturated": _saturated,
    "smooth": _smooth,
    "float16": _float16,
    "ort-format": _ort_format,
    "transformers": _graph_tool("transformers"),
    "onnxslim": _graph_tool("onnxslim"),
    "onnxsim": _graph_tool("onnxsim"),
    "onnxscript": _graph_tool("onnxscript"),
    "metric": _metric,
}
