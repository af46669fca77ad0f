"""ONNX Runtime's own quantizers and its converter to float16, from one file to another.

They need the package onnx beside onnxruntime.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
from typing import Any, Dict, Iterator, List, Sequence, Set

from .graph_tools import INLINE_LIMIT_BYTES, does_not_load, imported
from .protocol import Stop

PRODUCTS = ("Conv", "Gemm", "MatMul")
AXIS_OPSET = 13
ENDS = "ends"
"""Among what is left out: the first and the last product, which feel the most of it."""


def dynamic(ort: Any, request: Dict[str, Any]) -> str:
    """Weights of products in 8 bits, activations quantized anew at each run."""
    quantization, onnx = _libraries(ort)
    prepared = _prepared(quantization, onnx, request)
    model = _named(onnx, prepared)
    params = request["params"]
    kinds = ("MatMul", "Gemm", "LSTM")
    left = _left_out(model, params["leave"], kinds)
    quantization.quantize_dynamic(
        prepared,
        request["output"],
        op_types_to_quantize=[kind for kind in kinds if kind not in params["leave"].split("+")],
        per_channel=params["scales"] == "channel",
        weight_type=_type(quantization, params["weights"]),
        reduce_range=params["range"] == "7",
        nodes_to_exclude=left,
        use_external_data_format=_large(prepared),
        # Gemm is none of the kinds that integer kernels have: as MatMul and Add it is.
        extra_options={"MatMulConstBOnly": True},
    )
    _require_quantized(onnx, request["output"], kinds)
    return "Quantized the weights of MatMul, Gemm and LSTM to int8 (dynamic, %s by the %s%s)." % (
        params["weights"],
        params["scales"],
        _words(params["leave"]),
    )


def static(ort: Any, request: Dict[str, Any]) -> str:
    """Weights and activations in 8 bits, with ranges seen while running the given inputs."""
    feeds = request["feeds"]
    if not feeds:
        raise Stop(
            "unsupported",
            "static quantization needs inputs to calibrate on: ortune tune MODEL --rewrite static-int8 --data FOLDER",
        )
    from . import bias

    quantization, onnx = _libraries(ort)
    prepared = _prepared(quantization, onnx, request)
    model = _named(onnx, prepared)
    _flatten_biases(onnx, prepared)
    params = request["params"]
    quantization.quantize_static(
        prepared,
        request["output"],
        _reader(quantization, feeds),
        quant_format=quantization.QuantFormat.QDQ,
        op_types_to_quantize=list(PRODUCTS) if params["operators"] == "products" else None,
        per_channel=params["scales"] == "channel",
        activation_type=_type(quantization, params["activations"]),
        weight_type=quantization.QuantType.QInt8,
        reduce_range=params["range"] == "7",
        nodes_to_exclude=_left_out(model, params["leave"], PRODUCTS),
        use_external_data_format=_large(prepared),
        calibrate_method=getattr(
            quantization.CalibrationMethod,
            {"minmax": "MinMax", "percentile": "Percentile", "entropy": "Entropy"}[params["calibration"]],
        ),
        # One input at a time: what all of them leave inside a network is more than memory holds.
        extra_options={"ActivationSymmetric": params["activations"] == "s8", "CalibStridedMinMax": 1},
    )
    _require_quantized(onnx, request["output"], PRODUCTS)
    corrected = ""
    if params["bias"] == "corrected":
        if _large(request["output"]):
            raise Stop("unsupported", "biases of a model above 1 GB are not corrected; omit bias=corrected")
        corrected = bias.correct(ort, onnx, prepared, request)
    return "Quantized weights and activations to int8 (QDQ, %s activations, %s over %d inputs%s)%s." % (
        params["activations"],
        params["calibration"],
        len(feeds),
        _words(params["leave"]),
        corrected,
    )


def weights(ort: Any, request: Dict[str, Any]) -> str:
    """Weights of MatMul in 8 or 4 bits, a scale for each block of them; activations stay as they are."""
    _, onnx = _libraries(ort)
    quantizers = imported("onnxruntime.quantization.matmul_nbits_quantizer", ort)
    params = request["params"]
    model = onnx.load(request["model"])
    _store_constants(model.graph)
    _give_names(model.graph)
    left = _left_out(model, params["leave"], ("MatMul",))
    quantizer = quantizers.MatMulNBitsQuantizer(
        model,
        bits=int(params["bits"]),
        block_size=int(params["block"]),
        is_symmetric=True,
        # At level 4 products are of int8, at 1 of float32.
        accuracy_level=4 if params["products"] == "int8" else 1,
        nodes_to_exclude=left,
    )
    quantizer.process()
    quantizer.model.save_model_to_file(request["output"], _large(request["model"]))
    if not any(
        node.op_type == "MatMulNBits"
        for node in onnx.load(request["output"], load_external_data=False).graph.node
    ):
        raise Stop("unsupported", "the quantizer found no weights to quantize")
    return "Stored the weights of MatMul in %s bits (blocks of %s, products of %s%s)." % (
        params["bits"],
        params["block"],
        params["products"],
        _words(params["leave"]),
    )


def float16(ort: Any, request: Dict[str, Any]) -> str:
    """Weights and activations in float16; inputs and outputs keep their types."""
    onnx, converter = imported("onnx", ort), imported("onnxruntime.transformers.float16", ort)
    leave = request["params"]["leave"]
    model = _typed(onnx, request)
    model.ir_version = max(model.ir_version, 4)  # below it, constants would have to be inputs
    _give_names(model.graph)
    for graph in _graphs(model.graph):
        _store_floats(onnx, graph)
    _store_constants(model.graph)
    left = _left_out(model, leave, ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM"))
    kinds = [word for word in leave.split("+") if word != ENDS]
    cut = _Cut()
    converter.logger.addHandler(cut)
    converter.logger.setLevel(logging.DEBUG)
    converter.logger.propagate = False
    try:
        converted = converter.convert_float_to_float16(
            model,
            keep_io_types=True,
            disable_shape_infer=True,  # what is known of types is in it
            op_block_list=[*converter.DEFAULT_OP_BLOCK_LIST, *kinds],
            node_block_list=left,
        )
    except Exception as error:  # the converter's own, whatever it was
        said = "%s: %s" % (type(error).__name__, str(error)[:500])
        raise Stop("unsupported", "the float16 converter does not support this model: %s" % said) from error
    if not any(onnx.TensorProto.FLOAT16 in _stored_types(graph) for graph in _graphs(converted.graph)):
        what = (
            "the converter found no weights to convert to float16; initializers that are also graph inputs "
            "stay in float32"
        )
        raise Stop("unsupported", what)
    outside = _large(request["model"])
    onnx.save(converted, request["output"], save_as_external_data=outside, location=request["external_name"])
    trouble = does_not_load(ort, request)
    # What the CPU alone has no kernel for may run on the GPU that it is made for.
    if trouble and "NOT_IMPLEMENTED" not in trouble:
        raise Stop("unsupported", "the converter's float16 model does not load: %s" % trouble[:500])
    said = _words(leave) + cut.words()
    return "Converted weights and activations to float16; inputs and outputs keep their types%s." % said


class _Cut(logging.Handler):
    """Counts the tensors of which the converter says that numbers do not fit."""

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
        """What to add to a sentence."""
        large = "; magnitudes above 65504 were clipped in %d weights" % self._large
        small = "; magnitudes below 6e-8 were raised to 6e-8 in %d weights" % self._small
        return (large if self._large else "") + (small if self._small else "")


def _typed(onnx: Any, request: Dict[str, Any]) -> Any:
    """The model without functions, and with the types that follow from its inputs: the converter goes by these."""
    source, path = request["model"], request["output"] + ".typed.onnx"
    model = onnx.load(source, load_external_data=False)
    if model.functions:
        model = importlib.import_module("onnx.inliner").inline_local_functions(model)
    onnx.save(model, path)
    with contextlib.suppress(Exception):  # what cannot be inferred is as the model declares it
        onnx.shape_inference.infer_shapes_path(path, path)
        model = onnx.load(path, load_external_data=False)
    onnx.load_external_data_for_model(model, os.path.dirname(os.path.abspath(source)))
    os.remove(path)
    return model


def _stored_types(graph: Any) -> Set[int]:
    """The types of a graph's weights and constants."""
    constants = [node.attribute[0].t for node in graph.node if node.op_type == "Constant" and node.attribute]
    return {tensor.data_type for tensor in [*graph.initializer, *constants]}


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and those within."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _graphs(inner)


def _store_floats(onnx: Any, graph: Any) -> None:
    """Numbers of Constant nodes as tensors, which alone the converter knows."""
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name in ("value_float", "value_floats"):
            attribute = node.attribute[0]
            one = attribute.name == "value_float"
            values = [attribute.f] if one else list(attribute.floats)
            tensor = onnx.helper.make_tensor(
                node.output[0], onnx.TensorProto.FLOAT, [] if one else [len(values)], values
            )
            attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def _libraries(ort: Any) -> Any:
    return imported("onnxruntime.quantization", ort), imported("onnx", ort)


def _prepared(quantization: Any, onnx: Any, request: Dict[str, Any]) -> str:
    """The model with shapes inferred and plain fusions done, as the quantizers want it."""
    process = importlib.import_module("onnxruntime.quantization.shape_inference").quant_pre_process
    path: str = request["output"] + ".prepared.onnx"
    logging.disable(logging.WARNING)
    source, large = request["model"], _large(request["model"])
    failed: List[str] = []
    # Symbolic shapes need sympy and fail on some models; without them fewer tensors are quantized.
    for without in ((), ("skip_symbolic_shape",), ("skip_symbolic_shape", "skip_onnx_shape")):
        try:
            process(
                source,
                path,
                auto_merge=True,
                save_as_external_data=large,
                all_tensors_to_one_file=large,
                **dict.fromkeys(without, True),
            )
            _upgrade(onnx, path)
            return path
        except Exception as error:  # the libraries' own: whatever it was, the next try goes without
            failed.append("%s: %s" % (type(error).__name__, error))
    raise Stop("unsupported", "the model cannot be prepared for quantization: %s" % failed[-1][:500])


def _upgrade(onnx: Any, path: str) -> None:
    """Brings a model to an opset whose DequantizeLinear has an axis: below it scales by the channel do not load."""
    model = onnx.load(path)
    opsets = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    if opsets and opsets[0] < AXIS_OPSET and not _large(path):
        converter = importlib.import_module("onnx.version_converter")
        onnx.save(converter.convert_version(model, AXIS_OPSET), path)


def _flatten_biases(onnx: Any, path: str) -> None:
    """Stores the bias of a Gemm of one row as a vector: for a matrix the quantizer's check of its scales fails."""
    if _large(path):
        return
    model = onnx.load(path)
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


def _named(onnx: Any, path: str) -> Any:
    """The model's graph with a name for each node: by name they are left out."""
    model = onnx.load(path, load_external_data=False)
    if _give_names(model.graph):
        onnx.save(model, path)
    return model


def _give_names(graph: Any) -> bool:
    taken = {node.name for node in graph.node}
    named = False
    for number, node in enumerate(graph.node):
        if not node.name:
            name = "%s_%d" % (node.op_type, number)
            while name in taken:
                name += "_"
            node.name, named = name, True
            taken.add(name)
    return named


def _store_constants(graph: Any) -> None:
    """Weights that exporters wrote as Constant nodes, among the initializers, where the quantizer looks for them."""
    given_out = {value.name for value in graph.output}
    for node in [n for n in graph.node if n.op_type == "Constant" and n.attribute[0].name == "value"]:
        if node.output[0] in given_out:
            continue
        tensor = graph.initializer.add()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
        graph.node.remove(node)


def _left_out(model: Any, leave: str, kinds: Sequence[str]) -> List[str]:
    words = [word for word in leave.split("+") if word]
    names = [node.name for node in model.graph.node if node.op_type in words]
    products = [node.name for node in model.graph.node if node.op_type in kinds]
    if ENDS in words and products:
        names += [products[0], products[-1]]
    # The quantizers make a MatMul and an Add of a Gemm before they look for what to leave out.
    return names + [name + "_MatMul" for name in names]


def _words(leave: str) -> str:
    return "; left out: %s" % leave.replace("+", ", ") if leave else ""


def _reader(quantization: Any, feeds: List[Dict[str, Any]]) -> Any:
    from . import values

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        """One set of inputs at a time, from the files that they lie in."""

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


def _large(path: str) -> bool:
    folder = os.path.dirname(path) or "."
    beside = [f for f in os.listdir(folder) if f.endswith(".data")] if os.path.isdir(folder) else []
    return (
        sum(os.path.getsize(os.path.join(folder, f)) for f in [os.path.basename(path), *beside])
        > INLINE_LIMIT_BYTES
    )


def _require_quantized(onnx: Any, path: str, kinds: Sequence[str]) -> None:
    """That something was quantized at all: the quantizers write a model either way."""
    graph = onnx.load(path, load_external_data=False).graph
    operators = {node.op_type for node in graph.node}
    if operators & {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeLSTM"}:
        return
    inner = {node.op_type for each in _graphs(graph) if each is not graph for node in each.node} & set(kinds)
    if inner and not operators & set(kinds):
        what = "%s are inside If or Loop nodes, where ONNX Runtime's quantizer does not look"
        raise Stop("unsupported", what % ", ".join(sorted(inner)))
    raise Stop("unsupported", "the quantizer found no supported operator in this model")
