"""Tensors whose values are of a seed: as large, as equal to each other, and as near to zero as those they stand for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, numpy_helper

from ortune.graph.model.tensors import WeightFiles
from ortune.graph.randomness import SIZES

FEW = 4
"""Constants of up to so many elements stay: axes, bounds, epsilons, scales."""
MOST_INTEGERS = 1024
"""Whole numbers stay up to here: shapes, indices. Longer ones are tables."""

_QUANTISED = re.compile(r"QLinear.*|DequantizeLinear|QGemm|QAttention|.*Integer.*")
"""Whose 32-bit inputs are biases."""
_SAMPLE = 65_536


class Rebuilt:
    """Replaces the tensors of one model by synthetic ones with the same statistics.

    Attributes:
        n_rebuilt: How many have values of a seed now, or other texts.
        n_kept: How many stay.
    """

    def __init__(self, files: WeightFiles, text: Callable[[bytes], bytes]) -> None:
        self.n_rebuilt = self.n_kept = 0
        self._files, self._text = files, text
        self._seeds: dict[bytes, int] = {}
        self._sizes: set[str] = set()
        self._biases: set[str] = set()

    def roles(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Record which values are read as sizes (their constants stay) and which as biases (they do not)."""
        for node in nodes:
            at = SIZES.get(node.op_type, ())
            self._sizes.update(node.input[i] for i in at if i < len(node.input))
            if _QUANTISED.fullmatch(node.op_type):
                self._biases.update(node.input)

    def floats(self, values: Sequence[float], *, most: int) -> Sequence[float]:
        """Replace a list of floats in an attribute, unless it has at most ``most`` elements."""
        if len(values) <= most:
            self.n_kept += 1
            return values
        array = np.asarray(values, np.float32)
        rng = np.random.default_rng(self._seed(array))
        self.n_rebuilt += 1
        return [
            float(number) for number in (rng.standard_normal(len(values)) * _scale(array)).astype(np.float32)
        ]

    def stays(self, tensor: TensorProto, name: str) -> bool:
        """Return whether a tensor's values belong to the graph's structure (sizes, axes) instead of its weights."""
        size = int(np.prod(tensor.dims, dtype=np.int64))
        if tensor.data_type == TensorProto.STRING:
            return False
        if size <= FEW or name in self._sizes:
            return size <= MOST_INTEGERS
        whole = tensor.data_type in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
        return whole and size <= MOST_INTEGERS and name not in self._biases

    def _array(self, tensor: TensorProto) -> np.ndarray[Any, Any]:
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._files.tensor(tensor).numpy()
        return numpy_helper.to_array(tensor)

    def dense(self, tensor: TensorProto, name: str, *, stays: bool | None = None) -> TensorProto:
        """Copy a tensor densely: structural values as they are, weights synthetic, strings renamed.

        Args:
            tensor: The tensor.
            name: Of the value that it is.
            stays: Whether its numbers do; None if their count and who reads them say it.
        """
        copy = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
        if tensor.data_type == TensorProto.STRING:
            self.n_rebuilt += 1
            copy.string_data.extend(self._text(text) for text in tensor.string_data)
            return copy
        values = self._array(tensor)
        if self.stays(tensor, name) if stays is None else stays:
            self.n_kept += 1
        elif not whole_bytes(tensor):
            self.n_rebuilt += 1
            values = np.zeros_like(values)
        else:
            self.n_rebuilt += 1
            values = _drawn(np.random.default_rng(self._seed(values)), values, values.size).reshape(
                values.shape
            )
        if tensor.data_type == TensorProto.INT64:
            copy.int64_data.extend(values.ravel().tolist())  # a byte or two each
        else:
            copy.raw_data = ir.tensor(values, dtype=ir.DataType(tensor.data_type)).tobytes()
        return copy

    def sparse(self, tensor: TensorProto, name: str) -> onnx.SparseTensorProto:
        """Encode a tensor as a sparse one."""
        return self._sparse_of(self._array(tensor), tuple(tensor.dims), tensor.data_type, name)

    def sparser(self, sparse: onnx.SparseTensorProto, name: str) -> onnx.SparseTensorProto:
        """Rebuild a sparse tensor with fewer, synthetic values."""
        values = self._array(sparse.values)
        return self._sparse_of(values, tuple(sparse.dims), sparse.values.data_type, name)

    def _sparse_of(
        self, values: np.ndarray[Any, Any], dims: tuple[int, ...], data_type: int, name: str
    ) -> onnx.SparseTensorProto:
        """Return a few numbers at the beginning, of a seed and the tensor's own size; zeros behind them."""
        self.n_rebuilt += 1
        size = int(np.prod(dims, dtype=np.int64))
        dtype = np.dtype(ir.DataType(data_type).numpy())
        drawn = np.zeros(0, dtype)
        if values.size and np.any(values):
            rng = np.random.default_rng(self._seed(values))
            drawn = _drawn(rng, values, min(FEW, size))
            # Denormal numbers slow some kernels down: a model that had them keeps a few.
            if data_type == TensorProto.FLOAT and size >= 4 * FEW and _denormal(values):
                drawn = np.concatenate([drawn, np.full(FEW, 1e-40, np.float32)])
        sparse = onnx.SparseTensorProto(dims=dims)
        sparse.values.name = name
        sparse.values.data_type = data_type
        sparse.values.dims.append(drawn.size)
        sparse.values.raw_data = drawn.astype(dtype).tobytes()
        sparse.indices.data_type = TensorProto.INT64
        sparse.indices.dims.append(drawn.size)
        sparse.indices.int64_data.extend(range(drawn.size))
        return sparse

    def _seed(self, values: np.ndarray[Any, Any]) -> int:
        """Return the place of the first tensor with these values: equal weights stay equal, others do not become so."""
        digest = hashlib.sha256(f"{values.dtype}{values.shape}".encode())
        digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
        return self._seeds.setdefault(digest.digest(), len(self._seeds))


def whole_bytes(tensor: TensorProto) -> bool:
    """Return whether an element takes whole bytes; ONNX Runtime cannot densify sub-byte types."""
    return tensor.data_type != TensorProto.STRING and ir.DataType(tensor.data_type).bitwidth >= 8


def _sample(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    flat = values.reshape(-1)
    middle = max(0, flat.size // 2 - _SAMPLE // 2)
    parts = (flat[:_SAMPLE], flat[middle : middle + _SAMPLE], flat[-_SAMPLE:])
    return flat if flat.size <= 3 * _SAMPLE else np.concatenate(parts)


def _scale(values: np.ndarray[Any, Any]) -> float:
    """The root mean square of a sample, as a power of two: enough to compute alike, too little to tell a weight."""
    sample = _sample(values).astype(np.float64)
    sample = sample[np.isfinite(sample)]
    mean = float(np.sqrt(np.mean(sample**2))) if sample.size else 0.0
    return float(2.0 ** np.clip(np.round(np.log2(mean)), -14, 14)) if mean else 0.0


def _denormal(values: np.ndarray[Any, Any]) -> bool:
    sample = np.abs(_sample(values))
    return bool(np.mean((sample > 0) & (sample < np.finfo(np.float32).tiny)) >= 1e-3)


def _drawn(rng: np.random.Generator, values: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Return numbers of the same type and size; none is below zero where none was, so that roots stay real."""
    if values.dtype == np.bool_:
        return np.ones(count, np.bool_)
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        return rng.integers(low, high, count, dtype=values.dtype, endpoint=True)
    if values.dtype.kind == "c":
        return np.zeros(count, values.dtype)
    drawn = rng.standard_normal(count) * _scale(values)
    if not np.any(_sample(values).astype(np.float32) < 0):
        drawn = np.abs(drawn)
    return drawn.astype(values.dtype)
