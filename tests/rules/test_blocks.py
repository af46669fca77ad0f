"""Findings on repeated blocks: one for all of them, in the words of one block, with its share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortune
from facts import facts
from onnx_text import assemble
from ortune import rules
from ortune.graph.model.open import open_model
from ortune.records import Finding
from ortune.rules import Facts, Selection
from ortune.rules._blocks import by_blocks
from zoo import model_path

WIDTH, LAYERS = 16, 12
Layer = Callable[[int, str], list[onnx.NodeProto]]


def written(
    folder: Path,
    layer: Layer,
    layers: int = LAYERS,
    before: onnx.NodeProto | None = None,
    **weights: np.ndarray,
) -> Path:
    """A model of equal layers; a weight whose name holds "{i}" is one of each layer's own."""
    nodes = [before] if before else []
    x = before.output[0] if before else "x"
    tensors = []
    for i in range(layers):
        nodes += layer(i, x)
        x = nodes[-1].output[0]
        tensors += [numpy_helper.from_array(a, n.format(i=i)) for n, a in weights.items() if "{i}" in n]
    tensors += [numpy_helper.from_array(a, name) for name, a in weights.items() if "{i}" not in name]
    shape = [1, WIDTH, WIDTH, WIDTH]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    nodes.append(helper.make_node("Identity", [x], ["y"], name="end"))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    made = assemble(nodes, inputs, outputs, tensors)
    onnx.save(made, folder / "m.onnx")
    return folder / "m.onnx"


def node(i: int, op: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [f"{output}{i}"], name=f"/layers.{i}/{op}_{output}", **attributes)


def with_gelu(i: int, x: str) -> list[onnx.NodeProto]:
    """A product, a Gelu in parts that ONNX Runtime does not fuse, and a sum."""
    return [
        node(i, "MatMul", [x, f"w{i}"], "p"),
        node(i, "Div", [f"p{i}", "root"], "d"),
        node(i, "Erf", [f"d{i}"], "e"),
        node(i, "Add", [f"e{i}", "one"], "a"),
        node(i, "Mul", [f"a{i}", "half"], "m"),
        node(i, "Mul", [f"p{i}", f"m{i}"], "g"),
        node(i, "Add", [x, f"g{i}"], "s"),
    ]


def masked(i: int, x: str) -> list[onnx.NodeProto]:
    """A product with a mask of minus infinity, between two other nodes."""
    return [
        node(i, "Relu", [x], "r"),
        node(i, "Mul", [f"r{i}", f"mask{i}"], "m"),
        node(i, "Add", [f"m{i}", x], "s"),
    ]


def phase(i: int, x: str) -> list[onnx.NodeProto]:
    """One phase of a pixel shuffle that is spelled out: its channels, made larger, where its mask has it."""
    return [
        node(i, "Einsum", ["x", f"w{i}"], "c", equation="bchw,cd->bdhw"),
        node(i, "Resize", [f"c{i}", "", "twice"], "u", mode="nearest"),
        node(i, "Mul", [f"u{i}", f"mask{i}"], "m"),
        node(i, "Add", [f"m{i}", x], "s"),
    ]


def found(path: Path, *codes: str) -> list[Finding]:
    asked = Selection(select=codes).rules()
    return list(rules.found_by(asked, Facts(model=open_model(path))))


GELU = {
    "w{i}": np.eye(WIDTH, dtype=np.float32), "root": np.float32(2**0.5), "one": np.float32(1),
    "half": np.float32(0.5),
}  # fmt: skip
PHASE = {
    "w{i}": np.eye(WIDTH, dtype=np.float32), "twice": np.float32([1, 1, 2, 2]),
    "mask{i}": np.ones((2 * WIDTH, 2 * WIDTH), np.float32),
}  # fmt: skip


def test_twelve_layers_with_a_gelu_in_parts_are_one_finding_that_names_one(tmp_path: Path) -> None:
    (finding,) = found(written(tmp_path, with_gelu, **GELU), "GRA012")
    facts(finding.what, "12 Gelu", "not fused", "12 Erf (/layers.0/Erf_e", "12 repeated blocks)")
    assert len(finding.where) == 12
    (blocks,) = finding.blocks
    assert (blocks.blocks, blocks.copies, blocks.nodes) == (12, 12, ("/layers.0/Erf_e",))


def test_a_layer_that_is_another_is_named_beside_the_blocks(tmp_path: Path) -> None:
    def layer(i: int, x: str) -> list[onnx.NodeProto]:
        return [*with_gelu(i, x), node(i, "Neg", [f"s{i}"], "n")] if i == 11 else with_gelu(i, x)

    path = written(tmp_path, layer, **GELU)
    model = onnx.load(path)
    (large,) = (t for t in model.graph.initializer if t.name == "w11")
    large.CopyFrom(numpy_helper.from_array(np.ones((WIDTH, 1), np.float32), "w11"))
    onnx.save(model, path)
    (finding,) = found(path, "GRA012")
    facts(finding.what, "(/layers.0/Erf_e", "11 repeated blocks", "/layers.11/Erf_e)")
    assert len(finding.where) == 12


def test_findings_that_say_the_same_of_one_block_each_are_one(tmp_path: Path) -> None:
    mask = np.full((WIDTH, WIDTH), -np.inf, np.float32)
    path = written(tmp_path, masked, **{"mask{i}": mask})
    (finding,) = found(path, "PRC006")
    assert len(finding.where) == 12 and finding.where[0] == "mask0"
    assert "'mask0'" in finding.what and "mask0 in each of 12 repeated blocks" in finding.what
    assert "mask1" not in finding.what


def test_findings_that_say_something_else_stay_apart(tmp_path: Path) -> None:
    path = written(tmp_path, masked, **{"mask{i}": np.ones((WIDTH, WIDTH), np.float32)})
    model = open_model(path).ir
    given = [Finding(code="GRA901", what=f"{i} of them", where=(f"/layers.{i}/Mul_m",)) for i in range(12)]
    assert by_blocks(given, model, ()) == tuple(given)


def test_nodes_that_a_sentence_names_itself_are_named_once(tmp_path: Path) -> None:
    path = written(tmp_path, masked, **{"mask{i}": np.ones((WIDTH, WIDTH), np.float32)})
    where = ("first", "/layers.0/Mul_m", *(f"/layers.{i}/Mul_m" for i in range(1, 12)), "second", "third")
    given = Finding(code="GRA901", what="a tenth of the run is slow: first, second", where=where)
    (finding,) = by_blocks([given], open_model(path).ir, ())
    assert finding.what.count("first") == finding.what.count("second") == 1
    facts(finding.what, "slow: first, second; /layers.0/Mul_m in each of 12 repeated blocks; third")


def test_a_pixel_shuffle_spelled_out_is_one_finding(tmp_path: Path) -> None:
    first = helper.make_node("Resize", ["x", "", "twice"], ["base"], name="base", mode="nearest")
    path = written(tmp_path, phase, 9, first, **PHASE)
    (finding,) = found(path, "GRA027")
    facts(finding.what, "9 Einsums", "/layers.0/Einsum_c", "9 repeated blocks")
    assert finding.blocks[0].copies == 9 and "/layers.1" not in finding.what


def test_two_blocks_are_both_named(tmp_path: Path) -> None:
    (finding,) = found(written(tmp_path, with_gelu, 2, **GELU), "GRA012")
    assert "(/layers.0/Erf_e, /layers.1/Erf_e)" in finding.what and not finding.blocks


def test_steps_of_a_recurrence_are_counted_by_their_own_rule(tmp_path: Path) -> None:
    rule = rules.find_rule("GRA010")
    assert rule.bad is not None and rule.counts_blocks
    onnx.save(rule.bad(), tmp_path / "m.onnx")
    (finding,) = found(tmp_path / "m.onnx", "GRA010")
    assert "20 steps" in finding.what and "repeated blocks" not in finding.what


def test_check_says_it_of_a_real_model_with_its_share() -> None:
    result = ortune.check(model_path("minilm-int8"), select=["GRA013"]).result
    assert result is not None
    (finding,) = result.models[0].findings
    # Five of its six layers are equal in the file: the first has nodes that all of them share.
    assert finding.blocks[0].copies == 5 and len(finding.where) == 6
    assert "in each of 5 repeated blocks" in finding.what
    assert finding.share_ratio is not None and finding.share_ratio > 0


SHOWN = {code: rule for code, rule in rules.all_rules().items() if rule.bad is not None}


@pytest.mark.parametrize("code", SHOWN)
def test_blocks_are_among_what_a_finding_names(code: str, tmp_path: Path) -> None:
    bad = SHOWN[code].bad
    assert bad is not None
    onnx.save(bad(), tmp_path / "m.onnx")
    findings = found(tmp_path / "m.onnx", code)
    assert all(set(blocks.nodes) <= set(finding.where) for finding in findings for blocks in finding.blocks)
