"""What each optimisation level does to a model: the picture of ONNX Runtime's page on phones, for any model."""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime as ort
import pytest

from mobile_models import MNIST_NODES, mnist
from ortune.graph.levels import LEVELS, compare_levels
from ortune.graph.model.open import open_model
from ortune.records import LevelComparison, Runtime
from ortune.show import markdown
from ortune.show.document import Document
from ortune.targets.tool import ToolProcess
from ortune.verbs.convert import ort_words
from web_models import convolutions

FUSED = "com.microsoft.FusedConv"


def at_levels(model: Path, folder: Path, platform: str = "arm") -> LevelComparison:
    tool = ToolProcess(runtime=Runtime(python=sys.executable, ort_version=ort.__version__), folder=folder)
    tool("levels", model, folder, {"levels": ",".join(LEVELS.values()), "platform": platform})
    saved = {level: open_model(folder / f"{name}.onnx").ir for level, name in LEVELS.items()}
    return compare_levels(open_model(model).ir, saved)


def test_every_statement_of_the_page_on_mnist_holds(tmp_path: Path) -> None:
    found = at_levels(mnist(tmp_path / "mnist.onnx"), tmp_path)
    nodes = {change.operators: change for change in found.changes}
    conv, product, folded = (
        nodes["Conv", "Add", "Relu"], nodes["MatMul", "Add"], nodes[("Reshape",)],
    )  # fmt: skip
    # Basic: Conv and Add become one Conv, MatMul and Add one Gemm, and a Reshape of constants is folded.
    assert conv.at["basic"] == ("Conv", "Relu")
    assert product.at["basic"] == ("Gemm",) and product.nodes == (("Times212", "Plus214"),)
    assert folded.at["basic"] == () and folded.nodes == (("Times212_reshape1",),)
    assert "computed once" in folded.why["basic"]
    assert not any("." in operator for operator in found.graphs[1].operators)  # ONNX operators alone
    # Extended: besides, Conv and Relu become one FusedConv, and nothing else.
    assert conv.at["extended"] == (FUSED,)
    assert conv.nodes == (tuple(MNIST_NODES[:3]), tuple(MNIST_NODES[4:7]))
    assert [c.operators for c in found.changes if c.at["basic"] != c.at["extended"]] == [conv.operators]
    assert [graph.n_nodes for graph in found.graphs] == [12, 8, 6, 6]
    assert found.n_unchanged == 3  # two MaxPool and the Reshape of what is fed
    assert conv.at["none"] == conv.operators


def test_it_is_one_table_and_a_list_of_names(tmp_path: Path) -> None:
    found = at_levels(mnist(tmp_path / "mnist.onnx"), tmp_path)
    text = markdown.render(Document(blocks=[*ort_words.levels(found), ort_words.every_change(found)]))
    assert "| Conv + Add + Relu | 2 | Conv + Relu | FusedConv | = |" in text
    assert "| Reshape | 1 | removed | = | = |" in text
    assert "MatMul + Add: Times212 + Plus214" in text


@pytest.mark.parametrize("platform", ["arm", "amd64"])
def test_blocks_are_for_x86_alone(tmp_path: Path, platform: str) -> None:
    found = at_levels(convolutions(tmp_path / "net.onnx"), tmp_path, platform)
    blocked = [op for op in found.graphs[-1].operators if op.startswith("com.microsoft.nchwc.")]
    assert bool(blocked) == (platform == "amd64")
    assert any(each.operator.startswith("Reorder") for each in found.insertions) == bool(blocked)
    assert {name for change in found.changes for place in change.nodes for name in place}
