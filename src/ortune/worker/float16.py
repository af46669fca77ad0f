"""ONNX Runtime's converter to float16, from one file to another. It needs the packages onnx and onnxruntime."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
from typing import Any, Dict, Set

from .graph_tools import does_not_load, imported, is_large
from .protocol import Stop
from .quantizer_graphs import ENDS, give_names, graphs, left_out, store_constants, words_left_out


def convert(ort: Any, request: Dict[str, Any]) -> str:
    """Write the model in float16, with unchanged types of inputs and outputs; return a summary sentence."""
    onnx, converter = imported("onnx", ort), imported("onnxruntime.transformers.float16", ort)
    leave = request["params"]["leave"]
    model = _typed(onnx, request)
    model.ir_version = max(model.ir_version, 4)  # earlier versions require constants to be inputs
    give_names(model.graph)
    for graph in graphs(model.graph):
        _store_floats(onnx, graph)
    store_constants(model.graph)
    left = left_out(model, leave, ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM"))
    kinds = [word for word in leave.split("+") if word != ENDS]
    cut = _Cut()
    # The converter reports numbers out of range only in its log.
    converter.logger.addHandler(cut)
    converter.logger.setLevel(logging.DEBUG)
    converter.logger.propagate = False
    try:
        converted = converter.convert_float_to_float16(
            model,
            keep_io_types=True,
            disable_shape_infer=True,  # the model already has inferred types
            op_block_list=[*converter.DEFAULT_OP_BLOCK_LIST, *kinds],
            node_block_list=left,
        )
    except Exception as error:  # any exception of the converter
        said = "%s: %s" % (type(error).__name__, str(error)[:500])
        raise Stop("unsupported", "the float16 converter does not support this model: %s" % said) from error
    if not any(onnx.TensorProto.FLOAT16 in _stored_types(graph) for graph in graphs(converted.graph)):
        what = (
            "the converter found no weights to convert to float16; initializers that are also graph inputs "
            "stay in float32"
        )
        raise Stop("unsupported", what)
    outside = is_large(model)
    onnx.save(converted, request["output"], save_as_external_data=outside, location=request["external_name"])
    trouble = does_not_load(ort, request)
    # A node without a CPU kernel may still run on a GPU, for which such models are made.
    if trouble and "NOT_IMPLEMENTED" not in trouble:
        raise Stop("unsupported", "the converter's float16 model does not load: %s" % trouble[:500])
    said = words_left_out(leave) + cut.words()
    return "Converted weights and activations to float16; inputs and outputs keep their types%s." % said


class _Cut(logging.Handler):
    """Log handler that counts the tensors with numbers that the converter reports as out of range."""

    def __init__(self) -> None:
        super().__init__()
        self._large = self._small = 0

    def emit(self, record: logging.LogRecord) -> None:
        match = re.search(r"float32 number (\S+) will be truncated", record.getMessage())
        if match is None:
            return
        if abs(float(match.group(1))) > 1:
            self._large += 1
        else:
            self._small += 1

    def words(self) -> str:
        """Return the clipped numbers as the end of a sentence; "" for none."""
        large = "; magnitudes above 65504 were clipped in %d weights" % self._large
        small = "; magnitudes below 6e-8 were raised to 6e-8 in %d weights" % self._small
        return (large if self._large else "") + (small if self._small else "")


def _typed(onnx: Any, request: Dict[str, Any]) -> Any:
    """Return the model without functions and with inferred types, which the converter uses."""
    source, path = request["model"], request["output"] + ".typed.onnx"
    model = onnx.load(source, load_external_data=False)
    if model.functions:
        model = importlib.import_module("onnx.inliner").inline_local_functions(model)
    onnx.save(model, path)
    with contextlib.suppress(Exception):  # types that cannot be inferred stay as declared
        onnx.shape_inference.infer_shapes_path(path, path)
        model = onnx.load(path, load_external_data=False)
    onnx.load_external_data_for_model(model, os.path.dirname(os.path.abspath(source)))
    os.remove(path)
    return model


def _stored_types(graph: Any) -> Set[int]:
    """Return the types of a graph's weights and constants."""
    constants = [node.attribute[0].t for node in graph.node if node.op_type == "Constant" and node.attribute]
    return {tensor.data_type for tensor in [*graph.initializer, *constants]}


def _store_floats(onnx: Any, graph: Any) -> None:
    """Store the numbers of Constant nodes as tensors, the only form that the converter supports."""
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name in ("value_float", "value_floats"):
            attribute = node.attribute[0]
            one = attribute.name == "value_float"
            values = [attribute.f] if one else list(attribute.floats)
            tensor = onnx.helper.make_tensor(
                node.output[0], onnx.TensorProto.FLOAT, [] if one else [len(values)], values
            )
            attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))
