"""Makes models whose LSTM, GRU or RNN is written out step by step, in the forms that exporters give it.

python tests/rewrites/written_out_steps.py lstm.onnx --steps 20
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT


class Writer:
    """Nodes and weights, as they are asked for."""

    def __init__(self, opset: int, *, as_nodes: bool = False, hidden: int = 16, fed: int = 12) -> None:
        """``as_nodes``: small constants are nodes, and not initializers."""
        self.opset, self.as_nodes, self.hidden, self.fed = opset, as_nodes, hidden, fed
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._numbers = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, count: int = 1, **attributes: object) -> list[str]:
        """The outputs of a new node."""
        name = f"{kind}_{len(self.nodes)}"
        outputs = [f"{name}:{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=name, **attributes))
        return outputs

    def one(self, kind: str, *inputs: str, **attributes: object) -> str:
        """The output of a new node."""
        return self.op(kind, *inputs, **attributes)[0]

    def held(self, array: np.ndarray, *, weight: bool = False) -> str:
        """A constant."""
        if self.as_nodes and not weight:
            return self.one("Constant", value=numpy_helper.from_array(array))
        name = f"held_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        """Random weights."""
        return self.held((self._numbers.standard_normal(shape) * 0.3).astype(np.float32), weight=True)

    def split(self, value: str, count: int, axis: int = 1) -> list[str]:
        """Equal parts."""
        attributes = {"num_outputs": count} if self.opset >= 18 else {}
        return self.op("Split", value, count=count, axis=axis, **attributes)

    def cut(self, value: str, start: int, end: int) -> str:
        """A piece of the last axis."""
        if self.opset < 10:
            return self.one("Slice", value, axes=[1], starts=[start], ends=[end])
        places = [self.held(np.array([each], np.int64)) for each in (start, end, 1)]
        return self.one("Slice", value, *places)

    def axis(self, kind: str, value: str, axis: int) -> str:
        """Squeeze or Unsqueeze."""
        if self.opset < 13:
            return self.one(kind, value, axes=[axis])
        return self.one(kind, value, self.held(np.array([axis], np.int64)))


State = tuple[str, ...]
Step = Callable[[Writer, str, State], State]


def _gates_of_lstm(w: Writer, i: str, f: str, c: str, o: str, memory: str) -> State:
    """The state behind a step, from its gates after their activation."""
    made = w.one("Add", w.one("Mul", f, memory), w.one("Mul", i, c))
    return w.one("Mul", o, w.one("Tanh", made)), made


def torch_lstm(w: Writer) -> Step:
    """``torch.nn.LSTMCell``: two Gemm with biases, a Split in four."""
    h, n = w.hidden, w.fed
    wx, wh, bx, bh = w.weight(4 * h, n), w.weight(4 * h, h), w.weight(4 * h), w.weight(4 * h)

    def step(w: Writer, x: str, state: State) -> State:
        of_x, of_h = w.one("Gemm", x, wx, bx, transB=1), w.one("Gemm", state[0], wh, bh, transB=1)
        i, f, c, o = w.split(w.one("Add", of_h, of_x), 4)
        i, f, o = (w.one("Sigmoid", each) for each in (i, f, o))
        return _gates_of_lstm(w, i, f, w.one("Tanh", c), o, state[1])

    return step


def sliced_lstm(w: Writer) -> Step:
    """Bare products with weights that are transposed in the graph, one bias, and Slice in place of Split."""
    h, n = w.hidden, w.fed
    wx = w.one("Transpose", w.weight(4 * h, n), perm=[1, 0])
    wh = w.one("Transpose", w.weight(4 * h, h), perm=[1, 0])
    bias = w.weight(4 * h)

    def step(w: Writer, x: str, state: State) -> State:
        total = w.one("Add", bias, w.one("Add", w.one("MatMul", x, wx), w.one("MatMul", state[0], wh)))
        i, f, c, o = (w.cut(total, each * h, (each + 1) * h) for each in range(4))
        i, f, o = (w.one("Sigmoid", each) for each in (i, f, o))
        return _gates_of_lstm(w, i, f, w.one("Tanh", c), o, state[1])

    return step


def keras_lstm(w: Writer) -> Step:
    """Input and state joined, one product, a bias of the forget gate by itself, and gates in another order."""
    h, n = w.hidden, w.fed
    weights, bias = w.weight(n + h, 4 * h), w.weight(4 * h)
    forget = w.held(np.array(1, np.float32))

    def step(w: Writer, x: str, state: State) -> State:
        both = w.one("Concat", x, state[0], axis=1)
        i, c, f, o = w.split(w.one("Add", w.one("MatMul", both, weights), bias), 4)
        f = w.one("Sigmoid", w.one("Add", f, forget))
        i, o = w.one("Sigmoid", i), w.one("Sigmoid", o)
        return _gates_of_lstm(w, i, f, w.one("Tanh", c), o, state[1])

    return step


def gates_apart_lstm(w: Writer) -> Step:
    """Two products a gate."""
    h, n = w.hidden, w.fed
    held = [(w.weight(n, h), w.weight(h, h), w.weight(h)) for _ in range(4)]

    def step(w: Writer, x: str, state: State) -> State:
        i, f, c, o = (
            w.one("Add", w.one("Gemm", x, wx, bias), w.one("MatMul", state[0], wh)) for wx, wh, bias in held
        )
        i, f, o = (w.one("Sigmoid", each) for each in (i, f, o))
        return _gates_of_lstm(w, i, f, w.one("Tanh", c), o, state[1])

    return step


def late_lstm(w: Writer) -> Step:
    """One Sigmoid for three gates, which are split behind it."""
    h, n = w.hidden, w.fed
    wx, wh, bias = w.weight(4 * h, n), w.weight(4 * h, h), w.weight(4 * h)

    def step(w: Writer, x: str, state: State) -> State:
        total = w.one(
            "Add", w.one("Gemm", x, wx, bias, transB=1), w.one("Gemm", state[0], wh, bias, transB=1)
        )
        i, f, o = w.split(w.one("Sigmoid", w.cut(total, 0, 3 * h)), 3)
        return _gates_of_lstm(w, i, f, w.one("Tanh", w.cut(total, 3 * h, 4 * h)), o, state[1])

    return step


def torch_gru(w: Writer) -> Step:
    """``torch.nn.GRUCell``."""
    h, n = w.hidden, w.fed
    wx, wh, bx, bh = w.weight(3 * h, n), w.weight(3 * h, h), w.weight(3 * h), w.weight(3 * h)

    def step(w: Writer, x: str, state: State) -> State:
        xr, xz, xn = w.split(w.one("Gemm", x, wx, bx, transB=1), 3)
        hr, hz, hn = w.split(w.one("Gemm", state[0], wh, bh, transB=1), 3)
        r, z = w.one("Sigmoid", w.one("Add", xr, hr)), w.one("Sigmoid", w.one("Add", xz, hz))
        new = w.one("Tanh", w.one("Add", xn, w.one("Mul", r, hn)))
        return (w.one("Add", new, w.one("Mul", z, w.one("Sub", state[0], new))),)

    return step


def other_gru(w: Writer) -> Step:
    """The new state as ``(1 - z) n + z h``."""
    h, n = w.hidden, w.fed
    wx, wh, bias = w.weight(n, 3 * h), w.weight(h, 3 * h), w.weight(3 * h)
    one = w.held(np.array(1, np.float32))

    def step(w: Writer, x: str, state: State) -> State:
        z, r, xn = w.split(w.one("Add", w.one("MatMul", x, wx), bias), 3)
        hz, hr, hn = w.split(w.one("MatMul", state[0], wh), 3)
        z, r = w.one("Sigmoid", w.one("Add", z, hz)), w.one("Sigmoid", w.one("Add", hr, r))
        new = w.one("Tanh", w.one("Add", w.one("Mul", hn, r), xn))
        return (w.one("Add", w.one("Mul", w.one("Sub", one, z), new), w.one("Mul", state[0], z)),)

    return step


def torch_rnn(w: Writer) -> Step:
    """``torch.nn.RNNCell``."""
    wx, wh, bias = w.weight(w.hidden, w.fed), w.weight(w.hidden, w.hidden), w.weight(w.hidden)

    def step(w: Writer, x: str, state: State) -> State:
        of_x, of_h = w.one("Gemm", x, wx, bias, transB=1), w.one("Gemm", state[0], wh, bias, transB=1)
        return (w.one("Tanh", w.one("Add", of_x, of_h)),)

    return step


def reset_first_gru(w: Writer) -> Step:
    """``linear_before_reset=0``: the state is reset before its product, two products a gate."""
    h, n = w.hidden, w.fed
    held = [(w.weight(n, h), w.weight(h, h), w.weight(h)) for _ in range(3)]
    one = w.held(np.array(1, np.float32))

    def gate(w: Writer, x: str, state: str, place: int) -> str:
        wx, wh, bias = held[place]
        return w.one("Add", w.one("MatMul", state, wh), w.one("Gemm", x, wx, bias))

    def step(w: Writer, x: str, state: State) -> State:
        z, r = (w.one("Sigmoid", gate(w, x, state[0], place)) for place in (0, 1))
        new = w.one("Tanh", gate(w, x, w.one("Mul", r, state[0]), 2))
        return (w.one("Add", w.one("Mul", z, state[0]), w.one("Mul", w.one("Sub", one, z), new)),)

    return step


def joined_gru(w: Writer) -> Step:
    """``tf.compat.v1.nn.rnn_cell.GRUCell``: input and state joined for both gates, and again behind the reset."""
    h, n = w.hidden, w.fed
    gates, bias, candidate, other = w.weight(n + h, 2 * h), w.weight(2 * h), w.weight(n + h, h), w.weight(h)
    one = w.held(np.array(1, np.float32))

    def step(w: Writer, x: str, state: State) -> State:
        total = w.one("Add", w.one("MatMul", w.one("Concat", x, state[0], axis=1), gates), bias)
        r, u = w.split(w.one("Sigmoid", total), 2)
        both = w.one("Concat", x, w.one("Mul", r, state[0]), axis=1)
        new = w.one("Tanh", w.one("Add", w.one("MatMul", both, candidate), other))
        return (w.one("Add", w.one("Mul", u, state[0]), w.one("Mul", w.one("Sub", one, u), new)),)

    return step


def hard_lstm(w: Writer) -> Step:
    """Keras with ``recurrent_activation="hard_sigmoid"``, its gates spelled out with a slope of 0.2."""
    h, n = w.hidden, w.fed
    wx, wh, bias = w.weight(n, 4 * h), w.weight(h, 4 * h), w.weight(4 * h)
    slope, offset, low, high = (w.held(np.array(a, np.float32)) for a in (0.2, 0.5, 0, 1))

    def hard(w: Writer, x: str) -> str:
        line = w.one("Add", w.one("Mul", x, slope), offset)
        if w.opset < 11:
            return w.one("Clip", line, min=0.0, max=1.0)
        return w.one("Clip", line, low, high)

    def step(w: Writer, x: str, state: State) -> State:
        total = w.one("Add", w.one("Gemm", x, wx, bias), w.one("MatMul", state[0], wh))
        i, f, c, o = w.split(total, 4)
        i, f, o = (hard(w, each) for each in (i, f, o))
        return _gates_of_lstm(w, i, f, w.one("Tanh", c), o, state[1])

    return step


def hard_gru(w: Writer) -> Step:
    """``HardSigmoid`` with a slope of a sixth, and the state reset before its product."""
    h, n = w.hidden, w.fed
    wx, wzr, wh, bias = w.weight(n, 3 * h), w.weight(h, 2 * h), w.weight(h, h), w.weight(3 * h)

    def step(w: Writer, x: str, state: State) -> State:
        xz, xr, xn = w.split(w.one("Gemm", x, wx, bias), 3)
        hz, hr = w.split(w.one("MatMul", state[0], wzr), 2)
        z, r = (
            w.one("HardSigmoid", w.one("Add", a, b), alpha=1 / 6, beta=0.5) for a, b in ((xz, hz), (xr, hr))
        )
        new = w.one("Tanh", w.one("Add", xn, w.one("MatMul", w.one("Mul", state[0], r), wh)))
        return (w.one("Add", new, w.one("Mul", z, w.one("Sub", state[0], new))),)

    return step


CELLS: dict[str, tuple[str, Callable[[Writer], Step]]] = {
    "torch": ("LSTM", torch_lstm),
    "sliced": ("LSTM", sliced_lstm),
    "keras": ("LSTM", keras_lstm),
    "gates apart": ("LSTM", gates_apart_lstm),
    "late": ("LSTM", late_lstm),
    "torch gru": ("GRU", torch_gru),
    "other gru": ("GRU", other_gru),
    "torch rnn": ("RNN", torch_rnn),
    "reset first gru": ("GRU", reset_first_gru),
    "joined gru": ("GRU", joined_gru),
    "hard lstm": ("LSTM", hard_lstm),
    "hard gru": ("GRU", hard_gru),
}


def written_out(
    cell: str = "torch",
    *,
    steps: int = 10,
    opset: int = 17,
    batch: int | str = 1,
    all_states: bool = False,
    reverse: bool = False,
    as_nodes: bool = False,
    given_state: bool = False,
    layers: int = 1,
    hidden: int = 16,
) -> onnx.ModelProto:
    """A model from x (batch, steps, 12) through a recurrence to y: the last state, or all of them.

    Args:
        cell: A name in ``CELLS``.
        steps: How often it is written.
        opset: Of the model.
        batch: A number, or a name where it is open.
        all_states: Whether y is all states, and not the last one.
        reverse: Whether steps go from the end to the beginning.
        as_nodes: Whether small constants are nodes, and each x is a piece of a Split and not gathered.
        given_state: Whether states to begin with are inputs, and not zeros.
        layers: Recurrences upon each other.
        hidden: Numbers of a state.
    """
    w = Writer(opset, as_nodes=as_nodes, hidden=hidden)
    kind, make = CELLS[cell]
    count = 2 if kind == "LSTM" else 1
    inputs = [helper.make_tensor_value_info("x", FLOAT, [batch, steps, w.fed])]
    if as_nodes:
        pieces = [w.axis("Squeeze", piece, 1) for piece in w.split("x", steps)]
    else:
        pieces = [w.one("Gather", "x", w.held(np.array(i, np.int64)), axis=1) for i in range(steps)]
    states: list[str] = []
    for layer in range(layers):
        step = make(w)
        if given_state:
            state = tuple(f"state_{layer}_{i}" for i in range(count))
            inputs += [helper.make_tensor_value_info(name, FLOAT, [batch, hidden]) for name in state]
        else:
            rows = batch if isinstance(batch, int) else 1
            state = (w.held(np.zeros((rows, hidden), np.float32)),) * count
        states = []
        for x in pieces[::-1] if reverse else pieces:
            state = step(w, x, state)
            states.append(state[0])
        pieces = states[::-1] if reverse else states
        w.fed = hidden
    if all_states:
        rows = [w.axis("Unsqueeze", each, 1) for each in pieces]
        y = w.one("Concat", *rows, axis=1)
    else:
        y = states[-1]
    w.nodes.append(helper.make_node("Relu", [y], ["y"], name="end"))
    shape = [batch, steps, hidden] if all_states else [batch, hidden]
    outputs = [helper.make_tensor_value_info("y", FLOAT, shape)]
    graph = helper.make_graph(w.nodes, "written_out", inputs, outputs, w.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def main() -> None:
    """Writes one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--cell", choices=CELLS, default="torch")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=16)
    asked = parser.parse_args()
    onnx.save(written_out(asked.cell, steps=asked.steps, hidden=asked.hidden), asked.path)


if __name__ == "__main__":
    main()
