"""Small models and the ways in which files hold their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MIB = 1 << 20


def value(name: str, shape: list[int | str], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: list[onnx.TensorProto] = (),  # type: ignore[assignment]
    **extra: object,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **extra)


def matmul_model(width: int = 64) -> onnx.ModelProto:
    weight = np.random.default_rng(0).standard_normal((width, width)).astype(np.float32)
    return model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        [value("x", [1, width])],
        [value("y", [1, width])],
        [numpy_helper.from_array(weight, "w")],
    )


def saved(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def external(path: Path, *, size: int = 16384, **entries: str) -> Path:
    """A model whose weight lies in external data, described by ``entries``; ``w.bin`` has ``size`` bytes."""
    model = matmul_model()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "w.bin").write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))
    return saved(model, path)


def awkward_model() -> onnx.ModelProto:
    """Weights in every place and encoding: initializers, Constants, subgraphs, functions, sparse, typed fields."""
    rng = np.random.default_rng(1)
    big = rng.standard_normal(600).astype(np.float32)
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [600], big.tolist())
    double = helper.make_tensor("double", TensorProto.DOUBLE, [300], rng.standard_normal(300).tolist())
    half = numpy_helper.from_array(big.astype(np.float16), "half")
    ints = helper.make_tensor("ints", TensorProto.INT64, [600], list(range(600)))
    int4 = helper.make_tensor("int4", TensorProto.INT4, [3000], (np.arange(3000) % 15 - 7).tolist())
    nibbles = onnx.TensorProto(
        name="nibbles", data_type=TensorProto.UINT4, dims=[4000], raw_data=bytes(range(200)) * 10
    )
    brain = onnx.TensorProto(
        name="brain", data_type=TensorProto.BFLOAT16, dims=[600], raw_data=b"\x80\x3f" * 600
    )
    branch = [
        helper.make_graph(
            [helper.make_node("Add", ["x", f"b{n}"], [f"o{n}"])],
            f"branch{n}", [], [value(f"o{n}", [600])], [numpy_helper.from_array(big + n, f"b{n}")],
        )
        for n in range(2)
    ]  # fmt: skip
    model = model_of(
        [
            helper.make_node("If", ["c"], ["i"], then_branch=branch[0], else_branch=branch[1]),
            helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(big * 2, "k")),
            helper.make_node("Twice", ["i"], ["t"], domain="local"),
            helper.make_node("Add", ["t", "k"], ["s"]),
            helper.make_node("Add", ["s", "typed"], ["u"]),
            helper.make_node("Add", ["u", "scattered"], ["y"]),
        ],
        [value("x", [600]), value("c", [], TensorProto.BOOL)],
        [value("y", [600])],
        [typed, double, half, ints, int4, nibbles, brain],
    )
    sparse = model.graph.sparse_initializer.add(dims=[600])
    sparse.values.CopyFrom(numpy_helper.from_array(np.arange(300, dtype=np.float32), "scattered"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(300, dtype=np.int64) * 2, "where"))
    twice = helper.make_function(
        "local", "Twice", ["a"], ["b"],
        [
            helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(big * 0 + 2, "two")),
            helper.make_node("Mul", ["a", "two"], ["b"]),
        ],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    model.functions.append(twice)
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))
