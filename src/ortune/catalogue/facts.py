"""Facts about a model that decide which settings are worth trying."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import onnx_ir as ir

FUSED_ATTENTION = frozenset({"Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention"})
"""Operators that compute attention as a whole."""

HEAVY = FUSED_ATTENTION | {
    "Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "FusedConv", "LSTM", "GRU", "RNN", "Einsum",
    "MatMul", "Gemm", "FusedMatMul", "MatMulInteger", "QLinearMatMul", "MatMulNBits",
}  # fmt: skip
"""Operators that are worth running in parallel."""

WIDE = 1.15
"""Minimum ratio of heavy operators to their longest chain for which parallel mode is worth trying."""

_CONTROL_FLOW = ("If", "Loop", "Scan")
_PACKED = (
    "MatMul", "Gemm", "Conv", "LSTM", "GRU", "MatMulInteger", "QLinearMatMul", "QLinearConv", "MatMulNBits",
)  # fmt: skip
"""Operators with kernels that repack their weights."""

NORMS = frozenset({
    "LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
})  # fmt: skip
_FOUR_BITS_OR_LESS = frozenset(("INT4", "UINT4", "INT2", "UINT2"))

Fact = Literal[
    "blockwise_weights", "branched", "cast_chain", "control_flow", "conv1d", "external_data", "gelu", "layer_norm",
    "packed_weights", "qdq", "two_bit_weights", "wide",
]  # fmt: skip
"""Names of the model facts that a row of the catalogue can require."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts that ``facts_of`` found in all graphs of a model, including subgraphs and model-local functions.

    Attributes:
        operators: Number of nodes by operator type, without domains.
        edges: (producer, consumer) operator types of every value between two nodes.
        n_nodes: Number of nodes.
        qdq: Whether there is a QuantizeLinear or DequantizeLinear.
        blockwise_weights: Whether weights are dequantized by block or from 4 bits or fewer, so they can become
            MatMulNBits.
        weight_bits: Bits of the weights of MatMulNBits nodes, ascending.
        attention: Whether there is attention, fused or as two MatMul nodes around a Softmax.
        layer_norm: Whether there is layer normalization, as an operator or decomposed.
        decomposed_layer_norm: Whether there is decomposed layer normalization.
        gelu: Whether there is Gelu, as an operator or decomposed with Erf.
        float16: Whether there is a float16 input, weight or Cast.
        conv1d: Whether there is a convolution over one axis.
        external_data: Whether weights are stored as external data.
        branches: Maximum number of heavy operators of the main graph that may run in parallel; 1 for a chain, 0 if
            there are none.
        parallelism_ratio: Ratio of heavy operators to their longest chain; 1 for a chain.
    """

    operators: dict[str, int]
    edges: frozenset[tuple[str, str]] = frozenset()
    n_nodes: int
    qdq: bool = False
    blockwise_weights: bool = False
    weight_bits: tuple[int, ...] = ()
    attention: bool = False
    layer_norm: bool = False
    decomposed_layer_norm: bool = False
    gelu: bool = False
    float16: bool = False
    conv1d: bool = False
    external_data: bool = False
    branches: int = 0
    parallelism_ratio: float = 1.0

    @property
    def branched(self) -> bool:
        """Whether heavy operators of the main graph may run in parallel."""
        return self.branches > 1

    @property
    def wide(self) -> bool:
        """Whether enough heavy operators may run in parallel for parallel mode to be worth trying."""
        return self.branched and self.parallelism_ratio >= WIDE

    @property
    def cast_chain(self) -> bool:
        """Whether a Cast follows a Cast."""
        return self.feeds({"Cast"}, {"Cast"})

    @property
    def control_flow(self) -> bool:
        """Whether nodes have subgraphs, for which execution returns to the host in the middle of a run."""
        return self.has(*_CONTROL_FLOW)

    @property
    def packed_weights(self) -> bool:
        """Whether kernels repack their weights."""
        return self.has(*_PACKED)

    @property
    def two_bit_weights(self) -> bool:
        """Whether MatMulNBits nodes have weights of 2 bits."""
        return 2 in self.weight_bits

    def has(self, *names: str) -> bool:
        """Return whether the model has one of these operators."""
        return any(name in self.operators for name in names)

    def feeds(self, producers: Collection[str], consumers: Collection[str]) -> bool:
        """Return whether a node of a type in ``consumers`` reads an output of a node of a type in ``producers``."""
        return any(a in producers and b in consumers for a, b in self.edges)


def facts_of(model: ir.Model) -> ModelFacts:
    """Collect the facts of a model, without reading weights."""
    import onnx_ir as ir

    from ortune.graph.attention import between_products
    from ortune.graph.attributes import int_of
    from ortune.graph.ort_fusions import gelu_ending, layer_normalization_ending

    nodes = list(_nodes(model))
    operators = Counter(node.op_type for node in nodes)
    has = operators.__contains__
    opset = model.opset_imports.get("", 0)
    decomposed = any(layer_normalization_ending(node, opset) for node in nodes)
    written_out = any(between_products(node) is not None for node in nodes if node.op_type == "Softmax")
    width, ratio = _width(model.graph)
    return ModelFacts(
        operators=dict(sorted(operators.items())),
        edges=frozenset(_edges(nodes)),
        n_nodes=len(nodes),
        qdq=has("QuantizeLinear") or has("DequantizeLinear"),
        blockwise_weights=any(_is_blockwise(node) for node in nodes),
        weight_bits=tuple(
            sorted({int_of(node, "bits", 4) for node in nodes if node.op_type == "MatMulNBits"})
        ),
        attention=bool(FUSED_ATTENTION & set(operators)) or written_out,
        layer_norm=bool(NORMS & set(operators)) or decomposed,
        decomposed_layer_norm=decomposed,
        gelu=has("Gelu") or has("BiasGelu") or any(map(gelu_ending, nodes)),
        float16=_has_float16(model, nodes),
        conv1d=any(node.op_type in ("Conv", "ConvTranspose") and _weight_rank(node) == 3 for node in nodes),
        external_data=any(
            isinstance(value.const_value, ir.ExternalTensor) for value in model.graph.initializers.values()
        ),
        branches=width,
        parallelism_ratio=ratio,
    )


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    import onnx_ir as ir

    yield from ir.traversal.RecursiveGraphIterator(model.graph)
    for function in model.functions.values():
        yield from ir.traversal.RecursiveGraphIterator(function.graph)


def _edges(nodes: Iterable[ir.Node]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        for producer in _producers(node):
            yield producer.op_type, node.op_type


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    for value in node.inputs:
        producer = value.producer() if value is not None else None
        if producer is not None:
            yield producer


def _is_blockwise(node: ir.Node) -> bool:
    from ortune.graph.attributes import int_of

    if node.op_type != "DequantizeLinear":
        return False
    source = node.inputs[0]
    few_bits = source is not None and source.dtype is not None and source.dtype.name in _FOUR_BITS_OR_LESS
    return few_bits or int_of(node, "block_size", 0) > 0


def _weight_rank(node: ir.Node) -> int | None:
    """Return the rank of a node's second input; None if unknown."""
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    return len(weight.shape) if weight is not None and weight.shape is not None else None


def _has_float16(model: ir.Model, nodes: Iterable[ir.Node]) -> bool:
    import onnx_ir as ir

    from ortune.graph.attributes import cast_to

    half = ir.DataType.FLOAT16
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    return any(value.dtype == half for value in values) or any(cast_to(node) == half.value for node in nodes)


def _width(graph: ir.Graph) -> tuple[int, float]:
    """Return the maximum number of heavy operators at one depth, and the ratio of all to the longest chain of them."""
    depth: dict[ir.Node, int] = {}
    at: Counter[int] = Counter()
    for node in graph:
        # Nodes are in topological order. The depth of a node is the number of heavy operators on the longest
        # path to it, including itself: six of them at three depths give a ratio of 2.
        before = max((depth.get(producer, 0) for producer in _producers(node)), default=0)
        depth[node] = before + (node.op_type in HEAVY)
        if node.op_type in HEAVY:
            at[depth[node]] += 1
    return max(at.values(), default=0), at.total() / len(at) if at else 1.0
