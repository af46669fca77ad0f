"""Models as text, what a rule finds in one, and the graph that ONNX Runtime makes of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import onnx.parser
import onnxruntime
from rule_facts import HOST

from ortune import rules
from ortune.graph.model.open import open_model
from ortune.records import Finding
from ortune.rules import Facts

ONES = ",".join("1" * 16)
HEAD, HEAD17 = (f'<ir_version: 8, opset_import: ["" : {opset}]>' for opset in (16, 17))


def optimised_model(path: Path) -> onnx.ModelProto:
    """The graph that ONNX Runtime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path.with_suffix(".optimised.onnx"))
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)


def optimised(path: Path) -> Counter[str]:
    """Operators of that graph."""
    return Counter(node.op_type for node in optimised_model(path).graph.node)


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    """The file of a model."""
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def rule_findings(code: str, path: Path) -> list[Finding]:
    """What a rule finds in a file."""
    return rules.find_rule(code).findings(Facts(model=open_model(path), host=HOST))


def edited(text: str, changes: dict[str, str]) -> onnx.ModelProto:
    """The model of a text in which each of these is replaced once."""
    for was, becomes in changes.items():
        assert was in text
        text = text.replace(was, becomes, 1)
    return onnx.parser.parse_model(HEAD17 + text)
