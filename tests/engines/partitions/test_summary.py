"""What lies between regions, and that a graph of many regions is passed once for all of them."""

from __future__ import annotations

import random
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from onnx_text import assemble
from ortune.engines.partitions import summary, support
from ortune.engines.partitions.partition import Partition, partition


def drawn(seed: int, nodes: int = 40) -> ir.Model:
    """A graph of which NNAPI takes some nodes, in several regions."""
    draw = random.Random(seed)
    names, made = ["x"], []
    for number in range(nodes):
        op = draw.choice(["Add", "Mul", "Mod", "BitShift"])
        read = [draw.choice(names[-4:]), draw.choice(names[-9:])]
        made.append(onnx.helper.make_node(op, read, [f"v{number}"], name=f"n{number}"))
        names.append(f"v{number}")
    outputs = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in names[-2:]]
    return ir.from_proto(assemble(made, "float[2] x", outputs))


def readers(found: Partition, number: int) -> set[str]:
    """By its definition: left nodes that read an earlier region, and lead to this region and to none before it."""

    def leads_to(region: Any) -> set[ir.Node]:
        reached: set[ir.Node] = set()
        waiting = list(region.nodes)
        while waiting:
            makers = {value.producer() for value in waiting.pop().inputs if value is not None} - {None}
            waiting += makers - reached
            reached |= makers
        return reached

    before = leads_to(found.regions[number])
    for region in found.regions[:number]:
        before -= leads_to(region)
    earlier = {node for region in found.regions[:number] for node in region.nodes}
    return {
        node.name or ""
        for node in before & found.left.keys()
        if any(value is not None and value.producer() in earlier for value in node.inputs)
    }


@pytest.mark.parametrize("seed", range(20))
def test_what_lies_behind_earlier_regions_is_told_of_the_first_that_needs_it(seed: int) -> None:
    model = drawn(seed)
    found = partition(model, support.find("nnapi"))
    rows = summary.regions(found, {})
    assert [{name for group in row.behind for name in group.nodes} for row in rows] == [
        readers(found, number) for number in range(len(rows))
    ]


def test_a_graph_of_many_regions_is_passed_once_for_all_of_them() -> None:
    model = drawn(3, nodes=600)
    found = partition(model, support.find("nnapi"))
    asked = 0

    class Counted(dict[int, Any]):
        def __getitem__(self, key: int) -> Any:
            nonlocal asked
            asked += 1
            return super().__getitem__(key)

    found.wiring.before = Counted(found.wiring.before)
    rows = summary.regions(found, {})
    assert len(rows) > 50
    assert asked <= 3 * len(found.wiring.units)
