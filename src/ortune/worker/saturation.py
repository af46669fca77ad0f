"""Emulation, on any processor, of a quantized model's outputs on an x86 processor without VNNI.

There, sums of two products of uint8 and int8 are saturated to 16 bits. The optimized graph is run node by node: integer
products in numpy, less what the saturation loses, and everything else by ONNX Runtime.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from . import values
from .graph_tools import imported
from .protocol import Stop
from .taps import attribute

LOW, HIGH = -(1 << 15), (1 << 15) - 1
NOT_EMULATED = ("ConvInteger", "DynamicQuantizeLSTM", "QAttention", "QLinearConvTranspose", "QOrderedMatMul")
"""Operators with integer products that are not computed here."""


def emulate(ort: Any, request: Dict[str, Any]) -> str:
    """Write the outputs of each input to a folder of its name below the output; return a sentence with the counts."""
    onnx = imported("onnx", ort)
    run = _Run(ort, onnx, request)
    for feed in request["feeds"]:
        arrays, needs_ort_values = values.read_feeds(feed["path"])
        if needs_ort_values:
            raise Stop("unsupported", "saturation is emulated on numpy types only")
        outputs = run(arrays)
        place = os.path.join(request["output"], feed["name"])
        values.write_outputs(place, run.names, run.types, outputs)
    return "Emulated %d integer products, of which %d saturate." % (run.products, run.saturating)


class _Run:
    """Runs a model node by node."""

    def __init__(self, ort: Any, onnx: Any, request: Dict[str, Any]) -> None:
        self._ort, self._onnx = ort, onnx
        options = ort.SessionOptions()
        # Layout optimisations for one processor would introduce other operators.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        path = os.path.join(request["output"], "optimized.onnx")
        os.makedirs(request["output"], exist_ok=True)
        options.optimized_model_filepath = path
        options.log_severity_level = 3
        session = ort.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])
        self.names = [output.name for output in session.get_outputs()]
        self.types = [output.type for output in session.get_outputs()]
        model = onnx.load(path)
        os.remove(path)
        self._opsets, self._ir = list(model.opset_import), model.ir_version
        self._nodes = list(model.graph.node)
        self._weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        self._sessions: Dict[int, Tuple[Any, List[str]]] = {}
        self._packed: Dict[Tuple[int, int], Any] = {}
        self._seen: Dict[int, bool] = {}
        kinds = {node.op_type for node in self._nodes}
        without = sorted(kinds & set(NOT_EMULATED))
        if without:
            raise Stop("unsupported", "saturation of %s is not emulated" % ", ".join(without))

    @property
    def products(self) -> int:
        """Number of distinct integer products that were computed."""
        return len(self._seen)

    @property
    def saturating(self) -> int:
        """Number of distinct integer products with a saturated sum."""
        return sum(self._seen.values())

    def __call__(self, feeds: Dict[str, Any]) -> List[Any]:
        values = dict(self._weights)
        values.update(feeds)
        uses = {name: i for i, node in enumerate(self._nodes) for name in _reads(node)}
        for number, node in enumerate(self._nodes):
            function = PRODUCTS.get(node.op_type)
            outputs = (
                self._by_ort(number, node, values)
                if function is None
                else function(self, number, node, values)
            )
            values.update(zip([name for name in node.output if name], outputs))
            for name in _reads(node):
                # A value is released after its last reader, or all values of the network would be in memory.
                if uses[name] == number and name not in self._weights and name not in self.names:
                    values.pop(name, None)
        return [values[name] for name in self.names]

    def _by_ort(self, number: int, node: Any, values: Dict[str, Any]) -> List[Any]:
        """Return the outputs of one node, computed by ONNX Runtime."""
        if number not in self._sessions:
            names = [name for name in dict.fromkeys(_reads(node)) if name in values]
            self._sessions[number] = self._session(node, {name: values[name] for name in names}), names
        session, names = self._sessions[number]
        outputs: List[Any] = session.run(None, {name: values[name] for name in names})
        return outputs

    def _session(self, node: Any, inputs: Dict[str, Any]) -> Any:
        helper = self._onnx.helper
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), [None] * a.ndim)
            for name, a in inputs.items()
        ]
        outputs = [self._onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "one", infos, outputs)
        model = helper.make_model(graph, opset_imports=self._opsets, ir_version=self._ir)
        options = self._ort.SessionOptions()
        options.graph_optimization_level = self._ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        return self._ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    # --- products

    def sums(
        self, number: int, a: Any, b: Any, a_zero: Any, b_zero: Any, *, group: int = 0, cut: bool = True
    ) -> Any:
        """Return the product of two integer matrices less their zero points, with the kernel's 16-bit sums of pairs.

        Args:
            number: Number of the node.
            a: Activations.
            b: Weights.
            a_zero: The zero point of the activations.
            b_zero: The zero point of the weights, for each column or for all.
            group: Group of a convolution.
            cut: Whether the kernel adds pairs of products in 16 bits.
        """
        # Doubles hold these sums exactly: products are below 2^15, and 2^38 of them would have to be added to
        # lose a unit.
        left, right = a.astype(np.float64), b.astype(np.float64)
        total = left @ right
        saturated = False
        if cut and b.dtype == np.int8 and b.ndim == 2:
            # Signed activations are shifted to unsigned ones first.
            raw = left.reshape(-1, left.shape[-1]) + (128.0 if a.dtype == np.int8 else 0.0)
            lost = self._lost((number, group), raw, right)
            saturated = lost is not None
            total = total - (0.0 if lost is None else lost.reshape(total.shape))
        self._seen[number] = self._seen.get(number, False) or saturated
        zero_a, zero_b = float(np.asarray(a_zero).reshape(-1)[0]), np.asarray(b_zero, np.float64)
        # (a - za)(b - zb) = ab - za b - zb a + K za zb, summed over K.
        total = total - zero_a * right.sum(axis=-2, keepdims=right.ndim > 1)
        if zero_b.any():
            total = total - zero_b * (left.sum(axis=-1, keepdims=True) - zero_a * left.shape[-1])
        return total

    def _lost(self, weight: Tuple[int, int], a: Any, b: Any) -> Optional[Any]:
        """Return the difference that saturated sums of two products make; None if none saturates."""
        if weight not in self._packed:
            even = b.shape[0] % 2
            pairs = np.pad(b, [(0, even), (0, 0)]).reshape(-1, 2, b.shape[1])
            # Pairs whose sum can exceed 16 bits for some activation: few, and the same for every input.
            # One product of 255 x 127 fits into 16 bits; two of them, 64,770, do not.
            most = 255 * np.maximum(pairs, 0).sum(axis=1) > HIGH
            least = 255 * np.minimum(pairs, 0).sum(axis=1) < LOW
            self._packed[weight] = (
                pairs,
                [
                    (int(k), np.nonzero(most[k] | least[k])[0])
                    for k in np.nonzero((most | least).any(axis=1))[0]
                ],
            )
        pairs, places = self._packed[weight]
        lost = None
        for k, columns in places:
            first, second = a[:, 2 * k], a[:, 2 * k + 1] if 2 * k + 1 < a.shape[1] else np.zeros(len(a))
            sums = np.outer(first, pairs[k, 0, columns]) + np.outer(second, pairs[k, 1, columns])
            beyond = sums - np.clip(sums, LOW, HIGH)
            if beyond.any():
                lost = np.zeros((len(a), b.shape[1])) if lost is None else lost
                lost[:, columns] += beyond
        return lost

    def padded(self, node: Any, values: Dict[str, Any], count: int) -> List[Any]:
        """Return a node's input values, extended with None to ``count`` entries."""
        arrays = [values[name] if name else None for name in node.input]
        return arrays + [None] * (count - len(arrays))

    def attribute(self, node: Any, name: str, usual: Any) -> Any:
        """Return an attribute's value, or the default."""
        return attribute(self._onnx, node, name, usual)

    def quantized_input(self, x: Any) -> Tuple[Any, Any, Any]:
        """Return an activation quantized as by DynamicQuantizeLinear: integers, scale and zero point."""
        if -1 not in self._sessions:
            node = self._onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
            self._sessions[-1] = self._session(node, {"x": x.reshape(-1)}), ["x"]
        steps, scale, zero = self._sessions[-1][0].run(None, {"x": x.reshape(-1)})
        return steps.reshape(x.shape), scale, zero


def _reads(node: Any) -> List[str]:
    """Return the names that a node and its subgraphs read."""
    names = [name for name in node.input if name]
    for own in node.attribute:
        for inner in [own.g] if own.HasField("g") else own.graphs:
            for deep in inner.node:
                names += _reads(deep)
    return names


def _requantized(total: Any, scale: Any, y_scale: Any, y_zero: Any, bias: Any = None) -> Any:
    """Return sums requantized to 8 bits, rounded as in MLAS."""
    if bias is not None:
        total = total + bias
    info = np.iinfo(y_zero.dtype)
    zero = int(np.asarray(y_zero).reshape(-1)[0])
    scaled = total.astype(np.float32) * (np.asarray(scale, np.float32) / np.asarray(y_scale, np.float32))
    return (np.rint(np.clip(scaled, info.min - zero, info.max - zero)) + zero).astype(y_zero.dtype)


def _zero(value: Any, of: Any) -> Any:
    return np.zeros((), of.dtype) if value is None else value


def _qlinear_matmul(run: _Run, number: int, node: Any, values: Dict[str, Any]) -> List[Any]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = run.padded(node, values, 8)
    total = run.sums(number, a, b, a_zero, b_zero)
    return [_requantized(total, a_scale * b_scale, y_scale, y_zero)]


def _matmul_to_float(run: _Run, number: int, node: Any, values: Dict[str, Any]) -> List[Any]:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = run.padded(node, values, 7)
    total = run.sums(number, a, b, _zero(a_zero, a), _zero(b_zero, b))
    y = total.astype(np.float32) * (a_scale * b_scale)
    return [y if bias is None else y + bias]


def _dynamic_matmul(run: _Run, number: int, node: Any, values: Dict[str, Any]) -> List[Any]:
    x, b, b_scale, b_zero, bias = run.padded(node, values, 5)
    a, a_scale, a_zero = run.quantized_input(x)
    total = run.sums(number, a, b, a_zero, _zero(b_zero, b))
    y = total.astype(np.float32) * (a_scale * b_scale)
    return [y if bias is None else y + bias]


def _matmul_integer(run: _Run, number: int, node: Any, values: Dict[str, Any]) -> List[Any]:
    a, b, a_zero, b_zero = run.padded(node, values, 4)
    return [run.sums(number, a, b, _zero(a_zero, a), _zero(b_zero, b)).astype(np.int32)]


def _gemm(run: _Run, number: int, node: Any, values: Dict[str, Any]) -> List[Any]:
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = run.padded(node, values, 9)
    a = a.T if run.attribute(node, "transA", 0) else a
    b = b.T if run.attribute(node, "transB", 0) else b
    total = run.sums(number, a, b, _zero(a_zero, a), _zero(b_zero, b))
    total = total if c is None else total + c
    scale = np.float32(run.attribute(node, "alpha", 1.0)) * a_scale * b_scale
    if y_scale is None:
        return [total.astype(np.float32) * scale]
    return [_requantized(total, scale, y_scale, y_zero)]


def _convolution(run: _Run, number: int, node: Any, values: Dict[str, Any]) -> List[Any]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = run.padded(node, values, 9)
    if run.attribute(node, "channels_last", 0):
        raise Stop("unsupported", "saturation of QLinearConv with channels last is not emulated")
    groups, kernel = run.attribute(node, "group", 1), w.shape[2:]
    columns, sizes = _columns(run, node, x, x_zero, kernel)
    by_group = w.reshape(groups, -1, *w.shape[1:])
    # The depthwise kernel sums the taps of each channel in 32 bits.
    depthwise = w.shape[1] == 1 and by_group.shape[1] == 1
    parts, scales = [], np.broadcast_to(np.asarray(w_scale, np.float32).reshape(-1), (w.shape[0],))
    zeros = np.broadcast_to(np.asarray(_zero(w_zero, w)).reshape(-1), (w.shape[0],))
    for group in range(groups):
        # Taps first, channels last, as the kernel has them in memory.
        weights = np.moveaxis(by_group[group], 1, -1).reshape(by_group.shape[1], -1).T
        mine = slice(group * by_group.shape[1], (group + 1) * by_group.shape[1])
        rows = columns[group].reshape(-1, weights.shape[0])
        total = run.sums(number, rows, weights, x_zero, zeros[mine], group=group, cut=not depthwise)
        part = None if bias is None else bias[mine]
        parts.append(_requantized(total, x_scale * scales[mine], y_scale, y_zero, part))
    y = np.concatenate(parts, axis=1).reshape(x.shape[0], *sizes, w.shape[0])
    return [np.ascontiguousarray(np.moveaxis(y, -1, 1))]


def _columns(run: _Run, node: Any, x: Any, x_zero: Any, kernel: Any) -> Tuple[Any, Any]:
    """Return the inputs of each output position by group, shape (positions, taps, channels), and the output's sizes."""
    rank = len(kernel)
    strides = run.attribute(node, "strides", [1] * rank)
    dilations = run.attribute(node, "dilations", [1] * rank)
    pads = run.attribute(node, "pads", [0] * 2 * rank)
    auto = run.attribute(node, "auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        whole = [
            max(0, (-(-x.shape[2 + i] // strides[i]) - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1
                - x.shape[2 + i])
            for i in range(rank)
        ]  # fmt: skip
        less, more = [n // 2 for n in whole], [n - n // 2 for n in whole]
        pads = less + more if auto == b"SAME_UPPER" else more + less
    zero = int(np.asarray(x_zero).reshape(-1)[0])
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])], constant_values=zero)
    sizes = [(x.shape[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
    groups = run.attribute(node, "group", 1)
    by_group = np.moveaxis(x.reshape(x.shape[0], groups, -1, *x.shape[2:]), 2, -1)
    taps = []
    for tap in np.ndindex(*kernel):
        starts = [tap[i] * dilations[i] for i in range(rank)]
        cut = [slice(s, s + (n - 1) * step + 1, step) for s, n, step in zip(starts, sizes, strides)]
        taps.append(by_group[(slice(None), slice(None), *cut)])
    stacked = np.stack(taps, axis=-2)
    return np.moveaxis(stacked, 1, 0), sizes


PRODUCTS: Dict[str, Callable[[_Run, int, Any, Dict[str, Any]], List[Any]]] = {
    "QLinearMatMul": _qlinear_matmul,
    "MatMulIntegerToFloat": _matmul_to_float,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulInteger": _matmul_integer,
    "QGemm": _gemm,
    "QLinearConv": _convolution,
}
