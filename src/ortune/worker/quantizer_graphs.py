"""Preparation of graphs for quantizers and the float16 converter: names, weights as initializers, exclusions."""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence

ENDS = "ends"
"""Value of ``leave`` for the first and the last product, which are the most sensitive."""
WITH_BIAS = ("Conv", "ConvTranspose", "Gemm")


def graphs(graph: Any) -> Iterator[Any]:
    """Yield a graph and its subgraphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from graphs(inner)


def give_names(graph: Any) -> bool:
    """Give each node a unique name; return whether any had none."""
    taken = {node.name for node in graph.node}
    named = False
    for number, node in enumerate(graph.node):
        if not node.name:
            name = "%s_%d" % (node.op_type, number)
            while name in taken:
                name += "_"
            node.name, named = name, True
            taken.add(name)
    return named


def separate_biases(graph: Any) -> bool:
    """Give each product its own bias; return whether any was shared.

    The quantizer copies a shared bias under a name that may already exist in the graph.
    """
    taken = {name for body in graphs(graph) for node in body.node for name in (*node.input, *node.output)}
    taken.update(tensor.name for tensor in graph.initializer)
    taken.update(value.name for value in (*graph.input, *graph.output))
    stored = {tensor.name: tensor for tensor in graph.initializer}
    used = set()
    changed = False
    for node in graph.node:
        bias = node.input[2] if node.op_type in WITH_BIAS and len(node.input) > 2 else ""
        if bias in used:
            copy = graph.initializer.add()
            copy.CopyFrom(stored[bias])
            copy.name = "%s_of_%s" % (bias, node.name)
            while copy.name in taken:
                copy.name += "_"
            node.input[2], changed = copy.name, True
            taken.add(copy.name)
        elif bias in stored:
            used.add(bias)
    return changed


def store_constants(graph: Any) -> None:
    """Move weights in Constant nodes to the initializers, where the quantizer expects them."""
    given_out = {value.name for value in graph.output}
    for node in [n for n in graph.node if n.op_type == "Constant" and n.attribute[0].name == "value"]:
        if node.output[0] in given_out:
            continue
        tensor = graph.initializer.add()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
        graph.node.remove(node)


def left_out(model: Any, leave: str, kinds: Sequence[str]) -> List[str]:
    """Return the names of the excluded nodes.

    Args:
        model: The model, with named nodes.
        leave: Operators joined by "+"; ``ends`` excludes the first and the last node of ``kinds``.
        kinds: Operators that are quantized.
    """
    words = [word for word in leave.split("+") if word]
    names = [node.name for node in model.graph.node if node.op_type in words]
    products = [node.name for node in model.graph.node if node.op_type in kinds]
    if ENDS in words and products:
        names += [products[0], products[-1]]
    # The quantizers replace a Gemm by MatMul and Add before they apply exclusions.
    return names + [name + "_MatMul" for name in names]


def words_left_out(leave: str) -> str:
    """Return the excluded operators as the end of a sentence; "" for none."""
    return "; left out: %s" % leave.replace("+", ", ") if leave else ""
