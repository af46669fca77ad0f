"""Which values of a setting are worth trying on a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ortune.knobs.facts import ModelFacts
from ortune.knobs.optimizers import worth_leaving_out
from ortune.records import Knob

WIDE = 1.15
"""Heavy operators over their longest chain from which parallel mode is worth a trial."""

_LAYOUT = (
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "FusedConv",
    "QLinearConv", "ConvInteger", "QLinearAveragePool", "QLinearGlobalAveragePool",
)  # fmt: skip
_PACKED = (
    "MatMul",
    "Gemm",
    "Conv",
    "LSTM",
    "GRU",
    "MatMulInteger",
    "QLinearMatMul",
    "QLinearConv",
    "MatMulNBits",
)


def values_for(knob: Knob, facts: ModelFacts, ort_version: str) -> tuple[str, ...]:
    """The values of a setting to try on this model, as text; placeholders for CPUs are not filled in.

    A setting that says ``per_model`` has no values where the model lacks what it acts on.
    """
    if not knob.per_model:
        return knob.tries
    if knob.name == "disabled_optimizers":
        return tuple(worth_leaving_out(facts, ort_version))
    if knob.name == "graph_optimization_level":
        return _levels(facts)
    condition, values = _CONDITIONS.get(knob.name, (_never, ()))
    return values if condition(facts) else ()


def _levels(facts: ModelFacts) -> tuple[str, ...]:
    """Lower levels that can differ from the default: only layouts lie above ``extended``, only float16 above those."""
    levels = ["basic"] if facts.n_nodes > 1 else []
    if facts.float16 or facts.has(*_LAYOUT):
        levels.append("extended")
    if facts.float16:
        levels.append("layout")
    return tuple(levels)


def _never(facts: ModelFacts) -> bool:
    return False


def _wide(facts: ModelFacts) -> bool:
    return facts.branches > 1 and facts.parallelism_ratio >= WIDE


def _quantized(facts: ModelFacts) -> bool:
    return facts.qdq


_CONDITIONS: Mapping[str, tuple[Callable[[ModelFacts], bool], tuple[str, ...]]] = {
    "execution_mode": (_wide, ("parallel",)),
    "inter_op_num_threads": (_wide, ("{cpus/2}",)),
    "inter_op_allow_spinning": (_wide, ("0",)),
    "execution_order": (lambda m: m.branches > 1, ("priority_based",)),
    "gelu_approximation": (lambda m: m.gelu, ("1",)),
    "disable_prepacking": (lambda m: m.has(*_PACKED), ("1",)),
    "parallel_prepacking": (lambda m: m.has(*_PACKED), ("1",)),
    "disable_quant_qdq": (_quantized, ("1",)),
    "quant_qdq_cleanup": (_quantized, ("1",)),
    "qdq_int8_allowed": (_quantized, ("1",)),
    "qdq_matmulnbits_accuracy_level": (lambda m: m.blockwise_weights, ("1",)),
    "qdq_matmulnbits_block_size": (lambda m: m.blockwise_weights, ("64", "128")),
    "dq_matmulnbits_fusion": (lambda m: m.blockwise_weights, ("1",)),
    "lut_gemm": (lambda m: 2 in m.weight_bits, ("1",)),
    "disable_flash_attention": (lambda m: m.has("MultiHeadAttention"), ("1",)),
    "cast_chain_elimination": (lambda m: m.feeds({"Cast"}, {"Cast"}), ("1",)),
    "constant_folding_max_bytes": (
        lambda m: m.has("ConstantOfShape", "Expand", "Tile", "Range"),
        ("1048576",),
    ),
}
"""When a setting has anything to act on, and the values to try then."""
