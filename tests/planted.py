"""Defects planted in models, and models as another tool would write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble


def weight(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """A few of a node's weights are half as large again, for this node alone."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    stored |= {n.output[0]: n.attribute[0].t for n in model.graph.node if n.op_type == "Constant"}
    values = numpy_helper.to_array(stored[node.input[1]]).copy()
    values.reshape(-1)[: max(1, values.size // 50)] *= 1.5
    name = f"{node.input[1]}/planted"
    model.graph.initializer.append(numpy_helper.from_array(values, name))
    node.input[1] = name


def attribute(model: onnx.ModelProto, node: onnx.NodeProto, name: str, factor: float) -> None:
    """One of a node's numbers is another."""
    (found,) = (a for a in node.attribute if a.name == name)
    found.f *= factor


def half_precision(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """What a node makes goes through half precision and back."""
    name = node.output[0]
    nodes = list(model.graph.node)
    place = nodes.index(node) + 1
    nodes[place:place] = [
        helper.make_node("Cast", [f"{name}/before"], [f"{name}/half"], "to_half", to=TensorProto.FLOAT16),
        helper.make_node("Cast", [f"{name}/half"], [name], "from_half", to=TensorProto.FLOAT),
    ]
    node.output[0] = f"{name}/before"
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def middle(model: onnx.ModelProto, *operators: str) -> onnx.NodeProto:
    """A node in the middle of those with one of these operators."""
    nodes = [node for node in model.graph.node if node.op_type in operators]
    return nodes[len(nodes) // 2]


def counted(model: onnx.ModelProto) -> None:
    """Nodes and values are called by number, as exporters that count do."""
    graph = model.graph
    kept = {v.name for v in (*graph.input, *graph.output)}
    names = {
        o: f"t{(7919 * i) % 100003}" for i, n in enumerate(graph.node) for o in n.output if o not in kept
    }
    for i, node in enumerate(graph.node):
        node.name = f"N{i}"
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
    del graph.value_info[:]


def convolutions(path: Path) -> Path:
    """Three convolutions with their batch normalisations, a branch, and an If at the end."""
    draw = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(
            draw.normal(size=(8, 3 if i == 0 else 8, 3, 3)).astype(np.float32) / 5, f"w{i}"
        )
        for i in range(3)
    ]
    for i in range(3):
        weights += [
            numpy_helper.from_array(draw.uniform(0.5, 1.5, 8).astype(np.float32), f"{name}{i}")
            for name in "gbmv"
        ]
    nodes = []
    last = "x"
    for i in range(3):
        nodes += [
            helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1, 1, 1, 1]),
            helper.make_node(
                "BatchNormalization",
                [f"c{i}", *(f"{n}{i}" for n in "gbmv")],
                [f"n{i}"],
                f"norm{i}",
                epsilon=1e-5,
            ),
            helper.make_node("LeakyRelu", [f"n{i}"], [f"r{i}"], f"relu{i}", alpha=0.1),
        ]
        last = f"r{i}"
    nodes.append(helper.make_node("Add", ["r1", last], ["y"], "add"))
    onnx.save(assemble(nodes, "float[1,3,16,16] x", "float[1,8,16,16] y", weights, name="convolutions"), path)
    return path


def with_defaults(model: onnx.ModelProto, but: onnx.NodeProto) -> None:
    """Convolutions say how many groups they have where it is one too, and do not where they did."""
    for node in model.graph.node:
        if node.op_type != "Conv" or node is but:
            continue
        said = [a for a in node.attribute if a.name == "group"]
        if not said:
            node.attribute.append(helper.make_attribute("group", 1))
        elif said[0].i == 1:
            node.attribute.remove(said[0])


def rewritten_elsewhere(model: onnx.ModelProto, seed: int = 0) -> dict[str, str]:
    """Every name is another, and nodes stand in another order that runs; the new names of nodes by the old."""
    graph, draw = model.graph, np.random.default_rng(seed)
    called: dict[str, str] = {"": ""}

    def new(name: str) -> str:
        return called.setdefault(name, f"v{(7919 * len(called)) % 100003}")

    told = {}
    for i, node in enumerate(graph.node):
        told[node.name], node.name = f"layer_{(31 * i) % 9973}", f"layer_{(31 * i) % 9973}"
        for field in (node.input, node.output):
            field[:] = [new(name) for name in field]
        assert not any(a.HasField("g") for a in node.attribute)
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = new(value.name)
    del graph.value_info[:]
    made = {v.name for v in (*graph.input, *graph.initializer)} | {""}
    waiting, ordered = list(graph.node), list[onnx.NodeProto]()
    while waiting:
        ready = [i for i, node in enumerate(waiting) if made.issuperset(node.input)]
        node = waiting.pop(int(draw.choice(ready)))
        made.update(node.output)
        ordered.append(node)
    del graph.node[:]
    graph.node.extend(ordered)
    return told
