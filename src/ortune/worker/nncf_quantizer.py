"""NNCF, OpenVINO's quantizer, from one file to another.

It needs the packages nncf, onnx and onnxruntime.
"""

from __future__ import annotations

import logging
from typing import Any, Dict

from .graph_tools import imported, is_large
from .protocol import Stop
from .quantize import PRODUCTS
from .quantizer_graphs import left_out, words_left_out


def quantize(ort: Any, request: Dict[str, Any]) -> str:
    """Write the model with 8-bit weights and activations, calibrated on the given inputs; return a summary sentence."""
    from . import values

    feeds = request["feeds"]
    if not feeds:
        raise Stop("unsupported", "NNCF needs inputs to calibrate on")
    onnx, nncf = imported("onnx", ort), imported("nncf", ort)
    if is_large(onnx.load(request["model"], load_external_data=False)):
        raise Stop(
            "unsupported",
            "NNCF holds a model in one protobuf, so models above 1 GB are not quantized with it",
        )
    nncf.set_log_level(logging.ERROR)
    model = onnx.load(request["model"])
    left = set(left_out(model, request["params"]["leave"], PRODUCTS))
    names = [node.name for node in model.graph.node if node.name in left]
    dataset = nncf.Dataset([feed["path"] for feed in feeds], lambda path: values.read_feeds(path)[0])
    try:
        quantized = nncf.quantize(
            model,
            dataset,
            subset_size=len(feeds),
            ignored_scope=nncf.IgnoredScope(names=names) if names else None,
        )
    except nncf.errors.NNCFError as error:
        raise Stop("unsupported", "NNCF: %s" % error) from error
    if not any(node.op_type == "QuantizeLinear" for node in quantized.graph.node):
        raise Stop("unsupported", "NNCF found no supported operator in this model")
    onnx.save(quantized, request["output"])
    return "NNCF %s quantized weights and activations to int8 (QDQ, over %d inputs%s)." % (
        nncf.__version__,
        len(feeds),
        words_left_out(request["params"]["leave"]),
    )
