"""A TensorFlow model: a SavedModel, a Keras model in a ``.keras`` file or from a user's function, or a TFLite file."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .checkpoints import OF_SAVERS, misplaced
from .saved_files import INSTEAD, copy_keras, copy_saved_model
from .source import ExportResult, Input, SourceRefused, made_by_function, onnx_type, require_size
from .tensorflow_operators import ALLOWED

SIGNATURE = "serving_default"
_LONGEST = 200
_EXPORTER = "tf2onnx"
_FLEX = "Flex"
"""Prefix of TensorFlow's operators in a TFLite file."""


class SavedModel:
    """A SavedModel with its serving signature."""

    framework = "TensorFlow %s" % tf.__version__
    styles: Sequence[str] = ("",)
    left_out = ""

    def __init__(self, folder: str, kind: str, example: Mapping[str, Any]) -> None:
        self.folder, self.kind, self.example = folder, kind, example
        self.exporters: Sequence[str] = (_EXPORTER,)
        self.versions = _versions()
        self.loaded = tf.saved_model.load(folder)
        if SIGNATURE not in self.loaded.signatures:
            signatures = ", ".join(self.loaded.signatures) or "none"
            raise SourceRefused(
                "the SavedModel has no signature %s; it has %s" % (SIGNATURE, signatures),
                "save it with model.export(folder)",
            )
        self.call = self.loaded.signatures[SIGNATURE]
        for node in self.call.graph.get_operations():
            for tensor in node.outputs:
                if tensor.shape.rank is not None:
                    require_size(tensor.name, _sizes(tensor.shape))
        specs = self.call.structured_input_signature[1]
        self.specs = dict(specs)
        self.inputs: Sequence[Input] = [
            Input(name, onnx_type(np.dtype(spec.dtype.as_numpy_dtype)), _sizes(spec.shape))
            for name, spec in specs.items()
        ]

    def export(
        self, exporter: str, dynamic: Mapping[str, Mapping[int, str]], opset: int, path: str
    ) -> ExportResult:
        """Export with tf2onnx; dynamic sizes of the signature stay dynamic."""
        del dynamic
        arguments = ["--saved-model", self.folder, "--signature_def", SIGNATURE, "--output", path]
        _convert([*arguments, *(["--opset", str(opset)] if opset else [])])
        return ExportResult(inputs={tensor.name: tensor.name for tensor in self.inputs})

    def threads(self) -> int | None:
        """Return the threads of operators; None if TensorFlow chooses them."""
        return _threads()

    def prepared(self, feeds: Mapping[str, Any], style: str = "") -> Callable[[], Any]:
        """Return a function that calls the signature once."""
        values = {name: tf.constant(feeds[name], dtype=spec.dtype) for name, spec in self.specs.items()}
        return lambda: {name: value.numpy() for name, value in self.call(**values).items()}

    def outputs_of(self, result: Any, feeds: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the outputs in the order of their names, as in tf2onnx."""
        return sorted(result.items())


class TfLite:
    """A TFLite file, run by TensorFlow's interpreter."""

    kind = "TFLite file"
    framework = "TensorFlow Lite %s" % tf.__version__
    styles: Sequence[str] = ("",)
    left_out = ""
    example: Mapping[str, Any] = {}

    def __init__(self, path: str, threads: int) -> None:
        self.path = path
        self.n_threads = threads or 1
        self.sizes: dict[int, Any] = {}
        self.exporters: Sequence[str] = (_EXPORTER,)
        self.versions = _versions()
        self.interpreter = tf.lite.Interpreter(model_path=path, num_threads=self.n_threads)
        others = sorted(_custom_operators(path) - (ALLOWED - OF_SAVERS))
        if others:
            what = "the file has operators of TensorFlow that are not on the list, which may access files: %s"
            raise SourceRefused(what % ", ".join(others)[:_LONGEST], INSTEAD)
        for tensor in self.interpreter.get_tensor_details():
            require_size(tensor["name"], [int(size) for size in tensor["shape"]])
        self.details = self.interpreter.get_input_details()
        self.inputs: Sequence[Input] = [
            Input(
                detail["name"],
                onnx_type(np.dtype(detail["dtype"])),
                [None if size < 0 else int(size) for size in detail["shape_signature"]],
            )
            for detail in self.details
        ]

    def export(
        self, exporter: str, dynamic: Mapping[str, Mapping[int, str]], opset: int, path: str
    ) -> ExportResult:
        """Write the ONNX model with tf2onnx, the only exporter of TFLite files; ``dynamic`` is ignored."""
        del dynamic
        _convert(["--tflite", self.path, "--output", path, *(["--opset", str(opset)] if opset else [])])
        return ExportResult(inputs={tensor.name: tensor.name for tensor in self.inputs})

    def threads(self) -> int | None:
        """Return the requested number of threads."""
        return self.n_threads

    def prepared(self, feeds: Mapping[str, Any], style: str = "") -> Callable[[], Any]:
        """Return a function that runs the model once, resizing inputs if the file allows it."""
        values = {detail["index"]: feeds[detail["name"]].astype(detail["dtype"]) for detail in self.details}
        outputs = [detail["index"] for detail in self.interpreter.get_output_details()]

        def run() -> Any:
            if self.sizes != (sizes := {index: value.shape for index, value in values.items()}):
                for index, size in sizes.items():
                    self.interpreter.resize_tensor_input(index, size, strict=True)
                self.interpreter.allocate_tensors()
                self.sizes = sizes
            for index, value in values.items():
                self.interpreter.set_tensor(index, value)
            self.interpreter.invoke()
            return [self.interpreter.get_tensor(index) for index in outputs]

        return run

    def outputs_of(self, result: Any, feeds: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the outputs in the order of the file."""
        return [
            (detail["name"], value)
            for detail, value in zip(self.interpreter.get_output_details(), result, strict=True)
        ]


def open_source(request: Mapping[str, Any]) -> SavedModel | TfLite:
    """Open the source of a request: a TFLite file, a SavedModel, or a Keras model."""
    source, threads = request["source"], request["threads"]
    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    if request["kind"] == "tflite":
        return TfLite(source, threads)
    if request["factory"]:
        product = made_by_function(source, request["folder"])
        model, rows = product if isinstance(product, tuple) and len(product) == 2 else (product, None)
        if not hasattr(model, "export"):
            what = "the function returned a %s, which is not a Keras model" % type(model).__name__
            raise SourceRefused(what, "return the model, or (model, example inputs)")
        return _of_keras(model, rows)
    copied = os.path.join(tempfile.mkdtemp(prefix="checked-"), "model.keras")
    if os.path.isfile(source):
        copy_keras(source, copied)
        opened = _of_keras(_keras_file(copied), None)
        _require_plain(opened.folder)
        return opened
    copy_saved_model(source, copied)
    _require_plain(copied)
    return SavedModel(copied, "SavedModel", {})


def _custom_operators(path: str) -> set[str]:
    """Return the names of the TensorFlow operators in a TFLite file, which only TensorFlow itself can run."""
    from tensorflow.lite.python import schema_py_generated

    with open(path, "rb") as file:
        model = schema_py_generated.Model.GetRootAs(file.read(), 0)
    codes = (model.OperatorCodes(i).CustomCode() for i in range(model.OperatorCodesLength()))
    names = [code.decode("utf-8", "replace") for code in codes if code]
    return {name[len(_FLEX) :] for name in names if name.startswith(_FLEX)}


def _keras_file(path: str) -> Any:
    import keras

    try:
        return keras.models.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # a damaged file raises any kind of error, with pages of text
        text = str(error)
        if "safe_mode" in text or "Lambda" in text or "unsafe" in text.lower():
            what = "the file contains code, such as a Lambda layer, which safe_mode refuses"
        else:
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            what = "Keras cannot open it: %s" % (lines[0][:_LONGEST] if lines else type(error).__name__)
        raise SourceRefused(what, INSTEAD) from error


def _of_keras(model: Any, example: Any) -> SavedModel:
    """Return a Keras model as a SavedModel, which tf2onnx reads."""
    folder = tempfile.mkdtemp(prefix="saved-model-")
    with contextlib.redirect_stdout(io.StringIO()):
        model.export(folder, verbose=False)
    opened = SavedModel(folder, "Keras model", {})
    names = [tensor.name for tensor in opened.inputs]
    if isinstance(example, Mapping):
        opened.example = {name: np.asarray(example[name]) for name in names}
    elif example is not None:
        arguments = example if isinstance(example, list | tuple) else [example]
        opened.example = {name: np.asarray(value) for name, value in zip(names, arguments, strict=True)}
    return opened


def _require_plain(folder: str) -> None:
    """Refuse a SavedModel with an unlisted operator, in its graph or in any function."""
    from tensorflow.core.protobuf import saved_model_pb2
    from tensorflow.python.framework import op_def_registry

    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        saved.ParseFromString(file.read())
    for meta in saved.meta_graphs:
        functions = meta.graph_def.library.function
        nodes = [*meta.graph_def.node, *(node for function in functions for node in function.node_def)]
        # A function with an operator's name is not accepted in its place: the operator must be on the list.
        own = {f.signature.name for f in functions if op_def_registry.get(f.signature.name) is None}
        others = sorted({node.op for node in nodes} - ALLOWED - own)
        if others:
            what = "the SavedModel has operators that are not on the list, which may access files or run code: %s"
            raise SourceRefused(what % ", ".join(others)[:_LONGEST], INSTEAD)
        of_saver = misplaced(meta)
        if of_saver:
            raise SourceRefused("the SavedModel reads or writes checkpoints in a run: %s" % of_saver, INSTEAD)


def _convert(arguments: Sequence[str]) -> None:
    """Run tf2onnx as on its command line."""
    from tf2onnx import convert

    kept = sys.argv
    sys.argv = ["tf2onnx.convert", *arguments]
    try:
        convert.main()
    except SystemExit as error:
        raise RuntimeError("tf2onnx ended with %s" % error.code) from error
    finally:
        sys.argv = kept


def _threads() -> int | None:
    count: int = tf.config.threading.get_intra_op_parallelism_threads()
    return count or None


def _sizes(shape: Any) -> list[int | None]:
    return [] if shape.rank is None else [None if size is None else int(size) for size in shape]


def _versions() -> dict[str, str]:
    versions = {}
    for name in ("tensorflow-cpu", "tensorflow", "keras", "tf2onnx", "onnx"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
