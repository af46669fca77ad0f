"""Each pass over a graph takes time in proportion to its nodes: work is counted in calls, not in seconds."""

from __future__ import annotations

import cProfile
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from onnx_text import assemble, saved
from ortune import rewrites, rules
from ortune.engines.partitions import summary, support
from ortune.engines.partitions.partition import partition
from ortune.graph.groups import layer_groups
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.regions import regions
from ortune.graph.shapes.complete import complete_values
from ortune.graph.shapes.known import known_values, remembering
from ortune.inputs import workload
from ortune.records import Workload
from ortune.rules.facts import Facts

SMALL, LARGE = 50, 200
MOST = 5.0
"""Times as much work for four times the nodes: 4 where it is in proportion, and something for what is done once."""
READERS_A_CALL = 50
"""Readers of a value that are listed in the time of one call."""
ONCE = 3_000
"""Calls that do not count: imports, tables that are read once."""

Nodes = list[onnx.NodeProto]


def chain(n: int) -> onnx.ModelProto:
    """One path through functions that rewrites look for."""
    operators = ("Relu", "Tanh", "Erf", "Sigmoid", "Sin")
    nodes = [helper.make_node(operators[i % 5], [f"v{i}"], [f"v{i + 1}"]) for i in range(n)]
    return assemble(nodes, "float[1,4] v0", f"float[1,4] v{n}")


def wide(n: int) -> onnx.ModelProto:
    """One value that every node reads, and nodes that read many."""
    operators = ("Relu", "Tanh", "Erf", "Neg")
    nodes = [helper.make_node(operators[i % 4], ["x"], [f"v{i}"]) for i in range(n)]
    ends = range(0, n, 25)
    nodes += [helper.make_node("Sum", [f"v{i}" for i in range(end, end + 25)], [f"y{end}"]) for end in ends]
    return assemble(nodes, "float[1,4] x", ", ".join(f"float[1,4] y{end}" for end in ends))


def outputs(n: int) -> onnx.ModelProto:
    """Many outputs, and products of one value with one weight."""
    nodes = [helper.make_node("MatMul", ["x", "w"], [f"y{i}"]) for i in range(n)]
    names = ", ".join(f"float[1,4] y{i}" for i in range(0, n, 10))
    return assemble(nodes, "float[1,4] x", names, {"w": np.eye(4, dtype=np.float32)})


def shortcuts(n: int) -> onnx.ModelProto:
    """Each value is read twice: there are exponentially many paths."""
    nodes = [
        helper.make_node(("Add", "Mul")[i % 2], [f"v{max(0, i - 1)}", f"v{i}"], [f"v{i + 1}"])
        for i in range(n)
    ]
    return assemble(nodes, "float[1,4] v0", f"float[1,4] v{n}")


def branches(n: int) -> onnx.ModelProto:
    """An If for every five nodes, whose branches read what is around them."""
    nodes: Nodes = []
    for i in range(n // 5):
        bodies = {
            f"{name}_branch": helper.make_graph(
                [helper.make_node(operator, [f"v{i}"], [f"{name}{i}"])],
                name,
                [],
                [helper.make_tensor_value_info(f"{name}{i}", onnx.TensorProto.FLOAT, [1, 4])],
            )
            for name, operator in (("then", "Relu"), ("else", "Tanh"))
        }
        nodes += [
            helper.make_node("If", ["which"], [f"w{i}"], **bodies),
            helper.make_node("Cast", [f"w{i}"], [f"c{i}"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Identity", [f"c{i}"], [f"v{i + 1}"]),
        ]
    return assemble(nodes, "float[1,4] v0, bool[] which", f"float[1,4] v{n // 5}")


def quantized(n: int) -> onnx.ModelProto:
    """Products between QuantizeLinear and DequantizeLinear, all of one scale and one weight."""
    nodes: Nodes = []
    for i in range(n // 4):
        nodes += [
            helper.make_node("QuantizeLinear", [f"v{i}", "scale", "zero"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", "scale", "zero"], [f"d{i}"]),
            helper.make_node("DequantizeLinear", ["w", "scale", "zero"], [f"w{i}"]),
            helper.make_node("MatMul", [f"d{i}", f"w{i}"], [f"v{i + 1}"]),
        ]
    weights = {"scale": np.float32(0.1), "zero": np.int8(0), "w": np.ones((4, 4), np.int8)}
    return assemble(nodes, "float[1,4] v0", f"float[1,4] v{n // 4}", weights)


def sizes(n: int) -> onnx.ModelProto:
    """Shapes that are computed from shapes."""
    nodes: Nodes = []
    for i in range(n // 4):
        nodes += [
            helper.make_node("Shape", [f"v{i}"], [f"s{i}"]),
            helper.make_node("Gather", [f"s{i}", "first"], [f"g{i}"]),
            helper.make_node("Concat", [f"g{i}", "rest"], [f"c{i}"], axis=0),
            helper.make_node("Reshape", [f"v{i}", f"c{i}"], [f"v{i + 1}"]),
        ]
    weights = {"first": np.array([0]), "rest": np.array([-1])}
    return assemble(nodes, "float[b,4] v0", f"float[b,m] v{n // 4}", weights)


def layouts(n: int) -> onnx.ModelProto:
    """Transposes that undo each other, with products of constants between them."""
    nodes: Nodes = []
    for i in range(n // 4):
        nodes += [
            helper.make_node("Transpose", [f"v{i}"], [f"a{i}"], perm=[0, 2, 3, 1]),
            helper.make_node("Mul", [f"a{i}", "k"], [f"b{i}"]),
            helper.make_node("Transpose", [f"b{i}"], [f"c{i}"], perm=[0, 3, 1, 2]),
            helper.make_node("Conv", [f"c{i}", "w"], [f"v{i + 1}"]),
        ]
    weights = {"k": np.full(4, 1.5, np.float32), "w": np.ones((4, 4, 1, 1), np.float32)}
    return assemble(nodes, "float[1,4,2,2] v0", f"float[1,4,2,2] v{n // 4}", weights)


FORMS = [
    *(chain, wide, branches, sizes),
    *(pytest.param(form, marks=pytest.mark.long) for form in (outputs, shortcuts, quantized, layouts)),
]


@contextmanager
def counted_reads(counts: list[int], patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counts the readers that are listed: a list of all readers of one value is work that no call shows."""
    own = ir.Value.uses

    def uses(value: ir.Value) -> object:
        found = own(value)
        counts[0] += len(found) // READERS_A_CALL
        return found

    with patch.context() as inside:
        inside.setattr(ir.Value, "uses", uses)
        yield


def work_of(run: Callable[[], object], patch: pytest.MonkeyPatch) -> int:
    """Calls of functions, and readers that were listed."""
    reads, profile = [0], cProfile.Profile()
    with counted_reads(reads, patch):
        profile.enable()
        try:
            run()
        finally:
            profile.disable()
    return sum(entry.callcount for entry in profile.getstats()) + reads[0]


def passes(model: OpenModel) -> Iterator[tuple[str, Callable[[], object]]]:
    """Everything that is done to a graph as a whole, by name."""
    graph, facts = model.ir, Facts(model=model)
    work: Workload = workload.propose(graph)
    shaped = {choice.name: choice.shape for choice in work.cases[0].inputs}
    yield "known values", lambda: known_values(graph)
    yield "regions", lambda: regions(graph)
    yield "groups", lambda: layer_groups(graph)
    for rule in rules.all_rules(rules.ABOUT_MODELS).values():
        yield f"rule {rule.code}", lambda rule=rule: rule.findings(facts)  # type: ignore[misc]
    for rewrite in rewrites.all_rewrites().values():
        yield f"rewrite {rewrite.name}", lambda rewrite=rewrite: rewrite.proposes(graph, work)  # type: ignore[misc]
    values, shares = complete_values(graph), summary.work_shares(graph, shaped)
    yield "shapes", lambda: complete_values(graph)
    yield "work", lambda: summary.work_shares(graph, shaped)
    for form in support.FORMATS:
        parts = partition(graph, form, values=values)
        yield f"partition {form.name}", lambda form=form: partition(graph, form, values=values)  # type: ignore[misc]
        yield f"state {form.name}", lambda parts=parts: summary.state(parts, shares, "as-is")  # type: ignore[misc]
        yield f"regions {form.name}", lambda parts=parts: summary.regions(parts, shares)  # type: ignore[misc]
        yield f"split {form.name}", lambda parts=parts: summary.most_splitting_operator(parts, shares)  # type: ignore[misc]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_work_is_in_proportion_to_nodes(
    form: Callable[[int], onnx.ModelProto], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    work: list[dict[str, int]] = []
    for n in (SMALL, LARGE):
        model = open_model(saved(tmp_path / f"{n}.onnx", form(n)))
        with remembering():
            known_values(model.ir)
            work.append({name: work_of(run, monkeypatch) for name, run in passes(model)})
    small, large = work
    grown = {name: (small[name], large[name]) for name in small if large[name] > MOST * small[name] + ONCE}
    assert not grown
