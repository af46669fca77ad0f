"""Runs ONNX Runtime's transformer optimiser, which fuses more than the session does.

What it is: ``onnxruntime.transformers.optimizer`` on the graph with its constants folded: attention, LayerNormalization
    with the Add before it, and Gelu with the bias before it each become one operator of ``com.microsoft``. Model type,
    number of heads and hidden size are read from the graph.
Why it costs: unfused, each of these is several passes over the tensors. The session's own optimiser matches fewer
    forms, and does not fuse attention without a mask or with past keys.
Evidence: Softmax between two MatMul nodes, with Transposes around them, in the optimised graph.
Fix and its safety: exact: only the sums in normalisations, Gelu and attention are reassociated. A row whose mask
    excludes everything is undefined before and after. Two fusions that are not exact are disabled: the fusion of
    embeddings, which assumes consecutive positions, and masks as sequence lengths, which assume padding at the end.
    Dequantized weights are folded, so a file with 8-bit weights grows.
Example: ``--rewrite transformers-fusion``
References: ONNX Runtime documentation, "Transformers Model Optimization Tool".
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.attention import Core, cores
from ortune.graph.model.graphs import nodes, scopes
from ortune.graph.nodes import is_op
from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite
from ortune.rewrites._marks import repair_saved
from ortune.rewrites._others import refuses

NAME = "transformers-fusion"
_IMAGE_RANK = 4


def _attentions(model: ir.Model) -> list[Core]:
    return [core for root in scopes(model) for core in cores(root)]


def _refuses(model: ir.Model) -> tuple[str, ...]:
    if not _attentions(model):
        return ("the model has no Softmax between two MatMul nodes, so it is not a transformer",)
    return refuses(model, NAME)


def _kind(model: ir.Model) -> str:
    """Choose the optimizer's model type: "vit" for image inputs, "gpt2" for causal models, else "bert"."""
    if any(value.shape is not None and len(value.shape) == _IMAGE_RANK for value in model.graph.inputs):
        return "vit"
    operators = {node.op_type for node in nodes(model)}
    causal = "Trilu" in operators or any("past" in (value.name or "") for value in model.graph.inputs)
    return "gpt2" if causal else "bert"


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if _refuses(model):
        return []
    attentions = _attentions(model)
    heads = next((core.values for core in attentions if core.values is not None), None)
    params = {"model": _kind(model)}
    if heads is not None:
        params |= {"heads": str(heads.count), "hidden": str(heads.count * heads.size)}
    elif params["model"] != "bert":
        return []  # the other model types need the number of heads
    fused = any(is_op(node, "LayerNormalization") for node in nodes(model))
    normed = "" if fused else ", and normalisations might not be fused"
    return [
        (
            params,
            f"{len(attentions)} attention pattern{'s are' if len(attentions) > 1 else ' is'} not fused{normed}",
        )
    ]


REWRITE = Rewrite(
    name=NAME,
    summary="runs ONNX Runtime's transformer optimiser (attention, normalisation, Gelu)",
    safety="exact",
    stage=6,
    params=(
        Param(
            name="model",
            kind="choice",
            default="bert",
            choices=("bert", "vit", "gpt2"),
            summary="model type of the optimiser (`tune` reads it from the graph)",
        ),
        Param(name="heads", kind="int", default="0", summary="number of attention heads (0: detected)"),
        Param(
            name="hidden",
            kind="int",
            default="0",
            summary="hidden size (0: detected)",
        ),
    ),
    task="transformers",
    needs="onnx",
    refuses=_refuses,
    mends=repair_saved,
    proposes=_proposes,
)
