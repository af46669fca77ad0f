"""What an exporter left in a model: each finding with the option that mends it, and silence where nothing was left."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import onnx
import pytest
from onnx import parser

from ortune.graph.model.open import open_model
from ortune.records import Finding, SourceInput, SourceOpened
from ortune.rules import rule_of
from ortune.rules.graph import (
    inlined_functions,
    old_opset,
    unfused_attention,
    unfused_gelu,
    unfused_hard_swish,
    unfused_layer_normalization,
)
from ortune.verbs.convert import exported as _exported

MODULE = SourceOpened(
    kind="PyTorch module",
    framework="PyTorch 2",
    versions={},
    example=False,
    exporters=("dynamo", "torchscript"),
    inputs=(SourceInput(name="x", type="float", shape=(1, 3, 8, 8)),),
)
SAVED = SourceOpened(
    kind="SavedModel", framework="TensorFlow 2", versions={}, example=False, exporters=("tf2onnx",), inputs=()
)
RELU = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,8] x) => (float[2,8] y) { y = Relu(x) }'
LEFT: list[tuple[ModuleType, int, str]] = [
    (unfused_layer_normalization, 17, "layer_norm"),
    (unfused_gelu, 20, "gelu"),
    (unfused_attention, 23, "scaled_dot_product_attention"),
]
"""What is left in parts, the first opset that has one operator for it, and the function that becomes that operator."""


def found(model: onnx.ModelProto, folder: Path, source: SourceOpened = MODULE) -> dict[str, Finding]:
    """The findings by their code."""
    onnx.save(model, folder / "m.onnx")
    findings = _exported.findings(open_model(folder / "m.onnx"), source, "mine:net")
    return {finding.code: finding for finding in findings}


def at(text: str, opset: int) -> onnx.ModelProto:
    """A model of the same text at another opset."""
    model = parser.parse_model(text)
    model.opset_import[0].version = opset
    return model


@pytest.mark.parametrize(("module", "opset", "function"), LEFT)
def test_what_was_left_is_named_with_the_opset_that_has_one_operator_for_it(
    module: ModuleType, opset: int, function: str, tmp_path: Path
) -> None:
    code = rule_of(module).code
    finding = found(at(module.BAD, opset - 1), tmp_path)[code]
    assert finding.fix == f"export it again: ortune convert mine:net --opset {opset} --force"
    # Where the opset is new enough, the model itself has it in parts.
    finding = found(at(module.BAD, opset), tmp_path)[code]
    assert finding.fix.startswith(f"call torch.nn.functional.{function} in the model")
    # Converters of other frameworks have no such option.
    assert found(at(module.BAD, opset - 1), tmp_path, SAVED) == {}
    assert code not in found(parser.parse_model(module.GOOD), tmp_path)


def test_a_hard_swish_by_hand_is_named_with_the_function_at_any_opset(tmp_path: Path) -> None:
    code = rule_of(unfused_hard_swish).code
    for opset in (13, 20):
        finding = found(at(unfused_hard_swish.BAD, opset), tmp_path)[code]
        assert finding.fix.startswith("call torch.nn.functional.hardswish ")
    assert code not in found(parser.parse_model(unfused_hard_swish.GOOD), tmp_path)


def test_an_old_opset_is_named_with_a_new_one(tmp_path: Path) -> None:
    code = rule_of(old_opset).code
    finding = found(at(RELU, 12), tmp_path)[code]
    assert "opset 12" in finding.what
    assert finding.fix == "export it again: ortune convert mine:net --opset 18 --force"
    assert found(at(RELU, 13), tmp_path) == {}
    assert found(at(RELU, 9), tmp_path, SAVED) == {}


def test_functions_that_grow_are_named(tmp_path: Path) -> None:
    code = rule_of(inlined_functions).code
    assert "export again" in found(inlined_functions.bad(), tmp_path)[code].fix
    assert code not in found(inlined_functions.good(), tmp_path)


def test_fixed_sizes_are_named_where_no_axis_was_asked_for(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(RELU), tmp_path / "m.onnx")
    model = open_model(tmp_path / "m.onnx")
    note = _exported.fixed_axes(model, "", MODULE, "mine:net")
    assert "x at 1x3x8x8" in note and note.endswith("ortune convert mine:net --dynamic batch --force")
    assert _exported.fixed_axes(model, "batch", MODULE, "mine:net") == ""
    # A file has the sizes that it was saved with, and says so itself where another is asked for.
    assert _exported.fixed_axes(model, "", SAVED, "model") == ""
