"""A model of more than a gigabyte: the topology of XLM-RoBERTa base with random weights, in external data.

    python benchmarks/large_model.py FOLDER

Most of it is the table of 250,002 token embeddings, as in the real one; a run on few tokens is quick all the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, LAYERS, HEADS, INNER, POSITIONS = 250_002, 768, 12, 12, 3072, 514


class _Maker:
    """Nodes and weights while the graph grows; weights go to the data file as they come."""

    def __init__(self, folder: Path) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)
        self.data = (folder / "xlmr-base.data").open("wb")

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"/{name}", **attributes))
        return name

    def random(self, *shape: int) -> str:
        """A random weight, written at once."""
        weight = onnx.TensorProto(name=f"w{len(self.weights)}", data_type=TensorProto.FLOAT, dims=shape)
        weight.data_location = TensorProto.EXTERNAL
        start = self.data.tell()
        for rows in np.array_split(np.arange(shape[0]), max(1, shape[0] // 50_000)):
            part = self.rng.standard_normal((len(rows), *shape[1:]), dtype=np.float32)
            self.data.write((0.02 * part).tobytes())
        for key, value in (
            ("location", Path(self.data.name).name),
            ("offset", start),
            ("length", self.data.tell() - start),
        ):
            weight.external_data.add(key=key, value=str(value))
        self.weights.append(weight)
        return weight.name

    def constant(self, values: object, dtype: str = "int64") -> str:
        weight = numpy_helper.from_array(np.asarray(values, dtype), f"w{len(self.weights)}")
        self.weights.append(weight)
        return str(weight.name)

    def linear(self, x: str, n_in: int, n_out: int) -> str:
        return self.node("Add", self.random(n_out), self.node("MatMul", x, self.random(n_in, n_out)))

    def norm(self, x: str) -> str:
        ones = self.constant(np.ones(WIDTH), "float32")
        return self.node("LayerNormalization", x, ones, self.random(WIDTH), axis=-1)

    def heads(self, x: str, order: list[int]) -> str:
        split = self.node(
            "Reshape", self.linear(x, WIDTH, WIDTH), self.constant([0, 0, HEADS, WIDTH // HEADS])
        )
        return self.node("Transpose", split, perm=order)

    def layer(self, x: str) -> str:
        query, key = self.heads(x, [0, 2, 1, 3]), self.heads(x, [0, 2, 3, 1])
        value = self.heads(x, [0, 2, 1, 3])
        scale = self.constant((WIDTH / HEADS) ** 0.5, "float32")
        scores = self.node("Softmax", self.node("Div", self.node("MatMul", query, key), scale), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", scores, value), perm=[0, 2, 1, 3])
        joined = self.node("Reshape", mixed, self.constant([0, 0, WIDTH]))
        x = self.norm(self.node("Add", self.linear(joined, WIDTH, WIDTH), x))
        up = self.linear(x, WIDTH, INNER)
        root, one, half = (self.constant(v, "float32") for v in (2.0**0.5, 1.0, 0.5))
        erf = self.node("Add", self.node("Erf", self.node("Div", up, root)), one)
        gelu = self.node("Mul", self.node("Mul", up, erf), half)
        return self.norm(self.node("Add", self.linear(gelu, INNER, WIDTH), x))


def make(folder: Path) -> Path:
    """Writes the model into a folder (1.1 GB) unless it is there; its path."""
    path = folder / "xlmr-base.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    maker = _Maker(folder)
    tokens = maker.node("Gather", maker.random(TOKENS, WIDTH), "input_ids")
    length = maker.node("Slice", maker.node("Shape", "input_ids"), maker.constant([1]), maker.constant([2]))
    places = maker.node("Slice", maker.random(POSITIONS, WIDTH), maker.constant([0]), length)
    x = maker.norm(maker.node("Add", tokens, places))
    for _ in range(LAYERS):
        x = maker.layer(x)
    maker.data.close()
    maker.nodes[-1].output[0] = "last_hidden_state"
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", WIDTH])
    graph = helper.make_graph(maker.nodes, "xlmr-base", [ids], [out], maker.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
