"""A real model, edited as people edit theirs, and written by exporters that count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import model_path

PLACE = 8  # the Relu after which something is inserted
WIDE = 10  # the Conv that is made three times as wide


def squeezenet(size: int = 224) -> onnx.ModelProto:
    """SqueezeNet with weights that are stored, and random, for pictures of this height and width."""
    model = onnx.load(model_path("light-squeezenet"))
    graph, draw = model.graph, np.random.default_rng(0)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    del graph.initializer[:]
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            weight = draw.standard_normal(tuple(shapes[node.input[0]]), dtype=np.float32) * 0.05
            graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
    graph.initializer.extend(
        numpy_helper.from_array(array, name)
        for name, array in shapes.items()
        if any(name in node.input for node in nodes)
    )
    images = [given for given in graph.input if given.name not in shapes]
    for field, kept in ((graph.node, nodes), (graph.input, images)):
        del field[:]
        field.extend(kept)
    (image,) = images
    for dim in image.type.tensor_type.shape.dim[2:]:
        dim.dim_value = size
    model.ir_version = 8
    return model


def wider(model: onnx.ModelProto) -> None:
    """One convolution makes three times the channels, and those behind it read them."""
    conv = [node for node in model.graph.node if node.op_type == "Conv"][WIDE]
    for name in conv.input[1:]:
        _stack(model, name, axis=0)
    (relu,) = _readers(model, conv.output[0])
    for reader in _readers(model, relu.output[0]):
        _stack(model, reader.input[1], axis=1)


def transposed(model: onnx.ModelProto) -> None:
    """Height and width change places, which nothing undoes."""
    _insert(model, [("Transpose", {"perm": [0, 1, 3, 2]})])


def converted(model: onnx.ModelProto) -> None:
    """To half precision and back."""
    _insert(model, [("Cast", {"to": TensorProto.FLOAT16}), ("Cast", {"to": TensorProto.FLOAT})])


EDITS: dict[str, tuple[Callable[[onnx.ModelProto], None], list[str]]] = {
    "wider": (wider, []),
    "transposed": (transposed, ["Transpose"]),
    "converted": (converted, ["Cast", "Cast"]),
}
"""Each edit, and the operators of the nodes that it adds."""


def numbered(model: onnx.ModelProto, *, names: bool = True) -> onnx.ModelProto:
    """As by an exporter that numbers nodes and values; without ``names`` nodes have none."""
    new: dict[str, str] = {}
    kept = {value.name for value in model.graph.output}
    for place, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{place}" if names else ""
        for i, name in enumerate(node.input):
            node.input[i] = new.get(name, name)
        for i, name in enumerate(node.output):
            if name not in kept:
                node.output[i] = new[name] = f"v{place}_{i}"
    del model.graph.value_info[:]
    return model


def _insert(model: onnx.ModelProto, operators: list[tuple[str, dict[str, object]]]) -> None:
    relu = [node for node in model.graph.node if node.op_type == "Relu"][PLACE]
    readers, value = _readers(model, relu.output[0]), relu.output[0]
    place = list(model.graph.node).index(relu) + 1
    for number, (operator, attributes) in enumerate(operators):
        node = helper.make_node(operator, [value], [f"added{number}"], name=f"added{number}", **attributes)
        model.graph.node.insert(place + number, node)
        value = node.output[0]
    for reader in readers:
        reader.input[:] = [value if name == relu.output[0] else name for name in reader.input]


def _readers(model: onnx.ModelProto, value: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if value in node.input]


def _stack(model: onnx.ModelProto, name: str, *, axis: int) -> None:
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    array = np.concatenate([numpy_helper.to_array(tensor)] * 3, axis=axis)
    tensor.CopyFrom(numpy_helper.from_array(array, name))
