"""Latency that grows with the square of the length: a list that a loop copies is named before anything else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from rule_facts import at_two_lengths, opened

from ortune.rules import rule_of
from ortune.rules.graph import sequence_grown_in_a_loop
from ortune.rules.shapes import superlinear_latency


def _by_concat(*, carried: bool) -> onnx.ModelProto:
    """A loop that appends a row to a tensor, or to the same one in every iteration."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Concat", ["rows" if carried else "x", "x"], ["longer"], axis=0, name="append"),
        helper.make_node("Identity", ["go"], ["on"]),
    ]
    inputs = [
        info("i", TensorProto.INT64, []),
        info("go", TensorProto.BOOL, []),
        info("rows", TensorProto.FLOAT, None),
    ]
    outputs = [info("on", TensorProto.BOOL, []), info("longer", TensorProto.FLOAT, None)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body, name="loop")
    graph = helper.make_graph(
        [loop],
        "g",
        [info("x", TensorProto.FLOAT, ["seq", 16]), info("n", TensorProto.INT64, [])],
        [info("y", TensorProto.FLOAT, ["rows", 16])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("model", "name"),
    [(_by_concat(carried=True), "append"), (sequence_grown_in_a_loop.bad(), "bad_insert")],
    ids=["Concat", "SequenceInsert"],
)
def test_a_list_that_a_loop_copies_is_the_cause(tmp_path: Path, model: onnx.ModelProto, name: str) -> None:
    """Shorter inputs are no cure for it."""
    facts = replace(at_two_lengths(tmp_path, 1.0, 12.0), model=opened(model, tmp_path))
    (finding,) = rule_of(superlinear_latency).findings(facts)
    assert finding.where == (name,)
    assert name in finding.what and "scan output" in finding.fix


def test_a_tensor_that_does_not_grow_is_no_cause(tmp_path: Path) -> None:
    """It is made anew in every iteration."""
    facts = replace(at_two_lengths(tmp_path, 1.0, 12.0), model=opened(_by_concat(carried=False), tmp_path))
    (finding,) = rule_of(superlinear_latency).findings(facts)
    assert "shorter sizes" in finding.fix
