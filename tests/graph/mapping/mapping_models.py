"""Small models in ONNX's text form, as ONNX Runtime optimises and runs them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import numpy_helper, parser

from ortune.graph.mapping import Mapping, originals
from ortune.graph.model.open import open_model

HEAD = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>\n'
BOTH = ("extended", "all")
_LEVELS = {
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "disable": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_draw = np.random.default_rng(0)

Array = np.ndarray


def f32(*shape: int) -> Array:
    """Random numbers."""
    return _draw.standard_normal(shape).astype(np.float32)


def ints(dtype: type, *shape: int) -> Array:
    """Small random integers."""
    return _draw.integers(0, 9, shape).astype(dtype)


@dataclass(frozen=True)
class Mapped:
    """A model, what became of it, and the mapping between them."""

    before: ir.Model
    after: ir.Model
    mapping: Mapping

    def of(self, operator: str) -> list[tuple[str, ...]]:
        """What each node with such an operator stands for, in the order of the optimised graph."""
        mapping = self.mapping
        return [found for name, found in mapping.originals.items() if mapping.operators[name] == operator]


def written(text: str, weights: dict[str, Array], *, named: bool = True) -> onnx.ModelProto:
    """The model of a text; nodes are called after what they make."""
    model = parser.parse_model(HEAD + text)
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    if named:
        _name(model.graph)
        for function in model.functions:
            _name(function)
    onnx.checker.check_model(model)
    return model


def _name(graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    for node in graph.node:
        node.name = f"/{node.output[0]}/{node.op_type}"
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _name(attribute.g)


def mapped(
    text: str, weights: dict[str, Array] | None = None, level: str = "extended", *, named: bool = True
) -> Mapped:
    """Write a model, let ONNX Runtime optimise it, and map."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(written(text, weights or {}, named=named), path)
        return of_file(path, level)


def of_file(path: Path, level: str = "extended") -> Mapped:
    """The same for a model that is there."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "optimised.onnx"
        session(path, level, optimized_model_filepath=str(saved))
        before, after = open_model(path).ir, open_model(saved).ir
        return Mapped(before, after, originals(before, after))


def session(path: Path, level: str, **options: object) -> ort.InferenceSession:
    """A session on the CPU, one thread."""
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = _LEVELS[level]
    for name, value in options.items():
        setattr(settings, name, value)
    return ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
