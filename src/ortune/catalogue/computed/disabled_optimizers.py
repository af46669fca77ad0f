"""The optimizers worth disabling, by the version of ONNX Runtime and the content of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ortune.catalogue.facts import FUSED_ATTENTION, NORMS, ModelFacts
from ortune.catalogue.knob import Computed
from ortune.catalogue.providers import CPU
from ortune.catalogue.versions import parse_version

ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """Optimizers that are disabled together.

    Attributes:
        names: Names of the optimizers; if only one of them were disabled, another would make the change.
        older: (version, names): the names before this version, if they differ.
        since: First version that has the optimizers.
        prior: Probability that disabling them helps, 0 to 1.
        present: Returns whether a model may contain the pattern.
    """

    names: tuple[str, ...]
    older: tuple[str, tuple[str, ...]] | None = None
    since: str = "0"
    prior: float
    present: Callable[[ModelFacts], bool]

    def setting(self, ort_version: str) -> str:
        """Return the setting's value for this version."""
        renamed = self.older is not None and parse_version(ort_version) < parse_version(self.older[0])
        return ";".join(self.older[1] if renamed and self.older else self.names)


OPTIMIZERS: tuple[Optimizer, ...] = (
    Optimizer(
        names=("SkipLayerNormFusion",), prior=0.5, present=lambda m: m.feeds({"Add"}, NORMS | {"ReduceMean"})
    ),
    Optimizer(
        # The simplified pass would match subgraphs that the other two passes leave.
        names=("LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion"),
        older=("1.20", ("LayerNormFusion", "SimplifiedLayerNormFusion")),
        prior=0.2,
        present=lambda m: m.decomposed_layer_norm,
    ),
    Optimizer(
        names=("SimplifiedLayerNormFusion",),
        prior=0.1,
        present=lambda m: m.feeds({"Pow"}, {"ReduceMean"}) and not m.decomposed_layer_norm,
    ),
    Optimizer(
        names=("GeluFusionL1", "GeluFusionL2"),
        older=("1.20", ("GeluFusion",)),
        prior=0.2,
        present=lambda m: m.has("Erf"),
    ),
    Optimizer(
        names=("BiasGeluFusion",),
        prior=0.15,
        present=lambda m: m.feeds({"Add"}, {"Gelu"}) or (m.has("Erf") and m.feeds({"Add"}, {"Div", "Mul"})),
    ),
    Optimizer(
        names=("FastGeluFusion",),
        prior=0.1,
        present=lambda m: m.feeds({"Tanh"}, {"Add"}) and m.feeds({"Mul"}, {"Tanh"}),
    ),
    Optimizer(names=("QuickGeluFusion",), prior=0.2, present=lambda m: m.feeds({"Sigmoid"}, {"Mul"})),
    Optimizer(names=("AttentionFusion",), prior=0.2, present=lambda m: m.attention and m.layer_norm),
    Optimizer(
        names=("GroupQueryAttentionFusion",),
        since="1.22",
        prior=0.1,
        present=lambda m: m.has("GroupQueryAttention"),
    ),
    Optimizer(
        names=("EmbedLayerNormFusion",),
        prior=0.1,
        present=lambda m: m.layer_norm and m.has("Gather") and m.has(*FUSED_ATTENTION),
    ),
    Optimizer(names=("MatMulAddFusion",), prior=0.25, present=lambda m: m.feeds({"MatMul"}, {"Add"})),
    Optimizer(
        names=("MatMulScaleFusion",),
        prior=0.15,
        present=lambda m: m.feeds({"MatMul"}, {"Mul", "Div"}) or m.feeds({"Mul", "Div"}, {"MatMul"}),
    ),
    Optimizer(
        names=("MatmulTransposeFusion",), prior=0.2, present=lambda m: m.feeds({"Transpose"}, {"MatMul"})
    ),
    Optimizer(names=("GemmActivationFusion",), prior=0.1, present=lambda m: m.feeds({"Gemm"}, ACTIVATIONS)),
    Optimizer(
        names=("ConvActivationFusion",),
        prior=0.15,
        # A normalization or a bias in between is folded into the convolution first.
        present=lambda m: m.has("Conv") and m.feeds({"Conv", "BatchNormalization", "Add"}, ACTIVATIONS),
    ),
    Optimizer(names=("ConvAddActivationFusion",), prior=0.15, present=lambda m: m.feeds({"Conv"}, {"Add"})),
    Optimizer(
        # The provider's own pass would move the transposes that the first pass leaves.
        names=("TransposeOptimizer", f"TransposeOptimizer_{CPU.name}"),
        prior=0.15,
        present=lambda m: m.has("Transpose"),
    ),
    Optimizer(names=("GatherSliceToSplitFusion",), prior=0.1, present=lambda m: m.has("Gather", "Slice")),
    Optimizer(names=("QDQSelectorActionTransformer",), prior=0.15, present=lambda m: m.qdq),
    Optimizer(
        names=("DynamicQuantizeMatMulFusion",),
        prior=0.15,
        present=lambda m: m.feeds({"DynamicQuantizeLinear"}, {"MatMulInteger"}),
    ),
    Optimizer(
        names=("MatMulIntegerToFloatFusion",),
        prior=0.1,
        present=lambda m: m.feeds({"MatMulInteger"}, {"Cast"}),
    ),
    Optimizer(names=("MatMulNBitsFusion",), since="1.19", prior=0.1, present=lambda m: m.has("MatMulNBits")),
    Optimizer(
        names=("ConstantFolding",),
        prior=0.05,
        present=lambda m: m.has("ConstantOfShape", "Expand", "Tile", "Range", "DequantizeLinear"),
    ),
)
"""Optimizers worth disabling one at a time, in the order of a model's parts.

The names are those that the log prints at level INFO ("GraphTransformer NAME modified: 1"). Optimizers of the layout
level (NchwcTransformer, NhwcTransformer) are not listed, since the level ``extended`` disables them."""


def _worth(model: ModelFacts, ort_version: str) -> dict[str, float]:
    """Return the optimizers that this version has and that may affect this model, each with its prior."""
    available = [o for o in OPTIMIZERS if parse_version(ort_version) >= parse_version(o.since)]
    return {o.setting(ort_version): o.prior for o in available if o.present(model)}


COMPUTED: Computed = {"worth": _worth}
