"""Random small graphs of what rewrites look for: broadcast constants, values used twice, odd and empty shapes."""

from __future__ import annotations

import numpy as np
import onnx
from growing_graph import Feeds, GrowingGraph
from onnx import TensorProto, helper, numpy_helper
from random_steps import RANDOM_STEPS

OPSETS = (9, 10, 11, 12, 13, 13, 14, 15, 17, 17, 18, 20, 21)


def _with_axes_fed(g: GrowingGraph) -> list[onnx.NodeProto]:
    """The nodes, with axes where this opset has them."""
    made = []
    for node in g.nodes:
        axes = next((a for a in node.attribute if a.name == "axes"), None)
        if axes is not None and g.opset >= 18 and node.op_type.startswith("Reduce"):
            name = f"{node.output[0]}_axes"
            g.weights.append(numpy_helper.from_array(np.array(axes.ints, np.int64), name))
            node.input.append(name)
            node.attribute.remove(axes)
        made.append(node)
    return made


def _in_a_branch(
    graph: onnx.GraphProto, shapes: dict[str, tuple[int, ...]], condition: list[onnx.NodeProto]
) -> onnx.GraphProto:
    """The whole graph in the body of an If, which reads what is fed from outside; ``condition`` ends with it.

    The other body gives as much: where sizes are known and differ, ONNX Runtime may refuse the model.
    """
    nothing = []
    for value in graph.output:
        kind = value.type.tensor_type
        empty = np.zeros(shapes[value.name], helper.tensor_dtype_to_np_dtype(kind.elem_type))
        tensor = numpy_helper.from_array(empty, f"{value.name}_nothing")
        nothing.append(helper.make_node("Constant", [], [tensor.name], value=tensor))
    infos = [
        helper.make_tensor_value_info(f"{v.name}_nothing", v.type.tensor_type.elem_type, None)
        for v in graph.output
    ]
    inner = {v.name: f"{v.name}_within" for v in graph.output}
    body = onnx.GraphProto()
    body.CopyFrom(graph)
    del body.input[:]
    for node in body.node:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for each in attribute.g.node:
                each.input[:] = [inner.get(name, name) for name in each.input]
    for value in body.output:
        value.name = inner[value.name]
    branch = helper.make_node(
        "If",
        [condition[-1].output[0]],
        [v.name for v in graph.output],
        name="whole",
        then_branch=body,
        else_branch=helper.make_graph(nothing, "else", [], infos),
    )
    return helper.make_graph([*condition, branch], "outer", graph.input, graph.output)


def random_graph(seed: int) -> tuple[onnx.ModelProto, Feeds]:
    """A model and what to feed it; the same for the same seed."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    wide = (2, 3, 16, 32) if rng.random() < 0.5 else (1, 2, 4, 6)
    first = 0 if rng.random() < 0.03 else int(rng.integers(1, 3))
    dims = [first, int(rng.choice(wide)), *[int(rng.integers(2, 7)) for _ in range(3)]]
    shape = tuple(dims[:rank])
    g = GrowingGraph(
        rng=rng,
        nodes=[],
        weights=[],
        values={"x": shape},
        opset=int(rng.choice(OPSETS)),
        in_nodes=bool(rng.random() < 0.2),
    )
    for _ in range(int(rng.integers(1, 7))):
        RANDOM_STEPS[int(rng.integers(len(RANDOM_STEPS)))](g)
    used = {name for node in g.nodes for name in node.input}
    outputs = [name for name in g.values if name != "x" and (name not in used or rng.random() < 0.1)]
    if not outputs and not g.ends:
        outputs = [g.add("Relu", ["x"], shape)]
    symbolic = bool(rng.random() < 0.4)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        _with_axes_fed(g),
        "random",
        [
            info("x", TensorProto.FLOAT, ["n", *shape[1:]] if symbolic else shape),
            *(info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in g.fed.items()),
        ],
        [
            *(
                info(
                    name,
                    TensorProto.FLOAT,
                    ["n" if symbolic else d for d in g.values[name][:1]] + list(g.values[name][1:]),
                )
                for name in outputs
            ),
            *(
                info(name, dtype, [None] * len(s))
                for name, (s, dtype) in g.ends.items()
                if name not in outputs
            ),
        ],
        g.weights,
        value_info=[
            info(name, TensorProto.FLOAT, s)
            for name, s in g.values.items()
            if name not in ("x", *outputs) and not symbolic and rng.random() < 0.5
        ],
    )
    feeds = {"x": rng.standard_normal(shape).astype(np.float32) * 2, **g.fed}
    ir_version, form = 8, float(rng.random())
    if form < 0.06 and seed % 5 and not any(a.HasField("g") for n in g.nodes for a in n.attribute):
        # As old exporters list them: every weight, or some, among what can be fed.
        ir_version = 3 if form < 0.03 else 8
        listed = [w for w in g.weights if ir_version == 3 or rng.random() < 0.6]
        graph.input.extend(info(w.name, w.data_type, w.dims) for w in listed)
    elif form < 0.12 and seed % 5:
        if form < 0.09:
            feeds["go"] = np.array(True)
            graph.input.append(info("go", TensorProto.BOOL, []))
            condition = [helper.make_node("Identity", ["go"], ["going"])]
        else:
            size = helper.make_node("Size", ["x"], ["elements"])
            zero = numpy_helper.from_array(np.array(-1, np.int64), "less")
            less = helper.make_node("Constant", [], ["less"], value=zero)
            condition = [size, less, helper.make_node("Greater", ["elements", "less"], ["going"])]
        shapes = {**g.values, **{name: s for name, (s, _) in g.ends.items()}}
        graph = _in_a_branch(graph, shapes, condition)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=ir_version)
    return model, feeds
