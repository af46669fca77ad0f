"""Tools that rewrite a whole graph: ONNX Runtime's own for transformers, and others of a closed list.

Each is imported when it is asked for, from the environment that is measured. None is ever installed by ortune.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any, Dict, List

from .protocol import Stop

INLINE_LIMIT_BYTES = 1 << 30  # weights beyond it lie in a file beside the model: protobuf holds 2 GB


def transformers(ort: Any, request: Dict[str, Any]) -> str:
    """ONNX Runtime's fusions for transformers, on the graph with its constants folded."""
    onnx = imported("onnx", ort)
    logging.disable(logging.WARNING)
    optimizer = imported("onnxruntime.transformers.optimizer", ort)
    fusion = imported("onnxruntime.transformers.fusion_options", ort)
    params = request["params"]
    model = onnx.load(_folded(ort, request))
    before = _own(model)
    options = fusion.FusionOptions(params["model"])
    # These two change more than the order of sums: positions taken for granted, and a mask cut to a length.
    options.enable_embed_layer_norm = False
    if options.attention_mask_format == fusion.AttentionMaskFormat.MaskIndexEnd:
        options.use_raw_attention_mask(True)
    heads, hidden = int(params["heads"]), int(params["hidden"])
    made = optimizer.optimize_by_fusion(model, params["model"], heads, hidden, options).model
    fused = _own(made)
    gained = {kind: n - before.get(kind, 0) for kind, n in fused.items() if n > before.get(kind, 0)}
    if not gained:
        # Constants that were folded on the way are no reason to write another model.
        _save(onnx, onnx.load(request["model"]), request["output"])
        return "Nothing was fused."
    if "com.microsoft" not in {each.domain for each in made.opset_import}:
        made.opset_import.add(domain="com.microsoft", version=1)
    _require_same_signature(onnx.load(request["model"], load_external_data=False), made)
    _save(onnx, made, request["output"])
    listed = ", ".join("%d %s" % (gained[kind], kind) for kind in sorted(gained))
    return "Fused %s (onnxruntime.transformers %s, as %s)." % (listed, ort.__version__, params["model"])


def onnxslim(ort: Any, request: Dict[str, Any]) -> str:
    """The graph as onnxslim simplifies it."""
    tool, onnx = imported("onnxslim", ort), imported("onnx", ort)
    given = onnx.load(request["model"])
    made = tool.slim(request["model"])
    _require_same_signature(given, made)
    _save(onnx, made, request["output"])
    return "Simplified by onnxslim %s: %d nodes of %d." % (
        getattr(tool, "__version__", ""),
        len(made.graph.node),
        len(given.graph.node),
    )


def onnxscript(ort: Any, request: Dict[str, Any]) -> str:
    """The graph as the optimiser of onnxscript leaves it."""
    tool, onnx = imported("onnxscript.optimizer", ort), imported("onnx", ort)
    given = onnx.load(request["model"])
    made = tool.optimize(given)
    _require_same_signature(given, made)
    _save(onnx, made, request["output"])
    return "Optimised by onnxscript %s: %d nodes of %d." % (
        getattr(imported("onnxscript", ort), "__version__", ""),
        len(made.graph.node),
        len(given.graph.node),
    )


def imported(name: str, ort: Any) -> Any:
    """A module of the environment; where it is not there, what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = (error.name or name).split(".")[0]
        raise Stop(
            "unsupported",
            "this needs the package %s in the environment of onnxruntime %s: pip install %s there"
            % (missing, ort.__version__, missing),
        ) from error


def _folded(ort: Any, request: Dict[str, Any]) -> str:
    """The model with constants folded and nothing fused for this machine: the fusions look for weights as such."""
    path: str = request["output"] + ".folded.onnx"
    options = ort.SessionOptions()
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = path
    entry = "session.optimized_model_external_initializers_%s"
    options.add_session_config_entry(entry % "file_name", os.path.basename(path) + ".data")
    options.add_session_config_entry(entry % "min_size_in_bytes", "1024")
    ort.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])
    return path


def _own(model: Any) -> Dict[str, int]:
    """How many of each of ONNX Runtime's own operators, and of normalisations, a graph holds."""
    found: Dict[str, int] = {}
    for node in model.graph.node:
        if node.domain == "com.microsoft" or node.op_type.endswith("LayerNormalization"):
            found[node.op_type] = found.get(node.op_type, 0) + 1
    return found


def _require_same_signature(given: Any, made: Any) -> None:
    """That the new model is called as the old one was."""

    def names(values: Any) -> List[str]:
        return [value.name for value in values]

    weights = set(names(given.graph.initializer))
    wanted = [name for name in names(given.graph.input) if name not in weights]
    found = [name for name in names(made.graph.input) if name not in weights]
    if wanted != found or names(given.graph.output) != names(made.graph.output):
        raise Stop("unsupported", "the tool changed the inputs or outputs of the model")


def _save(onnx: Any, model: Any, path: str) -> None:
    """One file, or the weights beside it where they are large."""
    large = model.ByteSize() > INLINE_LIMIT_BYTES
    if large:
        onnx.save(model, path, save_as_external_data=True, location=os.path.basename(path) + ".data")
    else:
        onnx.save(model, path)
