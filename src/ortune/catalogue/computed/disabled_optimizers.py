"""The optimisers that are worth disabling, by the version of ONNX Runtime and what a model holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ortune.catalogue.facts import FUSED_ATTENTION, NORMS, ModelFacts
from ortune.catalogue.knob import Computed
from ortune.catalogue.providers import CPU
from ortune.catalogue.versions import version

ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """Optimisers that belong together.

    Attributes:
        names: Left out together: one alone would leave the change to the other.
        older: (version, names) before which other names were used.
        since: First version that has them.
        prior: How likely it is that leaving them out pays, 0 to 1.
        present: Whether the model can hold the pattern.
    """

    names: tuple[str, ...]
    older: tuple[str, tuple[str, ...]] | None = None
    since: str = "0"
    prior: float
    present: Callable[[ModelFacts], bool]

    def setting(self, ort_version: str) -> str:
        """Return the setting's value for this version."""
        renamed = self.older is not None and version(ort_version) < version(self.older[0])
        return ";".join(self.older[1] if renamed and self.older else self.names)


OPTIMIZERS: tuple[Optimizer, ...] = (
    Optimizer(
        names=("SkipLayerNormFusion",), prior=0.5, present=lambda m: m.feeds({"Add"}, NORMS | {"ReduceMean"})
    ),
    Optimizer(
        # The simplified form would take what the other two leave.
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
        # A normalisation or a bias between the two is folded into the convolution first.
        present=lambda m: m.has("Conv") and m.feeds({"Conv", "BatchNormalization", "Add"}, ACTIVATIONS),
    ),
    Optimizer(names=("ConvAddActivationFusion",), prior=0.15, present=lambda m: m.feeds({"Conv"}, {"Add"})),
    Optimizer(
        # The provider's own pass would move the transposes that the first one leaves.
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
"""Those worth leaving out one at a time, in the order of the model's parts.

The names are those that the log prints at level INFO ("GraphTransformer NAME modified: 1"). Optimisers of the layout
level (NchwcTransformer, NhwcTransformer) are not here: the level ``extended`` leaves them out.
"""


def _worth(model: ModelFacts, ort_version: str) -> dict[str, float]:
    """Return what this version knows and this model may feel."""
    available = [o for o in OPTIMIZERS if version(ort_version) >= version(o.since)]
    return {o.setting(ort_version): o.prior for o in available if o.present(model)}


COMPUTED: Computed = {"worth": _worth}
