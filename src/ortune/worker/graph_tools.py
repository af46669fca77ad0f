"""Tools that rewrite a whole graph: ONNX Runtime's transformer fusions, and a closed list of other packages.

Each is imported on first use from the measured environment. ortune never installs them.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any, Dict, Iterator, List

from .protocol import Stop

NORMALIZATION_OPSET = 17
INLINE_LIMIT_BYTES = 1 << 30  # larger weights are stored as external data: protobuf is limited to 2 GB


def is_large(model: Any) -> bool:
    """Return whether a model's weights should be stored as external data; the weights need not be loaded.

    Elements are counted, because protobuf's byte count fails above 2 GB.
    """
    return sum(map(_bytes, stored_tensors(model.graph))) > INLINE_LIMIT_BYTES


def _bytes(tensor: Any) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    return count * _ELEMENT_BYTES.get(tensor.data_type, 4)


_ELEMENT_BYTES = {
    2: 1, 3: 1, 4: 2, 5: 2, 7: 8, 8: 0, 9: 1, 10: 2, 11: 8, 13: 8, 14: 8, 15: 16, 16: 2, 17: 1, 18: 1, 19: 1, 20: 1,
}  # fmt: skip
"""Bytes per element of ONNX types; others have four or less."""


def stored_tensors(graph: Any) -> Iterator[Any]:
    """Yield the stored tensors of a graph and its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from stored_tensors(inner)


def transformers(ort: Any, request: Dict[str, Any]) -> str:
    """Write the graph with ONNX Runtime's transformer fusions, after folding constants; return a summary sentence."""
    onnx = imported("onnx", ort)
    logging.disable(logging.WARNING)
    optimizer = imported("onnxruntime.transformers.optimizer", ort)
    fusion = imported("onnxruntime.transformers.fusion_options", ort)
    params = request["params"]
    model = onnx.load(_fold_constants(ort, onnx, request))
    before = _special_operators(model)
    options = fusion.FusionOptions(params["model"])
    # These two change more than the order of sums: one assumes positions, one reduces a mask to a length.
    options.enable_embed_layer_norm = False
    if options.attention_mask_format == fusion.AttentionMaskFormat.MaskIndexEnd:
        options.use_raw_attention_mask(True)
    heads, hidden = int(params["heads"]), int(params["hidden"])
    fused_model = optimizer.optimize_by_fusion(model, params["model"], heads, hidden, options).model
    fused = _special_operators(fused_model)
    gained = {kind: n - before.get(kind, 0) for kind, n in fused.items() if n > before.get(kind, 0)}
    if not gained:
        # Folded constants alone do not justify a new model.
        saved(ort, onnx, onnx.load(request["model"]), request)
        return "Nothing was fused."
    if "com.microsoft" not in {opset.domain for opset in fused_model.opset_import}:
        fused_model.opset_import.add(domain="com.microsoft", version=1)
    _require_same_signature(onnx.load(request["model"], load_external_data=False), fused_model)
    saved(ort, onnx, fused_model, request)
    listed = ", ".join("%d %s" % (gained[kind], kind) for kind in sorted(gained))
    return "Fused %s (onnxruntime.transformers %s, as %s)." % (listed, ort.__version__, params["model"])


def onnxslim(ort: Any, request: Dict[str, Any]) -> str:
    """Write the graph simplified by onnxslim; return a summary sentence."""
    tool, onnx = imported("onnxslim", ort), imported("onnx", ort)
    original = onnx.load(request["model"])
    return _save_result(ort, onnx, original, tool.slim(request["model"]), request, "onnxslim")


def onnxsim(ort: Any, request: Dict[str, Any]) -> str:
    """Write the graph simplified by onnxsim; return a summary sentence."""
    tool, onnx = imported("onnxsim", ort), imported("onnx", ort)
    original = onnx.load(request["model"])
    simplified, _ = tool.simplify(original)
    return _save_result(ort, onnx, original, simplified, request, "onnxsim")


def onnxscript(ort: Any, request: Dict[str, Any]) -> str:
    """Write the graph optimised by onnxscript; return a summary sentence."""
    tool, onnx = imported("onnxscript.optimizer", ort), imported("onnx", ort)
    original = onnx.load(request["model"])
    return _save_result(ort, onnx, original, tool.optimize(original), request, "onnxscript")


def imported(name: str, ort: Any) -> Any:
    """Return a module of the environment; raise Stop with the package to install if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = (error.name or name).split(".")[0]
        raise Stop(
            "unsupported",
            "the package %s is missing in the environment of onnxruntime %s; install it there: pip install %s"
            % (missing, ort.__version__, missing),
        ) from error


def _save_result(ort: Any, onnx: Any, original: Any, output: Any, request: Dict[str, Any], tool: str) -> str:
    """Save the result of a tool, or the original if only declared shapes differ; return a summary sentence."""
    _require_same_signature(original, output)
    before, after = _contents(original.graph), _contents(output.graph)
    saved(ort, onnx, original if before == after else output, request)
    version = getattr(imported(tool, ort), "__version__", "")
    return "Simplified by %s %s to %d of %d nodes." % (
        tool,
        version,
        len(output.graph.node),
        len(original.graph.node),
    )


def _contents(graph: Any) -> List[Any]:
    """Return a comparable list of a graph's operators, subgraphs included, and the shapes of its weights."""
    contents: List[Any] = [sorted(list(weight.dims) for weight in graph.initializer)]
    for node in graph.node:
        contents.append((node.domain, node.op_type, len(node.input), len(node.attribute)))
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                contents += _contents(inner)
    return contents


def _at_newer_opset(onnx: Any, request: Dict[str, Any]) -> str:
    """Return the path of the model at an opset with LayerNormalization, which the fusions always create."""
    model = onnx.load(request["model"])
    opset = next((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), 1)
    if opset >= NORMALIZATION_OPSET:
        unchanged: str = request["model"]
        return unchanged
    path: str = request["output"] + ".raised.onnx"
    try:
        raised = importlib.import_module("onnx.version_converter").convert_version(model, NORMALIZATION_OPSET)
        onnx.save(raised, path)
    except Exception as error:  # any exception of the converter: the model is not changed
        what = "opset %d cannot be raised to %d, which LayerNormalization needs: %s: %s"
        raise Stop(
            "unsupported", what % (opset, NORMALIZATION_OPSET, type(error).__name__, str(error)[:300])
        ) from error
    return path


def _fold_constants(ort: Any, onnx: Any, request: Dict[str, Any]) -> str:
    """Return the path of the model with folded constants and no fusions; the fusions need weights as constants."""
    source = _at_newer_opset(onnx, request)
    path: str = request["output"] + ".folded.onnx"
    options = ort.SessionOptions()
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = path
    entry = "session.optimized_model_external_initializers_%s"
    options.add_session_config_entry(entry % "file_name", os.path.basename(path) + ".data")
    options.add_session_config_entry(entry % "min_size_in_bytes", "1024")
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return path


def _special_operators(model: Any) -> Dict[str, int]:
    """Return the numbers of nodes with ONNX Runtime's own operators and with normalisations, by operator."""
    counts: Dict[str, int] = {}
    for node in model.graph.node:
        if node.domain == "com.microsoft" or node.op_type.endswith("LayerNormalization"):
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


def _require_same_signature(original: Any, output: Any) -> None:
    """Raise Stop if the new model's inputs or outputs differ from the old one's."""

    def names(values: Any) -> List[str]:
        return [value.name for value in values]

    weights = set(names(original.graph.initializer))
    wanted = [name for name in names(original.graph.input) if name not in weights]
    inputs = [name for name in names(output.graph.input) if name not in weights]
    if wanted != inputs or names(original.graph.output) != names(output.graph.output):
        raise Stop("unsupported", "the tool changed the inputs or outputs of the model")


def saved(ort: Any, onnx: Any, model: Any, request: Dict[str, Any]) -> None:
    """Save one file, with external data if it is large, and check that ONNX Runtime loads it."""
    path, large = request["output"], is_large(model)
    if large:
        onnx.save(model, path, save_as_external_data=True, location=os.path.basename(path) + ".data")
    else:
        onnx.save(model, path)
    trouble = does_not_load(ort, request, mapped=large)
    if trouble:
        raise Stop("unsupported", "the model that the tool wrote does not load: %s" % trouble[:500])


def does_not_load(ort: Any, request: Dict[str, Any], mapped: bool = False) -> str:
    """Return ONNX Runtime's error for the written model on the CPU; "" if it loads.

    Args:
        ort: The package.
        request: Request of the task.
        mapped: Whether weights stay in their file: packing for products is disabled, since it would copy them into
            memory.
    """
    options = ort.SessionOptions()
    if mapped:
        options.add_session_config_entry("session.disable_prepacking", "1")
    for library in request["custom_ops"]:
        options.register_custom_ops_library(library)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        ort.InferenceSession(request["output"], options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has many exception classes
        return str(error) or type(error).__name__
    return ""
