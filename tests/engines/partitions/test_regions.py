"""Regions: as ONNX Runtime's own partitioner makes them, convex, and as the documentation's example has them."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from onnxruntime.tools.mobile_helpers import usability_checker

from onnx_text import assemble
from ortune.engines.partitions import support
from ortune.engines.partitions.partition import Partition, partition
from ortune.engines.partitions.regions import Wiring, grouped
from ortune.engines.partitions.units import units_of
from ortune.graph.model.open import open_model
from partition_models import mnist, optimised

LIST = Path(usability_checker.__file__).parent / "nnapi_supported_ops.md"


def drawn(seed: int) -> onnx.ModelProto:
    """A graph of additions and subtractions, some of a kind that NNAPI has not."""
    draw = random.Random(seed)
    names = ["x"]
    nodes = []
    for number in range(draw.randint(2, 40)):
        op = draw.choice(["Add", "Mul", "Sub", "Max", "Mod", "BitShift"][: draw.randint(5, 6)])
        read = [draw.choice(names[-6:]), draw.choice(names)]
        nodes.append(onnx.helper.make_node(op, read, [f"v{number}"], name=f"n{number}"))
        names.append(f"v{number}")
    value = onnx.helper.make_tensor_value_info
    return assemble(nodes, "float[2] x", [value(name, 1, [2]) for name in names[-2:]])


@pytest.mark.parametrize("seed", range(60))
def test_groups_are_those_of_the_wheels_own_checker_and_convex(seed: int, tmp_path: Path) -> None:
    proto = drawn(seed)
    onnx.save(proto, tmp_path / "model.onnx")
    listed = usability_checker._SupportedOpsChecker(LIST)
    theirs = usability_checker.check_partitioning(proto.graph, listed, False).supported_groups
    wiring = Wiring(units_of(open_model(tmp_path / "model.onnx").ir.graph, qdq=False))
    operators = support.find("nnapi").table.operators("")
    groups = grouped(wiring, {id(unit): unit.target.op_type in operators for unit in wiring.units})
    names = [[unit.target.name for unit in group] for group in groups]
    assert sorted(map(sorted, names)) == sorted(sorted(node.name for node in group) for group in theirs)
    for group in groups:
        inside = {id(unit) for unit in group}
        others = [u for u in wiring.units if id(u) in wiring.downstream(group) and id(u) not in inside]
        assert not wiring.downstream(others) & inside


def regions(found: Partition) -> list[list[str]]:
    return [[node.op_type for node in region.nodes] for region in found.regions]


def test_mnist_is_one_region_of_nnapi_at_basic_and_two_at_extended(tmp_path: Path) -> None:
    """The convolutions are lost at extended. Behind the second MaxPool today's list has Reshape and Gemm too."""
    model, nnapi = mnist(tmp_path), support.find("nnapi")
    basic = partition(open_model(optimised(model, "basic")).ir, nnapi)
    assert regions(basic) == [["Conv", "Relu", "MaxPool", "Conv", "Relu", "MaxPool", "Reshape", "Gemm"]]
    assert not basic.left
    extended = partition(open_model(optimised(model, "extended")).ir, nnapi)
    assert regions(extended) == [["MaxPool"], ["MaxPool", "Reshape", "Gemm"]]
    assert {(n.op_type, why.code) for n, why in extended.left.items()} == {("FusedConv", "fused-operator")}


def test_boundary_tensors_are_those_that_cross(tmp_path: Path) -> None:
    model = mnist(tmp_path)
    found = partition(open_model(optimised(model, "extended")).ir, support.find("nnapi"))
    first, second = found.regions
    assert [found.values.dims(v) for v in (*first.inputs, *first.outputs)] == [(1, 8, 28, 28), (1, 8, 14, 14)]
    assert [v.name for v in second.outputs] == ["Plus214_Output_0"]
    assert len(second.inputs) == 1
