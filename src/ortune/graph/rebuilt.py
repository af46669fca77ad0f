"""Synthetic weights: seeded tensors of the same size and scale as the originals; equal originals stay equal."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto

from ortune.graph.model.tensors import WeightFiles
from ortune.graph.randomness import SIZES

FEW = 4
"""Maximum number of elements of constants that are kept: axes, bounds, epsilons, scales."""
MOST_INTEGERS = 1024
"""Maximum number of elements of integer tensors that are kept (shapes, indices); longer tensors are tables."""

_QUANTISED = re.compile(r"QLinear.*|DequantizeLinear|QGemm|QAttention|.*Integer.*")
"""Operators with biases as 32-bit inputs."""
_SAMPLE = 65_536


class Rebuilt:
    """Replaces the tensors of one model with synthetic tensors that have similar statistics.

    Attributes:
        n_rebuilt: Number of tensors and lists with replaced values.
        n_kept: Number of tensors and lists that kept their values.
    """

    def __init__(self, files: WeightFiles, text: Callable[[bytes], bytes]) -> None:
        self.n_rebuilt = self.n_kept = 0
        self._files, self._text = files, text
        self._seeds: dict[bytes, int] = {}
        self._sizes: set[str] = set()
        self._biases: set[str] = set()

    def roles(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Record which values are read as sizes (constants to keep) and which as biases (constants to replace)."""
        for node in nodes:
            at = SIZES.get(node.op_type, ())
            self._sizes.update(node.input[i] for i in at if i < len(node.input))
            if _QUANTISED.fullmatch(node.op_type):
                self._biases.update(node.input)

    def floats(self, values: Sequence[float], *, most: int) -> Sequence[float]:
        """Return seeded values in place of a float-list attribute; lists of at most ``most`` elements are kept."""
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
        """Return whether a tensor's values are structural (sizes, axes) and must be kept."""
        size = int(np.prod(tensor.dims, dtype=np.int64))
        if tensor.data_type == TensorProto.STRING:
            return False
        if size <= FEW or name in self._sizes:
            return size <= MOST_INTEGERS
        whole = tensor.data_type in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
        return whole and size <= MOST_INTEGERS and name not in self._biases

    def dense(self, tensor: TensorProto, name: str, *, stays: bool | None = None) -> TensorProto:
        """Return a dense copy of a tensor: structural values are kept, weights are synthetic, strings are renamed.

        Args:
            tensor: The tensor.
            name: Name of the value with this tensor.
            stays: Whether the tensor's numbers are kept; None to decide by their count and use.
        """
        copy = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
        if tensor.data_type == TensorProto.STRING:
            self.n_rebuilt += 1
            copy.string_data.extend(self._text(text) for text in tensor.string_data)
            return copy
        values = self._files.array(tensor)
        if self.stays(tensor, name) if stays is None else stays:
            self.n_kept += 1
        elif not whole_bytes(tensor):
            self.n_rebuilt += 1
            values = np.zeros_like(values)
        else:
            self.n_rebuilt += 1
            values = _random_like(np.random.default_rng(self._seed(values)), values, values.size).reshape(
                values.shape
            )
        if tensor.data_type == TensorProto.INT64:
            copy.int64_data.extend(values.ravel().tolist())  # a byte or two each
        else:
            copy.raw_data = ir.tensor(values, dtype=ir.DataType(tensor.data_type)).tobytes()
        return copy

    def sparse(self, tensor: TensorProto, name: str) -> onnx.SparseTensorProto:
        """Return a sparse, synthetic replacement for a dense tensor."""
        return self._sparse_of(self._files.array(tensor), tuple(tensor.dims), tensor.data_type, name)

    def sparser(self, sparse: onnx.SparseTensorProto, name: str) -> onnx.SparseTensorProto:
        """Return a synthetic replacement with few elements for a sparse tensor."""
        values = self._files.array(sparse.values)
        return self._sparse_of(values, tuple(sparse.dims), sparse.values.data_type, name)

    def _sparse_of(
        self, values: np.ndarray[Any, Any], dims: tuple[int, ...], data_type: int, name: str
    ) -> onnx.SparseTensorProto:
        """Return a sparse tensor with a few seeded numbers at the start and zeros elsewhere."""
        self.n_rebuilt += 1
        size = int(np.prod(dims, dtype=np.int64))
        dtype = np.dtype(ir.DataType(data_type).numpy())
        drawn = np.zeros(0, dtype)
        if values.size and np.any(values):
            rng = np.random.default_rng(self._seed(values))
            drawn = _random_like(rng, values, min(FEW, size))
            # Denormal numbers slow some kernels down, so a model that contains them keeps a few.
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
        """Return the index of the first tensor with these values as a seed, so exactly the equal weights stay equal."""
        digest = hashlib.sha256(f"{values.dtype}{values.shape}".encode())
        digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
        return self._seeds.setdefault(digest.digest(), len(self._seeds))


def whole_bytes(tensor: TensorProto) -> bool:
    """Return whether elements take whole bytes; ONNX Runtime cannot densify sub-byte types or strings."""
    return tensor.data_type != TensorProto.STRING and ir.DataType(tensor.data_type).bitwidth >= 8


def _sample(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    flat = values.reshape(-1)
    middle = max(0, flat.size // 2 - _SAMPLE // 2)
    parts = (flat[:_SAMPLE], flat[middle : middle + _SAMPLE], flat[-_SAMPLE:])
    return flat if flat.size <= 3 * _SAMPLE else np.concatenate(parts)


def _scale(values: np.ndarray[Any, Any]) -> float:
    """Return the root mean square of a sample of ``values``, rounded to a power of two to reveal little of them."""
    sample = _sample(values).astype(np.float64)
    sample = sample[np.isfinite(sample)]
    mean = float(np.sqrt(np.mean(sample**2))) if sample.size else 0.0
    return float(2.0 ** np.clip(np.round(np.log2(mean)), -14, 14)) if mean else 0.0


def _denormal(values: np.ndarray[Any, Any]) -> bool:
    sample = np.abs(_sample(values))
    return bool(np.mean((sample > 0) & (sample < np.finfo(np.float32).tiny)) >= 1e-3)


def _random_like(rng: np.random.Generator, values: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Return random numbers with the type and scale of ``values``, non-negative if these are, so roots stay real."""
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
