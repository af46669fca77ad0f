"""SmoothQuant: moves the ranges of activations into weights, so the channels become similarly large.

One scale covers an activation, so a channel that is a hundred times larger leaves the others two or three steps. The
node before the activation is divided channel by channel, and the weights after it are multiplied, by powers of two, so
float outputs stay bit-identical.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from .graph_tools import imported, saved
from .protocol import Stop
from .quantizer_graphs import graphs
from .taps import attribute, constants, tapped

LEAST_APART = 2
"""Least ratio between the channels of an activation, in powers of two, for a change."""
MOST_POWER = 20

NORMS = {
    "LayerNormalization": (1, 2),
    "RMSNormalization": (1,),
    "SimplifiedLayerNormalization": (1,),
    "SkipLayerNormalization": (2, 3),
    "SkipSimplifiedLayerNormalization": (2,),
}
"""Positions of the scale and shift inputs, by operator."""
PASSING = ("Dropout", "Identity", "LeakyRelu", "Relu")
"""Operators with f(s * x) = s * f(x) for positive s."""


class Factor(NamedTuple):
    """A constant that can absorb a scale: an input of a node, along one of its axes."""

    node: Any
    place: int
    axis: int


class SmoothedActivation(NamedTuple):
    """An activation, the constants before it, and the weights after it."""

    value: str
    before: List[Factor]
    after: List[Factor]


def smooth(ort: Any, request: Dict[str, Any]) -> str:
    """Write the model with smaller differences between the channels of products' inputs; return a summary sentence."""
    if not request["feeds"]:
        raise Stop("unsupported", "smooth-quant needs inputs to calibrate on")
    onnx = imported("onnx", ort)
    # External weights are loaded only for writing, so a large model needs little more memory than its weights.
    model, folder = onnx.load(request["model"], load_external_data=False), os.path.dirname(request["model"])
    graph = _Graph(onnx, model.graph, folder)
    sites = graph.sites()
    if not sites:
        raise Stop(
            "unsupported", "no MatMul or Gemm follows a normalisation or product that could absorb a scale"
        )
    copy = type(model)()
    copy.CopyFrom(model)
    largest: Dict[str, Any] = {}
    for arrays in tapped(ort, onnx, copy, [site.value for site in sites], request):
        for name, array in arrays.items():
            peak = np.abs(array.astype(np.float64)).reshape(-1, array.shape[-1]).max(axis=0, initial=0.0)
            largest[name] = np.maximum(largest.get(name, 0.0), peak)
    moved = sum(graph.move(site, largest[site.value]) for site in sites)
    if not moved:
        raise Stop("unsupported", "no channel that MatMul or Gemm reads is much larger than the others")
    graph.store()
    onnx.external_data_helper.load_external_data_for_model(model, folder)
    model.ir_version = max(model.ir_version, 4)  # earlier versions require constants to be inputs
    saved(ort, onnx, model, request)
    return "Moved the ranges of %d activation%s into weights (over %d inputs)." % (
        moved,
        "" if moved == 1 else "s",
        len(request["feeds"]),
    )


class _Graph:
    """A graph with constants that are changed in separate copies."""

    def __init__(self, onnx: Any, graph: Any, folder: str) -> None:
        self._onnx, self._graph = onnx, graph
        self._constants = constants(onnx, graph, folder)
        self._outputs = {value.name for value in graph.output}
        self._producer = {name: node for node in graph.node for name in node.output if name}
        self._readers: Dict[str, List[Tuple[Any, int]]] = {}
        for node in graph.node:
            for place, name in enumerate(node.input):
                self._readers.setdefault(name, []).append((node, place))
            for inner in node.attribute:  # values that a branch reads are not scaled
                for sub in [inner.g] if inner.HasField("g") else inner.graphs:
                    for deep in sub.node:
                        for name in deep.input:
                            self._readers.setdefault(name, []).append((node, -1))
        self._scaled: List[str] = []
        self._replaced: Set[str] = set()

    def sites(self) -> List[SmoothedActivation]:
        """Return each activation that only products read, if the constants before it can absorb a scale."""
        sites = []
        for value, readers in self._readers.items():
            after = [self._weight(node, place) for node, place in readers]
            weights = [factor for factor in after if factor is not None]
            if len(weights) < len(after) or value in self._outputs or value in self._constants:
                continue
            sizes = {self._array(factor).shape[factor.axis] for factor in weights}
            before = self._takes(value, sizes.pop()) if len(sizes) == 1 else None
            if before:
                sites.append(SmoothedActivation(value, before, weights))
        return sites

    def move(self, site: SmoothedActivation, largest: Any) -> bool:
        """Balance the channels of an activation; return False if they are similar."""
        weight = np.zeros(largest.shape)
        for factor in site.after:
            array = np.abs(self._array(factor).astype(np.float64))
            weight = np.maximum(weight, array.max(axis=1 - factor.axis))
        used = (largest > 0) & (weight > 0)
        if not used.any():
            return False
        apart = np.zeros(largest.shape)
        # Half of the difference in magnitude moves to the weights, half stays in the activation.
        apart[used] = (np.log2(largest[used]) - np.log2(weight[used])) / 2
        powers = np.zeros(largest.shape)
        # Relative to the median, so the range of the typical channel is unchanged.
        powers[used] = np.clip(np.rint(apart[used] - np.median(apart[used])), -MOST_POWER, MOST_POWER)
        if powers.max() - powers.min() < LEAST_APART:
            return False
        for factors, sign in ((site.before, -1), (site.after, 1)):
            for factor in factors:
                self._scale(factor, np.exp2(sign * powers))
        return True

    def _array(self, factor: Factor) -> Any:
        return self._constants[factor.node.input[factor.place]]

    def _weight(self, node: Any, place: int) -> Optional[Factor]:
        """Return the weight of a product that reads the value as its first input; None for anything else."""
        if place != 0 or node.op_type not in ("MatMul", "Gemm") or attribute(self._onnx, node, "transA", 0):
            return None
        array = self._constants.get(node.input[1])
        if array is None or array.ndim != 2 or array.dtype != np.float32:
            return None
        return Factor(node, 1, 1 if attribute(self._onnx, node, "transB", 0) else 0)

    def _takes(self, name: str, size: int) -> Optional[List[Factor]]:
        """Return the constants that absorb a scale of a value's last axis; None if that is impossible."""
        node = self._producer.get(name)
        if node is None:
            return None
        if node.op_type in NORMS and name == node.output[0]:
            if attribute(self._onnx, node, "axis", -1) != -1:
                return None
            places = [place for place in NORMS[node.op_type] if len(node.input) > place and node.input[place]]
            return self._all([self._constant(node, place, size) for place in places])
        if node.op_type in PASSING:
            return self._only(node.input[0], size)
        if node.op_type in ("MatMul", "Gemm"):
            weight = self._weight(node, 0)
            biases = [2] if len(node.input) > 2 and node.input[2] else []
            own = Factor(node, 1, 1 - weight.axis) if weight is not None else None
            return self._all([own, *(self._constant(node, place, size) for place in biases)])
        if node.op_type in ("Mul", "Add", "Sub"):
            operands = [self._operand(node, place, size) for place in (0, 1)]
            if node.op_type == "Mul":  # one of both is enough
                return next((operand for operand in operands if operand), None)
            first, second = operands
            return first + second if first and second else None
        return self._only(node.input[0], size) if node.op_type == "Div" else None

    def _operand(self, node: Any, place: int, size: int) -> Optional[List[Factor]]:
        if node.input[place] in self._constants:
            return self._all([self._constant(node, place, size)])
        return self._only(node.input[place], size)

    def _only(self, name: str, size: int) -> Optional[List[Factor]]:
        """Return the same as ``_takes`` for a value with a single reader; None for others."""
        if len(self._readers.get(name, ())) != 1 or name in self._outputs:
            return None
        return self._takes(name, size)

    def _constant(self, node: Any, place: int, size: int) -> Optional[Factor]:
        array = self._constants.get(node.input[place])
        fits = (
            array is not None
            and array.dtype == np.float32
            and (array.size == 1 or array.shape[-1] in (1, size))
        )
        return Factor(node, place, -1) if fits else None

    def _all(self, factors: List[Optional[Factor]]) -> Optional[List[Factor]]:
        present = [factor for factor in factors if factor is not None]
        return present if len(present) == len(factors) else None

    def _scale(self, factor: Factor, by: Any) -> None:
        """Multiply a constant along an axis, in a separate copy."""
        array = self._array(factor)
        shape = [1] * max(1, array.ndim)
        shape[factor.axis] = by.size
        scaled = np.ascontiguousarray(array.astype(np.float64) * by.reshape(shape), dtype=np.float32)
        before = factor.node.input[factor.place]
        name = "%s_smoothed_%d" % (before, len(self._scaled))
        while name in self._constants or name in self._producer:
            name += "_"
        self._scaled.append(name)
        self._replaced.add(before)
        self._constants[name] = scaled
        factor.node.input[factor.place] = name

    def store(self) -> None:
        """Store the scaled constants in the graph, and remove replaced ones without readers."""
        read = {name for each in graphs(self._graph) for node in each.node for name in node.input}
        read |= self._outputs
        for place in range(len(self._graph.initializer) - 1, -1, -1):
            name = self._graph.initializer[place].name
            if name in self._replaced and name not in read:
                del self._graph.initializer[place]
        for name in self._scaled:
            scaled = self._constants.pop(name)
            if name in read:  # else it was scaled again
                self._graph.initializer.append(self._onnx.numpy_helper.from_array(scaled, name))
        self._constants.clear()
