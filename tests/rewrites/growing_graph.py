"""A graph that grows by random steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Feeds = dict[str, np.ndarray]


@dataclass(slots=True)
class GrowingGraph:
    """A graph that grows; values with their shapes, constants by name.

    What is fed beside ``x``, and outputs of any type that no other step picks, have names of their own.
    """

    rng: np.random.Generator
    nodes: list[onnx.NodeProto]
    weights: list[onnx.TensorProto]
    values: dict[str, tuple[int, ...]]
    opset: int
    in_nodes: bool
    fed: Feeds = field(default_factory=dict)
    ends: dict[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)

    def add(self, operator: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, inputs, [name], name=f"{operator}_{len(self.nodes)}", **attributes)
        )
        self.values[name] = shape
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"k{len(self.weights) + len(self.nodes)}"
        tensor = numpy_helper.from_array(np.asarray(array, order="C"), name)
        if array.size > 1 and self.rng.random() < 0.05:  # the weight of another node, of the same shape
            shared = [
                w.name for w in self.weights if (w.dims, w.data_type) == (tensor.dims, TensorProto.FLOAT)
            ]
            if shared and tensor.data_type == TensorProto.FLOAT:
                return shared[int(self.rng.integers(len(shared)))]
        if self.in_nodes or self.rng.random() < 0.2:
            self.nodes.append(helper.make_node("Constant", [], [name], name=f"{name}_node", value=tensor))
        else:
            self.weights.append(tensor)
        return name

    def feed(self, array: np.ndarray) -> str:
        name = f"x{len(self.fed)}"
        self.fed[name] = array
        return name

    def end(self, name: str, shape: tuple[int, ...], dtype: int) -> None:
        self.ends[name] = shape, dtype

    def number(self, value: float, rank: int) -> str:
        ones = int(self.rng.integers(0, rank + 1))
        return self.constant(np.full((1,) * ones, value, np.float32))

    def some(self, *shape: int) -> np.ndarray:
        return (self.rng.standard_normal(shape) * 0.4).astype(np.float32)

    def pick(self, *ranks: int) -> str | None:
        fitting = [name for name, shape in self.values.items() if not ranks or len(shape) in ranks]
        if not fitting:
            return None
        # Mostly what came last, so that chains grow; now and then something older, which is then used twice.
        return fitting[-1] if self.rng.random() < 0.8 else fitting[int(self.rng.integers(len(fitting)))]
