"""Two small networks as .onnx, and as .ort the way most people convert them: with the converter's defaults.

python make_models.py              convnet.onnx, mlp.onnx, and the .ort of each, into this folder
python make_models.py --onnx-only  without the .ort

Needs onnx and onnxruntime.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(0)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    """Random numbers that keep the size of activations about the same."""
    fan_in = int(np.prod(shape[1:])) or 1
    values = RANDOM.standard_normal(shape) * np.sqrt(2 / fan_in)
    return numpy_helper.from_array(values.astype(np.float32), name)


def save(name: str, nodes: list, weights: list, x: list[int], y: list[int]) -> None:
    """A model from x to y."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, f"{name}.onnx")


def convnet() -> None:
    """Convolutions with batch normalisation and Relu, a residual connection among them."""
    nodes, weights = [], []

    def layer(name: str, source: str, channels: int, made: int, stride: int, *, relu: bool) -> str:
        weights.append(weight(f"{name}_w", made, channels, 3, 3))
        weights.extend(
            numpy_helper.from_array(np.full(made, value, np.float32), f"{name}_{part}")
            for part, value in (("scale", 1.0), ("shift", 0.1), ("mean", 0.0), ("variance", 1.0))
        )
        normalise = [f"{name}_c", *(f"{name}_{part}" for part in ("scale", "shift", "mean", "variance"))]
        nodes.append(
            helper.make_node(
                "Conv", [source, f"{name}_w"], [f"{name}_c"], name=f"{name}/conv",
                kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[stride, stride], dilations=[1, 1],
            )
        )  # fmt: skip
        nodes.append(helper.make_node("BatchNormalization", normalise, [f"{name}_b"], name=f"{name}/norm"))
        if relu:
            nodes.append(helper.make_node("Relu", [f"{name}_b"], [f"{name}_r"], name=f"{name}/relu"))
        return nodes[-1].output[0]

    first = layer("stem", "x", 3, 16, 2, relu=True)
    second = layer("block", first, 16, 16, 1, relu=True)
    third = layer("back", second, 16, 16, 1, relu=False)
    nodes.append(helper.make_node("Add", [third, first], ["sum"], name="residual/add"))
    nodes.append(helper.make_node("Relu", ["sum"], ["joined"], name="residual/relu"))
    layer("head", "joined", 16, 32, 2, relu=True)
    nodes.append(helper.make_node("GlobalAveragePool", ["head_r"], ["pooled"], name="pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["y"], name="flatten"))
    save("convnet", nodes, weights, [1, 3, 64, 64], [1, 32])


def mlp() -> None:
    """Three layers of Gemm and Relu."""
    nodes, weights, source = [], [], "x"
    for i in range(3):
        weights += [weight(f"w{i}", 512, 512), weight(f"b{i}", 512)]
        nodes.append(
            helper.make_node("Gemm", [source, f"w{i}", f"b{i}"], [f"p{i}"], name=f"layer{i}/gemm", transB=1)
        )
        source = "y" if i == 2 else f"a{i}"
        nodes.append(helper.make_node("Relu", [f"p{i}"], [source], name=f"layer{i}/relu"))
    save("mlp", nodes, weights, [8, 512], [8, 512])


def convert(model: str) -> None:
    """As documented; the level is "all" unless an environment variable sets another."""
    converter = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort"]
    subprocess.run(
        [*converter, model, "--optimization_style", "Fixed"], check=True, stdout=subprocess.DEVNULL
    )


if __name__ == "__main__":
    convnet()
    mlp()
    if "--onnx-only" not in sys.argv:
        convert("convnet.onnx")
        convert("mlp.onnx")
