"""Provider-aware files: what the provider takes stays plain ONNX, the rest is what the optimiser makes of it alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from random_graphs import random_graph
from rewrite_corpus import CORPUS, Sample

from mobile_models import mnist
from ortune.engines.ort_format.aware import Takes, aware_model, basic_model
from ortune.engines.ort_format.regions import rest_of
from ortune.errors import OrtuneError
from ortune.graph.model.graphs import subgraphs
from ortune.graph.model.open import open_model
from ortune.graph.model.operators import STANDARD
from ortune.graph.model.save import save_model
from ortune.records import AwareFile
from ortune.worker import tool as worker

ort.set_default_logger_severity(4)
Feeds = Mapping[str, np.ndarray]


class HereTool:
    """The tool process's tasks in this process: a thousand graphs are no thousand processes."""

    identity = "here"

    def __call__(self, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
        request = {
            "task": task, "model": str(source), "output": str(target), "params": dict(params), "applied": [],
            "external_name": f"{target.name}.data", "providers": [], "custom_ops": [],
        }  # fmt: skip
        said: str = worker.TASKS[task](ort, request)
        return said


def takes(*operators: str) -> Takes:
    return lambda model: [node for node in model.graph if node.op_type in operators]


def ran(path: Path, feeds: Feeds) -> list[np.ndarray]:
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, dict(feeds))


def made(
    source: Path, taking: Takes, feeds: Feeds, level: str = "extended"
) -> tuple[AwareFile, ir.Model | None]:
    """Makes the file in ORT format, and checks what must hold of any: outputs, plain nodes, the rest."""
    folder, tool = source.parent, HereTool()
    basic = basic_model(open_model(source), folder, tool, "any")
    whole, file = aware_model(basic, "nnapi", taking, folder, tool, level=level, platform="any")
    if whole is None:
        return file, None
    save_model(whole, folder / "whole.onnx")
    target = folder / "whole.ort"
    tool(
        "ort-format", folder / "whole.onnx", target, {"level": "disable", "style": "fixed", "platform": "any"}
    )
    for ours, theirs in zip(ran(target, feeds), ran(source, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    written = open_model(target).ir
    outputs = {node.outputs[0].name for node in _taken(basic, taking)}
    assert sum(node.outputs[0].name in outputs for node in whole.graph) == file.n_kept
    kept = [node for node in written.graph if node.outputs[0].name in outputs]
    assert {node.domain for node in kept} <= STANDARD
    # All other nodes are those that the optimiser makes of the rest alone, unless nothing needs them any more.
    alone = Counter(map(_signature, open_model(folder / "rest-optimised.onnx").ir.graph))
    others = Counter(_signature(node) for node in written.graph if node not in kept)
    unread = {_signature(node) for node in _unread(folder / "rest-optimised.onnx", whole)}
    assert not others - alone and {*(alone - others)} <= unread | CASTS
    return file, written


def _taken(model: ir.Model, taking: Takes) -> Collection[ir.Node]:
    return {n for n in taking(model) if n.domain in STANDARD and not list(subgraphs(n))}


FUSED_ONES = 300
"""From this seed on some of the graphs hold what the optimiser fuses for the CPU alone."""
CASTS = {("", "Cast", 1)}
"""ONNX Runtime joins the casts around what the CPU has no float16 kernel of, whatever the level."""


def _unread(alone: Path, whole: ir.Model) -> list[ir.Node]:
    """The nodes of the optimised rest whose results nothing reads between the nodes that are kept."""
    names = {v.name for node in whole.graph for v in node.outputs}
    return [node for node in open_model(alone).ir.graph if not names & {v.name for v in node.outputs}]


def _signature(node: ir.Node) -> tuple[str, str, int]:
    return node.domain, node.op_type, len(node.outputs)


FED = {"Input3": np.random.default_rng(1).standard_normal((1, 1, 28, 28), dtype=np.float32)}


def test_what_is_kept_and_what_is_fused(tmp_path: Path) -> None:
    file, written = made(mnist(tmp_path / "m.onnx"), takes("MaxPool", "Gemm"), FED)
    assert (file.n_kept, file.n_rest, file.n_rest_after) == (3, 5, 3)
    assert file.made == {"com.microsoft.FusedConv": 2} and not file.gains_nothing
    assert written is not None and written.metadata_props["ortune.kept_for"] == "nnapi"
    assert [n.op_type for n in written.graph] == [
        "FusedConv", "MaxPool", "FusedConv", "MaxPool", "Reshape", "Gemm",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("operators", "why"),
    [
        (("Conv", "Relu", "MaxPool"), "does not change the 2 nodes"),
        (("Softmax",), "supports no node"),
        (("Conv", "Relu", "MaxPool", "Reshape", "Gemm"), "supports every node"),
    ],
)
def test_it_is_refused_where_it_gains_nothing(tmp_path: Path, operators: tuple[str, ...], why: str) -> None:
    file, written = made(mnist(tmp_path / "m.onnx"), takes(*operators), FED)
    assert written is None and why in file.gains_nothing


def test_a_value_that_both_parts_read_is_not_fused_away(tmp_path: Path) -> None:
    # What the first Conv gives goes into a kept Relu: nothing may be fused into that Conv.
    source, first = mnist(tmp_path / "m.onnx"), "Relu"
    _, written = made(source, lambda model: [n for n in model.graph if n.op_type == first][:1], FED)
    assert written is not None
    assert [n.op_type for n in written.graph][:3] == ["Conv", "Relu", "MaxPool"]


@pytest.mark.parametrize("sample", CORPUS, ids=lambda sample: sample.name)
def test_the_corpus(tmp_path: Path, sample: Sample) -> None:
    made(sample.write(tmp_path), some, sample.feeds)


def some(model: ir.Model) -> list[ir.Node]:
    """A fifth of the nodes, the same ones whenever it is asked."""
    return [node for node in model.graph if random.Random(node.outputs[0].name).random() < 0.2]


def test_a_cut_model_reads_what_was_kept(tmp_path: Path) -> None:
    basic = basic_model(open_model(mnist(tmp_path / "m.onnx")), tmp_path, HereTool(), "arm")
    pools = [place for place, node in enumerate(basic.graph) if node.op_type == "MaxPool"]
    rest = rest_of(basic, pools)
    assert [v.name for v in rest.graph.inputs] == ["Input3", "m1", "m2"]
    assert {v.name for v in rest.graph.outputs} == {"r1", "r2", "Plus214_Output_0"}
    assert len(basic.graph) == 8 and str(rest.graph.inputs[1].shape) == "[1,8,14,14]"


@pytest.mark.parametrize(
    "first",
    [FUSED_ONES, *(pytest.param(n, marks=pytest.mark.long) for n in range(0, 1000, 25) if n != FUSED_ONES)],
)
def test_random_graphs_cut_at_random(tmp_path: Path, first: int) -> None:
    written = 0
    for seed in range(first, first + 25):
        folder = tmp_path / str(seed)
        folder.mkdir()
        model, feeds = random_graph(seed)
        onnx.save(model, folder / "m.onnx")
        try:
            ran(folder / "m.onnx", feeds)
        except Exception:  # noqa: BLE001  (ONNX Runtime's own: it does not run the graph)
            continue
        try:
            file, _ = made(folder / "m.onnx", some, feeds)
        except OrtuneError as error:
            assert error.code == "not-aware"
            continue
        written += not file.gains_nothing
    assert written or first != FUSED_ONES
