"""Corrects the biases of a statically quantized model, so each layer's mean output matches the float model.

Rounding a weight shifts the mean of a result by the rounding error times the mean of its input. Both are known after
calibration, and the difference of the means is added to the bias.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import numpy as np

from .taps import attribute, constants, tapped

INT32 = np.iinfo(np.int32)


class Layer(NamedTuple):
    """A quantized layer and its float original."""

    node: Any
    original: Any
    read: str  # the float value that both read
    scale: Any
    zero: Any
    quantized: Any  # the weights as they are after rounding
    weight: Any


def correct(ort: Any, onnx: Any, prepared: str, request: Dict[str, Any]) -> str:
    """Correct the biases in the written model; return a summary as the end of a sentence."""
    floats, model = onnx.load(prepared), onnx.load(request["output"])
    edited = _Quantized(onnx, model.graph)
    layers = list(edited.layers(floats.graph))
    if not layers:
        return "; no bias could be corrected"
    names = sorted({layer.read for layer in layers})
    sums: Dict[int, Any] = {}
    count = 0
    for arrays in tapped(ort, onnx, floats, names, request):
        count += 1
        for number, layer in enumerate(layers):
            x = arrays[layer.read].astype(np.float64)
            low, high = np.iinfo(layer.zero.dtype).min, np.iinfo(layer.zero.dtype).max
            # The activation as the quantized model reads it: quantized and dequantized.
            rounded = np.clip(np.rint(x / layer.scale) + layer.zero, low, high)
            new = _mean_output(onnx, layer.original, (rounded - layer.zero) * layer.scale, layer.quantized)
            old = _mean_output(onnx, layer.original, x, layer.weight)
            sums[number] = sums.get(number, 0.0) + (new - old)
    done = sum(edited.shift(layer, -sums[number] / count) for number, layer in enumerate(layers))
    onnx.save(model, request["output"])
    return "; corrected the biases of %d of %d layers" % (done, len(layers))


def _mean_output(onnx: Any, node: Any, x: Any, weight: Any) -> Any:
    """Return the mean output of each channel of a product, without its bias."""
    if node.op_type != "Conv":
        turned = node.op_type == "Gemm" and attribute(onnx, node, "transB", 0)
        mean = x.reshape(-1, x.shape[-1]).mean(axis=0)
        return weight @ mean if turned else mean @ weight
    groups = attribute(onnx, node, "group", 1)
    # A convolution is linear: its mean output is its weights times the mean input of each tap.
    taps = _tap_means(onnx, node, x, weight.shape[2:]).reshape(groups, -1, *weight.shape[2:])
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    return (by_group * taps[:, None]).sum(axis=tuple(range(2, by_group.ndim))).reshape(-1)


def _tap_means(onnx: Any, node: Any, x: Any, kernel: Any) -> Any:
    """Return the mean input of each tap of a convolution, padding included: shape (channels, taps)."""
    rank = len(kernel)
    pads = list(attribute(onnx, node, "pads", [0] * 2 * rank))
    strides = list(attribute(onnx, node, "strides", [1] * rank))
    dilations = list(attribute(onnx, node, "dilations", [1] * rank))
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])])
    sizes = [(x.shape[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
    means = np.zeros((x.shape[1], *kernel))
    for tap in np.ndindex(*kernel):
        starts = [tap[i] * dilations[i] for i in range(rank)]
        cut = [slice(s, s + n * step, step) for s, n, step in zip(starts, sizes, strides)]
        # Only the input positions that this tap reads.
        means[(slice(None), *tap)] = x[(slice(None), slice(None), *cut)].mean(axis=(0, *range(2, x.ndim)))
    return means


class _Quantized:
    """A graph with QuantizeLinear and DequantizeLinear around its products."""

    def __init__(self, onnx: Any, graph: Any) -> None:
        self._onnx, self._graph = onnx, graph
        self._constants = constants(onnx, graph)
        self._producer = {name: node for node in graph.node for name in node.output if name}
        self._readers: Dict[str, List[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
        self._count = 0

    def layers(self, floats: Any) -> Iterator[Layer]:
        """Yield the products with rounded activation and weight, each with the float product of the same name."""
        originals = {node.name: node for node in floats.node if node.name}
        weights = constants(self._onnx, floats)
        there = {value.name for value in floats.input} | {
            name for node in floats.node for name in node.output
        }
        for node in self._graph.node:
            original = originals.get(node.name)
            if node.op_type not in ("Conv", "Gemm", "MatMul") or original is None:
                continue
            if original.op_type != node.op_type or not self._plain(node):
                continue
            activation, weight = (self._dequantize(node.input[place]) for place in (0, 1))
            source = self._producer.get(activation.input[0]) if activation is not None else None
            if source is None or source.op_type != "QuantizeLinear" or weight is None:
                continue
            if source.input[0] not in there:
                continue
            before, rounded = weights.get(original.input[1]), self._array(weight)
            scale, zero = (self._constants.get(name) for name in source.input[1:3])
            if before is None or rounded is None or before.shape != rounded.shape or zero is None:
                continue
            if scale is not None and scale.size == 1 and before.dtype == np.float32:
                yield Layer(
                    node, original, source.input[0], float(scale.reshape(())), zero.reshape(()), rounded,
                    before.astype(np.float64),
                )  # fmt: skip

    def shift(self, layer: Layer, by: Any) -> bool:
        """Add a value per channel to the bias of a layer; return False if it has no suitable bias."""
        if layer.node.op_type == "MatMul":
            return self._shift_add(layer.node.output[0], by)
        node = layer.node
        if len(node.input) > 2 and node.input[2]:
            bias = self._dequantize(node.input[2])
            if (
                bias is None
                or bias.input[0] not in self._constants
                or by.shape != self._constants[bias.input[0]].shape
            ):
                return False
            scale = self._constants[bias.input[1]]
            self._put(node, 2, self._constants[bias.input[0]].astype(np.float64) + by / scale, scale)
            return True
        weight = self._producer[node.input[1]]  # a DequantizeLinear, as of every layer
        # A bias is added to sums of products, so its scale is that of the activation times that of the
        # weight.
        scale = np.asarray(layer.scale * self._constants[weight.input[1]], dtype=np.float32)
        scale = scale.reshape(()) if scale.size == 1 else scale
        if not scale.all():
            return False
        node.input.extend([""] * (3 - len(node.input)))
        self._put(node, 2, by / scale, scale)
        return True

    def _put(self, node: Any, place: int, steps: Any, scale: Any) -> None:
        """Replace the bias of a product by a new int32 bias with a scale."""
        values = np.clip(np.rint(steps), INT32.min, INT32.max).astype(np.int32)
        names = [self._fresh(node.name + "_corrected" + end) for end in ("_steps", "_scale", "_bias")]
        for name, array in zip(names, (values, scale)):
            self._constants[name] = array
            self._graph.initializer.append(self._onnx.numpy_helper.from_array(array, name))
        more = {"axis": 0} if scale.size > 1 else {}
        new = self._onnx.helper.make_node("DequantizeLinear", names[:2], names[2:], name=names[2], **more)
        self._insert(new, node)
        node.input[place] = names[2]

    def _shift_add(self, name: str, by: Any) -> bool:
        """Add a value per channel to the constant of an Add after a matrix product; return False if there is none."""
        readers = self._readers.get(name, [])
        while len(readers) == 1 and readers[0].op_type in ("QuantizeLinear", "DequantizeLinear"):
            name = readers[0].output[0]
            readers = self._readers.get(name, [])
        if len(readers) != 1 or readers[0].op_type != "Add":
            return False
        add = readers[0]
        place = 1 if add.input[0] == name else 0
        behind = self._dequantize(add.input[place])
        bias = self._constants.get(add.input[place]) if behind is None else self._array(behind)
        if bias is None or bias.size != by.size or bias.shape[-1] != by.size:
            return False
        new = bias.astype(np.float64) + by.reshape(bias.shape)
        fresh = self._fresh(add.name + "_corrected")
        if behind is None:
            self._graph.initializer.append(self._onnx.numpy_helper.from_array(new.astype(bias.dtype), fresh))
            add.input[place] = fresh
            return True
        # A new range, since the shifted bias may exceed the old one.
        kind = self._constants[behind.input[2]].dtype
        info = np.iinfo(kind)
        low, high = min(0.0, float(new.min())), max(0.0, float(new.max()))
        if kind == np.int8:
            scale, zero = max(-low, high) / 127, 0
        else:
            scale = (high - low) / (info.max - info.min)
            zero = int(np.rint(info.min - low / scale)) if scale else 0
        if not scale:
            return False
        steps = np.clip(np.rint(new / scale) + zero, info.min, info.max).astype(kind)
        arrays = (steps, np.asarray(scale, np.float32), np.asarray(zero, kind))
        names = [self._fresh(fresh + end) for end in ("_steps", "_scale", "_zero")]
        for stored, array in zip(names, arrays):
            self._graph.initializer.append(self._onnx.numpy_helper.from_array(array, stored))
        self._insert(self._onnx.helper.make_node("DequantizeLinear", names, [fresh], name=fresh), add)
        add.input[place] = fresh
        return True

    def _insert(self, node: Any, before: Any) -> None:
        place = next(i for i, other in enumerate(self._graph.node) if other.output == before.output)
        self._graph.node.insert(place, node)

    def _fresh(self, wish: str) -> str:
        self._count += 1
        name = "%s_%d" % (wish, self._count)
        while name in self._constants or name in self._producer:
            name += "_"
        return name

    def _plain(self, node: Any) -> bool:
        """Return whether a product is computed as assumed here: without auto padding, transposition and scaling."""
        usual = {"auto_pad": b"NOTSET", "transA": 0, "alpha": 1.0, "beta": 1.0}
        return all(attribute(self._onnx, node, name, value) == value for name, value in usual.items())

    def _dequantize(self, name: str) -> Optional[Any]:
        node = self._producer.get(name)
        return node if node is not None and node.op_type == "DequantizeLinear" else None

    def _array(self, node: Any) -> Optional[Any]:
        """Return the float64 value of a DequantizeLinear of a constant; None for others."""
        steps, scale = (self._constants.get(name) for name in node.input[:2])
        zero = self._constants.get(node.input[2]) if len(node.input) > 2 else None
        if steps is None or scale is None:
            return None
        axis = attribute(self._onnx, node, "axis", 1)
        along = [-1 if i == axis % max(1, steps.ndim) else 1 for i in range(steps.ndim)]
        shape = along if scale.size > 1 else []
        shifted = steps.astype(np.float64)
        if zero is not None:
            shifted = shifted - zero.astype(np.float64).reshape(shape)
        return shifted * scale.astype(np.float64).reshape(shape)
