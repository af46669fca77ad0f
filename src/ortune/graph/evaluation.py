"""Evaluation of nodes with known inputs, by ONNX's reference evaluator.

All constant evaluation of the package happens here, so operators have the same semantics everywhere. Equal layers
repeat their shape arithmetic on equal numbers, so evaluators and small results are cached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.graph.attributes import SMALL_BYTES, has_parameters, signature, small_contents, tensor_of
from ortune.graph.model.graphs import op_set, stored_bytes
from ortune.graph.nodes import is_op

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

Array = NDArray[np.generic]
_Kept = TypeVar("_Kept")

COMPUTED = op_set(
    "Abs Add And Cast Ceil Clip Concat ConstantOfShape Cos CumSum Div Equal Erf Exp Expand Flatten Floor Gather "
    "GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Log MatMul Max Min Mul Neg Not Or Pow "
    "NonZero Range Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Round ScatterElements "
    "ScatterND Sigmoid Sign Sin Slice Softmax Split Sqrt Squeeze Sub Sum Tanh Tile Transpose Trilu Unsqueeze Where Xor"
)
"""Operators that are evaluated; all others are rare among constants, draw random numbers, or belong to quantization."""

MOST_BYTES = 1 << 29
"""Maximum size of a computed result in bytes."""

_GROWING = op_set("ConstantOfShape Expand Range Tile")
"""Operators whose result can be arbitrarily larger than the inputs."""
_SOFTMAX_OF_ONE_AXIS = 13  # from this opset on; the reference evaluator implements no other definition
_KEPT_BYTES = 1024
"""Maximum size in bytes of the inputs, and of the outputs, of a cached evaluation."""
_REFUSALS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
    onnx.checker.ValidationError, onnx.defs.SchemaError,
)  # fmt: skip
"""Exceptions that the reference evaluator raises for unknown or invalid nodes."""

FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Neg": np.negative,
    "Exp": np.exp,
    "Log": np.log,
    "Tanh": np.tanh,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Relu": lambda x: np.maximum(x, 0.0),
    "Erf": np.vectorize(math.erf, otypes=[np.float64]),
    "Max": np.maximum,
    "Min": np.minimum,
    "Identity": np.array,
}
"""Elementwise operators on arrays of float64, for callers that evaluate a function of one value at many points."""

_results: dict[Hashable, list[Array] | None] = {}
_prepared: dict[Hashable, _Prepared] = {}
_MOST_KEPT = 4096
"""Maximum number of cached results, and of cached evaluators."""


def evaluate(
    node: ir.Node, opset: int, inputs: Sequence[Array | None], *, most_bytes: int = MOST_BYTES
) -> list[Array] | None:
    """Compute the outputs of a node of the ONNX domain.

    Args:
        node: A node; None is returned unless its operator is in ``COMPUTED``.
        opset: The version of the ONNX operators.
        inputs: One array per input of the node; None for each omitted input.
        most_bytes: Maximum total size of the outputs in bytes.

    Returns:
        One array per output, or None if the operator is not supported, the node contradicts its inputs, or the
        result is larger than ``most_bytes``.
    """
    given = [array for array in inputs if array is not None]
    if not _is_computed(node, opset, given):
        return None
    absent = tuple(array is None for array in inputs)
    kind = _kind(node, opset, absent)
    if kind is None or sum(array.nbytes for array in given) > _KEPT_BYTES:
        return _computed(_prepare(node, opset, absent, kind), inputs, most_bytes)
    key = (kind, most_bytes, *(None if a is None else (a.dtype.str, a.shape, a.tobytes()) for a in inputs))
    if key not in _results:
        results = _computed(_prepare(node, opset, absent, kind), inputs, most_bytes)
        if results is not None and sum(array.nbytes for array in results) > _KEPT_BYTES:
            return results
        _keep(_results, key, None if results is None else [array.copy() for array in results])
    kept = _results[key]
    # Copies: a result may be one of the inputs, and callers may change it.
    return None if kept is None else [array.copy() for array in kept]


def _is_computed(node: ir.Node, opset: int, given: Sequence[Array]) -> bool:
    if not is_op(node, *COMPUTED) or has_parameters(node) or not given:
        return False
    if is_op(node, "Softmax") and opset < _SOFTMAX_OF_ONE_AXIS:
        return False
    if is_op(node, "Erf") and given[0].dtype == np.float64:  # computed in float32
        return False
    return all(array.dtype.kind in "fiub" for array in given)


def _kind(node: ir.Node, opset: int, absent: tuple[bool, ...]) -> Hashable | None:
    """Return a cache key shared by equal nodes, without their inputs; None if a node has a large or text tensor."""
    for name in node.attributes:
        tensor = tensor_of(node, name)
        if tensor is not None and (tensor.dtype == ir.DataType.STRING or stored_bytes(tensor) > SMALL_BYTES):
            return None
    return node.op_type, opset, signature(node, small_contents), absent, len(node.outputs)


def _prepare(node: ir.Node, opset: int, absent: tuple[bool, ...], kind: Hashable | None) -> _Prepared | None:
    if kind is not None and kind in _prepared:
        return _prepared[kind]
    try:
        prepared = _Prepared(node, opset, absent)
    except _REFUSALS:
        return None
    if kind is not None:
        _keep(_prepared, kind, prepared)
    return prepared


def _keep(kept: dict[Hashable, _Kept], key: Hashable, item: _Kept) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[key] = item


def _computed(
    prepared: _Prepared | None, inputs: Sequence[Array | None], most_bytes: int
) -> list[Array] | None:
    if prepared is None:
        return None
    feeds = {f"i{place}": array for place, array in enumerate(inputs) if array is not None}
    try:
        with np.errstate(all="ignore"):
            inferred = prepared.inferred(feeds)
            if _too_large(prepared.proto, inferred, feeds, most_bytes):
                return None
            arrays = prepared.run(feeds)
    except _REFUSALS:
        return None
    if sum(array.nbytes for array in arrays) > most_bytes:
        return None
    # Example: before opset 13, Unsqueeze here inserts axes one after another, so unsorted axes give a wrong shape.
    if inferred is not None and not all(map(_fits, inferred, arrays)):
        return None
    return arrays if all(array.dtype.kind in "fiub" for array in arrays) else None


def _too_large(
    proto: onnx.NodeProto,
    inferred: Sequence[onnx.TypeProto.Tensor] | None,
    feeds: Mapping[str, Array],
    most_bytes: int,
) -> bool:
    """Return whether a result is known to exceed ``most_bytes``, or may grow without a known bound."""
    whole = [size for kind in inferred or () if (size := _whole(kind)) is not None]
    if inferred and len(whole) == len(inferred):
        return any(
            math.prod(size) * onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize > most_bytes
            for size, kind in zip(whole, inferred, strict=True)
        )
    if proto.op_type == "Range":
        start, limit, step = (float(feeds[name].reshape(-1)[0]) for name in ("i0", "i1", "i2"))
        return (limit - start) / step * feeds["i0"].itemsize > most_bytes
    return proto.op_type in _GROWING


class _Prepared:
    """A node with normalized input and output names, and its evaluator."""

    def __init__(self, node: ir.Node, opset: int, absent: Sequence[bool]) -> None:
        self.proto = onnx.NodeProto(
            op_type=node.op_type,
            input=["" if missing else f"i{place}" for place, missing in enumerate(absent)],
            output=[f"o{place}" for place in range(len(node.outputs))],
            attribute=[ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values()],
        )
        self.opset = opset
        self.schema = onnx.defs.get_schema(node.op_type, opset, "")
        self._evaluator: ReferenceEvaluator | None = None

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Evaluate the node, given input arrays by normalized name ("i0", "i1", ...)."""
        if self._evaluator is None:
            # Imported late because it loads every operator.
            from onnx.reference import ReferenceEvaluator

            from ortune.graph.reference_operators import OURS

            empty = onnx.helper.make_empty_tensor_value_info
            outputs = [empty(name) for name in self.proto.output]
            graph = onnx.helper.make_graph([self.proto], "node", [empty(name) for name in feeds], outputs)
            # The reference picks, per operator, the newest version that is not newer than this opset.
            opsets = [onnx.helper.make_opsetid("", self.opset)]
            self._evaluator = ReferenceEvaluator(
                onnx.helper.make_model(graph, opset_imports=opsets), new_ops=[*OURS]
            )
        return [np.asarray(array) for array in self._evaluator.run(None, dict(feeds))]

    def inferred(self, feeds: Mapping[str, Array]) -> list[onnx.TypeProto.Tensor] | None:
        """Return the output types and shapes from ONNX shape inference; None if it rejects the node."""
        kind, kind_of = onnx.helper.make_tensor_type_proto, onnx.helper.np_dtype_to_tensor_dtype
        small = {name: array for name, array in feeds.items() if array.nbytes <= SMALL_BYTES}
        try:
            said = onnx.shape_inference.infer_node_outputs(
                self.schema,
                self.proto,
                {name: kind(kind_of(array.dtype), array.shape) for name, array in feeds.items()},
                {name: onnx.numpy_helper.from_array(array, name) for name, array in small.items()},
                opset_imports=[onnx.helper.make_opsetid("", self.opset)],
            )
        except onnx.shape_inference.InferenceError:
            # Inference is stricter than the evaluator (a Range takes only scalars). With constant operands, ONNX
            # Runtime would reject the node too.
            return None
        unknown = onnx.TypeProto.Tensor()
        return [said[name].tensor_type if name in said else unknown for name in self.proto.output]


def _sizes(kind: onnx.TypeProto.Tensor) -> list[int | None] | None:
    if not kind.HasField("shape"):
        return None
    return [size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim]


def _whole(kind: onnx.TypeProto.Tensor) -> list[int] | None:
    sizes = _sizes(kind)
    known = [size for size in sizes or () if size is not None]
    return None if sizes is None or len(known) < len(sizes) or not kind.elem_type else known


def _fits(kind: onnx.TypeProto.Tensor, array: Array) -> bool:
    """Return whether a result has the type and shape that shape inference gave."""
    if kind.elem_type not in (0, onnx.helper.np_dtype_to_tensor_dtype(array.dtype)):
        return False
    sizes = _sizes(kind)
    if sizes is None:
        return True
    return len(sizes) == array.ndim and all(
        size in (None, own) for size, own in zip(sizes, array.shape, strict=True)
    )
