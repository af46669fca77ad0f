"""Plans that keep one side of the graph on the CPU: where there are islands, by names that tell nodes apart."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import pytest
from onnx import parser

from facts import facts
from ortune.catalogue import knobs
from ortune.catalogue.named import NODE_PLACEMENT
from ortune.records import Placement, Plan, ProviderSpec
from ortune.verbs.tune.hybrids import hybrids

GPU, CPU = "WebGpuExecutionProvider", "CPUExecutionProvider"
ON = Plan(providers=(ProviderSpec(name=GPU),))
CHAIN = """
    <ir_version: 8, opset_import: ["": 17]> g (float[4, 4] x, float[4, 4] w) => (float[4, 4] y) {
        a = MatMul(x, w)
        b = Relu(a)
        c = IsNaN(b)
        d = Cast<to = 1>(c)
        y = MatMul(d, w)
    }
"""
NAMES = ("/body/0/MatMul", "/body/0/Relu", "/head/IsNaN", "/head/Cast", "/head/MatMul")


def graph(names: Sequence[str] = NAMES, text: str = CHAIN) -> ir.Graph:
    model = parser.parse_model(text)
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    return ir.from_proto(model).graph


def placed(*on_cpu: str, names: tuple[str, ...] = NAMES) -> tuple[Placement, ...]:
    on_gpu = tuple(name for name in names if name not in on_cpu)
    parts = ((CPU, on_cpu), (GPU, on_gpu))
    return tuple(Placement(provider=p, n_nodes=len(n), n_parts=1, nodes=n) for p, n in parts if n)


def values(graph_: ir.Graph, placement: tuple[Placement, ...], version: str = "1.32.0") -> list[str]:
    plans, _ = hybrids(graph_, placement, ON, version)
    assert all(p.plan.providers == ON.providers for p in plans)
    return [str(p.plan.settings[NODE_PLACEMENT.name]) for p in plans]


def test_what_follows_an_island_or_precedes_it_is_kept_on_the_cpu() -> None:
    after, before = values(graph(), placed("/head/IsNaN"))
    assert after == f"{CPU}(/head/)"
    assert before == f"{CPU}(/body/)"
    for value in (after, before):
        assert knobs.parse_settings([f"{NODE_PLACEMENT.name}={value}"]) == {NODE_PLACEMENT.name: value}


@pytest.mark.parametrize(
    "on_cpu", [(), NAMES[-1:], NAMES[:1], NAMES[:2]], ids=["none", "last", "first", "head"]
)
def test_nodes_on_the_cpu_at_an_end_are_no_island(on_cpu: tuple[str, ...]) -> None:
    assert hybrids(graph(), placed(*on_cpu), ON, "1.32.0") == ([], ())


def test_a_side_without_heavy_work_on_the_device_is_not_proposed() -> None:
    names = ("/body/Relu", "/body/Relu_1", "/head/IsNaN", "/head/Cast", "/head/MatMul")
    light = graph(names, CHAIN.replace("a = MatMul(x, w)", "a = Relu(x)"))
    (before,) = values(light, placed("/head/IsNaN", names=names))
    assert before == f"{CPU}(/body/)"


def test_a_name_within_that_of_a_node_that_stays_does_not_move_it() -> None:
    names = ("MatMul_10", "Relu_1", "IsNaN", "Cast", "MatMul_1")
    after, before = values(graph(names), placed("IsNaN", names=names))
    assert after == f"{CPU}(Cast,MatMul_1);{GPU}(MatMul_10)"
    assert before == f"{CPU}(MatMul_10,Relu_1)"


def test_a_fused_node_stands_for_the_node_that_it_is_named_for() -> None:
    names = (*NAMES[:4], f"{NAMES[4]}/MatMulAddFusion")
    after, _ = values(graph(), placed("/head/IsNaN", names=names))
    assert after == f"{CPU}(/head/)"


@pytest.mark.parametrize("name", ["a(b)", "a;b", "a,b", "=a", " a"])
def test_names_that_the_setting_cannot_hold_are_none(name: str) -> None:
    names = (*NAMES[:4], name)
    graph_ = graph()
    list(graph_)[-1].name = name
    plans, why = hybrids(graph_, placed("/head/IsNaN", names=names), ON, "1.32.0")
    assert all("body" in str(p.plan.settings[NODE_PLACEMENT.name]) for p in plans)
    assert not why


def test_a_plug_in_that_compiles_parts_of_the_graph_gets_no_plan() -> None:
    on = Plan(providers=(ProviderSpec(name="QNNExecutionProvider"),))
    plans, (why,) = hybrids(graph(), placed("/head/IsNaN"), on, "1.32.0")
    assert not plans
    facts(why, "1 node on the CPU between nodes on QNN", "compiles parts of the graph")


def test_a_version_without_the_setting_is_told() -> None:
    plans, (why,) = hybrids(graph(), placed("/head/IsNaN"), ON, "1.24.1")
    assert not plans
    assert (
        why
        == "1 node on the CPU between nodes on WebGpu: node_placement needs onnxruntime 1.31; this is 1.24.1"
    )
