"""Nodes of a model are found again in another one that was edited, whatever an exporter calls them there."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from edited_models import EDITS, numbered, squeezenet
from ortune.graph.mapping import counterparts
from ortune.graph.mapping.model_view import ModelView
from ortune.graph.model.open import open_model
from zoo import model_path


def written(model: onnx.ModelProto, path: Path) -> ir.Model:
    onnx.save(model, path)
    return open_model(path).ir


@pytest.mark.parametrize("names", ["its own", "numbers", "none"])
@pytest.mark.parametrize("edit", EDITS)
def test_all_but_what_was_added_meets(edit: str, names: str, tmp_path: Path) -> None:
    plain, edited = squeezenet(), squeezenet()
    change, added = EDITS[edit]
    change(edited)
    for model in (plain, edited) if names != "its own" else ():
        numbered(model, names=names == "numbers")
    a, b = written(plain, tmp_path / "a.onnx"), written(edited, tmp_path / "b.onnx")
    found = counterparts(a, b)
    steps = ModelView(b).steps
    assert [step.op_type for step in steps if step.name not in found] == added
    # In order, and so each is itself.
    assert [found[step.name] for step in steps if step.name in found] == [
        step.name for step in ModelView(a).steps
    ]


def test_what_was_moved_meets_by_its_name(tmp_path: Path) -> None:
    plain, moved = squeezenet(), squeezenet()
    convolutions = [i for i, node in enumerate(plain.graph.node) if node.op_type == "Conv"]
    # The two expanding convolutions of a fire module, each with its Relu: their order in the file means nothing.
    first, second = convolutions[2], convolutions[3]
    nodes = list(moved.graph.node)
    pairs = nodes[first : first + 2], nodes[second : second + 2]
    nodes[first : second + 2] = [*pairs[1], *pairs[0]]
    del moved.graph.node[:]
    moved.graph.node.extend(nodes)
    found = counterparts(written(plain, tmp_path / "a.onnx"), written(moved, tmp_path / "b.onnx"))
    assert all(name == other for name, other in found.items())
    assert len(found) == len(plain.graph.node)


def test_a_large_model_meets_itself() -> None:
    """More than two thousand nodes, many of them without a name of their own."""
    model = open_model(model_path("piper-joe")).ir
    found = counterparts(model, model)
    assert all(name == other for name, other in found.items())
    assert len(found) == len({step.name for step in ModelView(model).steps})
