"""Layers of a model as OpenVINO runs them: kernel, number type and time of each, from OpenVINO's counters.

In ONNX Runtime, a graph compiled by OpenVINO is one node, and the profile does not contain its layers. Complete builds
of ONNX Runtime include OpenVINO's C library, which compiles the same graph with the same properties and reports
counters.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import sys
import tempfile
import time
from typing import Any, Dict, List, Set, Tuple

from . import channels
from .protocol import Stop

EXECUTED = 2
"""Status of a layer that ran; others were fused into their neighbours, or are constants."""
WARM_RUNS, MOST_RUNS, MOST_S = 2, 20, 2.0
_TYPES = {"i8": "int8", "u8": "int8", "i4": "int4", "u4": "int4", "f16": "float16", "bf16": "bfloat16"}
_TYPES.update({"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"})


class _Layer(ctypes.Structure):
    """C structure ``ov_profiling_info_t``: counters of one layer; times are in microseconds."""

    _fields_ = [
        ("status", ctypes.c_int), ("real_us", ctypes.c_int64), ("cpu_us", ctypes.c_int64),
        ("name", ctypes.c_char_p), ("kernel", ctypes.c_char_p), ("kind", ctypes.c_char_p),
    ]  # fmt: skip


class _Layers(ctypes.Structure):
    """C structure ``ov_profiling_info_list_t``: the counters of all layers."""

    _fields_ = [("layers", ctypes.POINTER(_Layer)), ("count", ctypes.c_size_t)]


class _Shape(ctypes.Structure):
    """C structure ``ov_shape_t``, which is passed by value."""

    _fields_ = [("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64))]


def ask(ort: Any, request: Dict[str, Any]) -> str:
    """Write name, kind, kernel, number type and median time in nanoseconds of each executed layer, as JSON."""
    from . import values

    settings = channels.apply(ort, request["applied"])
    for custom in request["custom_ops"]:
        settings.session.register_custom_ops_library(custom)
    options = settings.provider_options.get(request["providers"][0]["name"], {})
    # Builds with the library compute in float32 by default; OpenVINO by itself would use bfloat16.
    properties = {"INFERENCE_PRECISION_HINT": "f32"}
    properties.update(json.loads(options.get("load_config", "{}")).get("CPU", {}))
    feeds, _ = values.read_feeds(request["feeds"][0]["path"])
    library = _library(ort)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(request["output"])) as folder:
        path = os.path.join(folder, "given.onnx")
        _save_given(ort, settings.session, request["model"], path)
        layers, runs = _run(library, path, properties, feeds)
    with open(request["output"], "w", encoding="utf-8") as file:
        json.dump({"layers": layers, "runs": runs}, file)
    return "Counted %d layers of OpenVINO over %d runs." % (len(layers), runs)


def _library(ort: Any) -> Any:
    """Return OpenVINO's C library from the folder of ONNX Runtime."""
    name = "openvino_c.dll" if sys.platform == "win32" else "libopenvino_c.so"
    path = os.path.join(os.path.dirname(ort.__file__), "capi", name)
    if not os.path.exists(path):
        raise Stop("unsupported", "the package of OpenVINO lacks its C library, which reports layers")
    library = ctypes.CDLL(path)
    library.ov_get_last_err_msg.restype = ctypes.c_char_p
    return library


def _save_given(ort: Any, options: Any, model: str, path: str) -> None:
    """Save the graph that ONNX Runtime passes to a provider, optimised at the basic level."""
    basic = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    if options.graph_optimization_level != ort.GraphOptimizationLevel.ORT_DISABLE_ALL:
        options.graph_optimization_level = basic
    options.optimized_model_filepath = path
    entry = "session.optimized_model_external_initializers_%s"
    options.add_session_config_entry(entry % "file_name", os.path.basename(path) + ".data")
    options.add_session_config_entry(entry % "min_size_in_bytes", "1024")
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run(
    library: Any, path: str, properties: Dict[str, str], feeds: Dict[str, Any]
) -> Tuple[List[List[Any]], int]:
    """Return the layers of a compiled model, and the number of runs of their median times."""

    def call(name: str, *arguments: Any) -> None:
        if library[name](*arguments):
            said = library.ov_get_last_err_msg() or b""
            raise Stop("load-error", "OpenVINO: %s" % said.decode("utf-8", "replace").strip())

    def made(name: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        call(name, *arguments, ctypes.byref(handle))
        return handle

    core = made("ov_core_create")
    model = made("ov_core_read_model", core, path.encode(), None)
    texts = ["PERF_COUNT", "YES"] + [text for pair in properties.items() for text in pair]
    given = [ctypes.c_char_p(text.encode()) for text in texts]
    compiled = ctypes.c_void_p()
    call(
        "ov_core_compile_model", core, model, b"CPU", ctypes.c_size_t(len(given)), ctypes.byref(compiled), *given
    )  # fmt: skip
    running = made("ov_compiled_model_create_infer_request", compiled)
    for name, array in feeds.items():
        _feed(call, made("ov_infer_request_get_tensor", running, name.encode()), array)
    names: List[Tuple[str, str, str]] = []
    times: List[List[int]] = []
    ran: Set[int] = set()
    ends, runs = time.perf_counter() + MOST_S, 0
    while runs < 1 + WARM_RUNS or (runs < MOST_RUNS + WARM_RUNS and time.perf_counter() < ends):
        call("ov_infer_request_infer", running)
        runs += 1
        if runs > WARM_RUNS:
            counted = _Layers()
            call("ov_infer_request_get_profiling_info", running, ctypes.byref(counted))
            layers = counted.layers[: counted.count]
            # A layer that took less than a microsecond counts as not run, in this run.
            ran.update(i for i, layer in enumerate(layers) if layer.status == EXECUTED)
            names = [(layer.name.decode(), layer.kind.decode(), layer.kernel.decode()) for layer in layers]
            times.append([layer.real_us for layer in layers])
    return [
        [name, kind, *_kernel(kernel), 1000.0 * statistics.median(us)]
        for i, ((name, kind, kernel), us) in enumerate(zip(names, zip(*times)))
        if i in ran
    ], runs - WARM_RUNS


def _feed(call: Any, tensor: ctypes.c_void_p, array: Any) -> None:
    """Copy an array into the tensor of an input."""
    import numpy as np

    array = np.ascontiguousarray(array)
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    call("ov_tensor_set_shape", tensor, _Shape(array.ndim, dims))
    size, data = ctypes.c_size_t(), ctypes.c_void_p()
    call("ov_tensor_get_byte_size", tensor, ctypes.byref(size))
    if size.value != array.nbytes:
        raise Stop("unsupported", "OpenVINO takes an input with another number type than the model")
    call("ov_tensor_data", tensor, ctypes.byref(data))
    ctypes.memmove(data, array.ctypes.data, array.nbytes)


def _kernel(text: str) -> Tuple[str, str]:
    """Return a kernel and the number type that it computes in: "brgemm_avx512_i8" is "brgemm_avx512" in int8."""
    kernel, _, kind = text.rpartition("_")
    return (kernel, _TYPES.get(kind.lower(), kind.lower())) if kernel else (text, "")
