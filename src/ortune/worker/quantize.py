"""Quantization of a model file with ONNX Runtime's own quantizers.

They need the packages onnx and onnxruntime.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
from typing import Any, Dict, List, Sequence, Set, Tuple

from .graph_tools import imported, is_large, stored_tensors
from .protocol import Stop
from .quantizer_graphs import (
    give_names,
    graphs,
    left_out,
    separate_biases,
    store_constants,
    words_left_out,
)
from .taps import copied

PRODUCTS = ("Conv", "Gemm", "MatMul")
AXIS_OPSET = 13


def prepare(ort: Any, request: Dict[str, Any]) -> str:
    """Write the model with inferred shapes, basic fusions and named nodes; return a summary sentence."""
    _, onnx = _libraries(ort)
    source, large = _whole(onnx, request)
    _prepare(onnx, source, request["output"], large)
    if source != request["model"]:
        os.remove(source)
    _name_parts(onnx, request["output"])
    _flatten_biases(onnx, request["output"])
    return "Inferred shapes and fused nodes."


def dynamic(ort: Any, request: Dict[str, Any]) -> str:
    """Write a prepared model with 8-bit weights and activations quantized at each run; return a summary sentence."""
    quantization, onnx = _libraries(ort)
    model = onnx.load(request["model"], load_external_data=False)
    params = request["params"]
    kinds = ("MatMul", "Gemm", "LSTM")
    left = left_out(model, params["leave"], kinds)
    quantization.quantize_dynamic(
        copied(request["model"], model),
        request["output"],
        op_types_to_quantize=[kind for kind in kinds if kind not in params["leave"].split("+")],
        per_channel=params["scales"] == "channel",
        weight_type=_type(quantization, params["weights"]),
        reduce_range=params["range"] == "7",
        nodes_to_exclude=left,
        use_external_data_format=is_large(model),
        # Gemm has no integer kernel; the quantizer replaces it by MatMul and Add.
        extra_options={"MatMulConstBOnly": True},
    )
    _require_quantized(onnx, request["output"], kinds)
    return "Quantized the weights of MatMul, Gemm and LSTM to 8 bits (dynamic, %s per %s%s)." % (
        params["weights"],
        params["scales"],
        words_left_out(params["leave"]),
    )


_NO_RANGE = ("scale issue", "not finite")
"""Words of the errors of ONNX Runtime's quantizer and of NumPy for a range that is not finite."""


def static(ort: Any, request: Dict[str, Any]) -> str:
    """Write a prepared model in 8 bits, with ranges from the given inputs; return a summary sentence."""
    feeds = request["feeds"]
    if not feeds:
        raise Stop("unsupported", "static quantization needs inputs to calibrate on")
    from . import bias

    quantization, onnx = _libraries(ort)
    model = onnx.load(request["model"], load_external_data=False)
    large, params = is_large(model), request["params"]
    if large and params["bias"] == "corrected":
        raise Stop("unsupported", "biases of a model above 1 GB are not corrected; omit bias=corrected")
    try:
        quantization.quantize_static(
            copied(request["model"], model),
            request["output"],
            _reader(quantization, feeds),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=list(PRODUCTS) if params["operators"] == "products" else None,
            per_channel=params["scales"] == "channel",
            activation_type=_type(quantization, params["activations"]),
            weight_type=quantization.QuantType.QInt8,
            reduce_range=params["range"] == "7",
            nodes_to_exclude=left_out(model, params["leave"], PRODUCTS),
            use_external_data_format=large,
            calibrate_method=getattr(
                quantization.CalibrationMethod,
                {"minmax": "MinMax", "percentile": "Percentile", "entropy": "Entropy"}[params["calibration"]],
            ),
            # One input at a time, since the intermediate values of all inputs would exceed the memory.
            extra_options={"ActivationSymmetric": params["activations"] == "s8", "CalibStridedMinMax": 1},
        )
    except (AssertionError, ValueError) as error:
        if not any(words in str(error) for words in _NO_RANGE):
            raise
        what = (
            "values inside the model are infinite or NaN for these inputs, so they have no range to calibrate"
        )
        raise Stop("unsupported", what) from error
    _require_quantized(onnx, request["output"], PRODUCTS)
    corrected = ""
    if params["bias"] == "corrected":
        corrected = bias.correct(ort, onnx, request["model"], request)
    return "Quantized weights and activations to int8 (QDQ, %s activations, %s over %d inputs%s)%s." % (
        params["activations"],
        params["calibration"],
        len(feeds),
        words_left_out(params["leave"]),
        corrected,
    )


def weights(ort: Any, request: Dict[str, Any]) -> str:
    """Write the model with MatMul weights in 8 or 4 bits and a scale per block; return a summary sentence."""
    _, onnx = _libraries(ort)
    quantizers = imported("onnxruntime.quantization.matmul_nbits_quantizer", ort)
    params = request["params"]
    model = onnx.load(request["model"])
    large = is_large(model)
    store_constants(model.graph)
    give_names(model.graph)
    left = left_out(model, params["leave"], ("MatMul",))
    quantizer = quantizers.MatMulNBitsQuantizer(
        model,
        bits=int(params["bits"]),
        block_size=int(params["block"]),
        is_symmetric=True,
        # Level 4 computes products in int8, level 1 in float32.
        accuracy_level=4 if params["products"] == "int8" else 1,
        nodes_to_exclude=left,
    )
    quantizer.process()
    quantizer.model.save_model_to_file(request["output"], large)
    if not any(
        node.op_type == "MatMulNBits"
        for node in onnx.load(request["output"], load_external_data=False).graph.node
    ):
        raise Stop("unsupported", "the quantizer found no weights to quantize")
    return "Stored the weights of MatMul in %s bits (blocks of %s, products of %s%s)." % (
        params["bits"],
        params["block"],
        params["products"],
        words_left_out(params["leave"]),
    )


def _libraries(ort: Any) -> Any:
    logging.disable(logging.WARNING)
    return imported("onnxruntime.quantization", ort), imported("onnx", ort)


def _prepare(onnx: Any, source: str, path: str, large: bool) -> None:
    """Write the model with inferred shapes and basic fusions."""
    process = importlib.import_module("onnxruntime.quantization.shape_inference").quant_pre_process
    failed: List[str] = []
    # Symbolic shapes need sympy and fail on some models; without them fewer tensors are quantized.
    for without in ((), ("skip_symbolic_shape",), ("skip_symbolic_shape", "skip_onnx_shape")):
        with contextlib.suppress(OSError):
            os.remove(path + ".data")  # from a failed try: weights would be appended to it
        try:
            process(
                source,
                path,
                auto_merge=True,
                save_as_external_data=large,
                all_tensors_to_one_file=large,
                external_data_location=os.path.basename(path) + ".data",
                **dict.fromkeys(without, True),
            )
            if not large:
                _upgrade(onnx, path)
            return
        except Exception as error:  # any exception of the libraries: the next try omits a step
            failed.append("%s: %s" % (type(error).__name__, error))
    raise Stop("unsupported", "the model cannot be prepared for quantization: %s" % failed[-1][:500])


def _whole(onnx: Any, request: Dict[str, Any]) -> Tuple[str, bool]:
    """Return the path of a model with embedded weights, or of the original if it is large, and whether it is large."""
    source: str = request["model"]
    model = onnx.load(source, load_external_data=False)
    if is_large(model):
        return source, True
    outside = onnx.external_data_helper.uses_external_data
    if not any(map(outside, stored_tensors(model.graph))):
        return source, False
    path = request["output"] + ".whole.onnx"
    onnx.save(onnx.load(source), path)
    return path, False


def _upgrade(onnx: Any, path: str) -> None:
    """Convert a model to an opset with an axis in DequantizeLinear, which scales per channel need to load."""
    model = onnx.load(path)
    opsets = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    if opsets and opsets[0] < AXIS_OPSET:
        converter = importlib.import_module("onnx.version_converter")
        onnx.save(converter.convert_version(model, AXIS_OPSET), path)


def _flatten_biases(onnx: Any, path: str) -> None:
    """Store a Gemm's one-row bias as a vector, since the quantizer's check of scales fails for a matrix."""
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    biases: Set[str] = set()
    for node in graph.node:
        biases.update(node.input[2:3] if node.op_type == "Gemm" else ())
    others = {
        name for node in graph.node for name in (node.input[:2] if node.op_type == "Gemm" else node.input)
    }
    flat = [
        tensor
        for tensor in graph.initializer
        if tensor.name in biases - others and len(tensor.dims) == 2 and tensor.dims[0] == 1
    ]
    for tensor in flat:
        del tensor.dims[0]
    names = {tensor.name for tensor in flat}
    for info in [info for info in graph.value_info if info.name in names]:
        graph.value_info.remove(info)
    if flat:
        onnx.save(model, path)


def _name_parts(onnx: Any, path: str) -> None:
    """Name all nodes, since exclusions are by name, and give each product its own bias."""
    model = onnx.load(path, load_external_data=False)
    named = give_names(model.graph)
    if separate_biases(model.graph) or named:
        onnx.save(model, path)


def _reader(quantization: Any, feeds: List[Dict[str, Any]]) -> Any:
    from . import values

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        """Calibration data reader that loads one set of inputs at a time."""

        def __init__(self) -> None:
            self._next, self._end = 0, len(feeds)

        def __len__(self) -> int:
            return len(feeds)

        def set_range(self, start_index: int, end_index: int) -> None:
            self._next, self._end = start_index, end_index

        def get_next(self) -> Any:
            if self._next >= self._end:
                return None
            arrays, needs_ort_values = values.read_feeds(feeds[self._next]["path"])
            if needs_ort_values:
                raise Stop("unsupported", "calibration supports numpy types only, not bfloat16 or float8")
            self._next += 1
            return arrays

    return Reader()


def _type(quantization: Any, name: str) -> Any:
    return {"u8": quantization.QuantType.QUInt8, "s8": quantization.QuantType.QInt8}[name]


def _require_quantized(onnx: Any, path: str, kinds: Sequence[str]) -> None:
    """Raise Stop if nothing was quantized, since the quantizers write a model in any case."""
    graph = onnx.load(path, load_external_data=False).graph
    operators = {node.op_type for node in graph.node}
    if operators & {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeLSTM"}:
        return
    inner = {node.op_type for body in graphs(graph) if body is not graph for node in body.node} & set(kinds)
    if inner and not operators & set(kinds):
        what = "%s nodes are inside If or Loop, which ONNX Runtime's quantizer does not process"
        raise Stop("unsupported", what % ", ".join(sorted(inner)))
    raise Stop("unsupported", "the quantizer found no supported operator in this model")
