"""A small network that every optimisation level fuses in another way, with what may change in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from graphs import drawn
from onnx_text import assemble


def model(
    path: Path,
    *,
    bn_on_conv: bool = True,
    extra: bool = False,
    cast: bool = False,
    scale: float = 1.0,
    half: bool = False,
    second_output: bool = False,
    batch: int | str = 1,
    prefix: str = "",
) -> Path:
    """Conv, BatchNormalization, Relu and a product: fused by every level in another way."""
    rng = np.random.default_rng(7)
    kind = np.float16 if half else np.float32
    onnx_kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return drawn(rng, prefix + name, *shape, dtype=kind)

    weights = [weight("w", 8, 3, 3, 3)]
    weights += [
        numpy_helper.from_array(np.full(8, v, kind), prefix + n) for n, v in (("g", scale), ("b", 0.1))
    ]
    weights += [numpy_helper.from_array(np.full(8, v, kind), prefix + n) for n, v in (("m", 0.2), ("v", 1.0))]
    weights += [weight("p", 8, 4)]
    names = iter(range(100))

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs, [output], name=f"{prefix}n{next(names)}", **attributes)

    p = prefix
    nodes = [node("Conv", ["x", p + "w"], p + "c", pads=[1, 1, 1, 1])]
    normed = p + "c"
    if not bn_on_conv:
        nodes.append(node("Abs", [p + "c"], p + "a"))
        normed = p + "a"
    nodes.append(node("BatchNormalization", [normed, p + "g", p + "b", p + "m", p + "v"], p + "n"))
    nodes.append(node("Relu", [p + "n"], p + "r"))
    last = p + "r"
    if extra:
        nodes.append(node("Sin", [last], p + "s"))
        last = p + "s"
    if cast:
        nodes += [
            node("Cast", [last], p + "h", to=TensorProto.FLOAT16),
            node("Cast", [p + "h"], p + "f", to=TensorProto.FLOAT),
        ]
        last = p + "f"
    nodes += [
        node("GlobalAveragePool", [last], p + "pool"),
        node("Flatten", [p + "pool"], p + "flat"),
        node("MatMul", [p + "flat", p + "p"], "y"),
    ]
    outputs = [helper.make_tensor_value_info("y", onnx_kind, [batch, 4])]
    if second_output:
        outputs.append(helper.make_tensor_value_info(p + "flat", onnx_kind, [batch, 8]))
    image = helper.make_tensor_value_info("x", onnx_kind, [batch, 3, 8, 8])
    proto = assemble(nodes, [image], outputs, weights, opset=13)
    proto.graph.name = f"{p}graph"
    onnx.save(proto, path)
    return path
