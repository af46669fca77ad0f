"""Lets ONNX Runtime's tool for transformers fuse what the session's own optimiser leaves.

What it is: ``onnxruntime.transformers.optimizer`` on the graph with its constants folded: attention, layer
    normalisation with the sum before it, Gelu with the bias before it, each one operator of ``com.microsoft``. The kind
    of model, the number of heads and the hidden size are read from the graph.
Why it costs: as decomposed, each of these is several passes over the tensors. The session's own optimiser knows fewer
    forms, and attention without a mask or with past keys is not among them.
Evidence: Softmax between two MatMul, with Transposes around, in the optimised graph.
Fix and its safety: exact: normalisations, Gelu and their sums are reassociated, and so is attention; a row of a batch
    whose mask leaves nothing is not defined before or after. Two fusions that are no reassociations are left out: the
    one of the embeddings, which takes positions for granted, and the mask as a length, which takes padding to be at
    the end. The weights are folded, so that a file that holds them in 8 bits grows.
Example: ``--rewrite transformers-fusion``
References: ONNX Runtime documentation, "Transformers Model Optimization Tool".
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.attention import Core, cores
from ortune.graph.nodes import is_op
from ortune.model.graphs import nodes, scopes
from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite
from ortune.rewrites._marks import mend
from ortune.rewrites._others import refuses

NAME = "transformers-fusion"
_IMAGE_RANK = 4


def _attentions(model: ir.Model) -> list[Core]:
    return [core for root in scopes(model) for core in cores(root)]


def _refuses(model: ir.Model) -> tuple[str, ...]:
    if not _attentions(model):
        return ("no Softmax stands between two MatMul in the model, so that it is no transformer",)
    return refuses(model, NAME)


def _kind(model: ir.Model) -> str:
    """Chooses the optimizer's model type: vit for image inputs, gpt2 for causal models, else bert."""
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
        return []  # the other kinds cannot find the heads themselves
    fused = any(is_op(node, "LayerNormalization") for node in nodes(model))
    normed = "" if fused else ", and normalisations may be written out"
    return [
        (
            params,
            f"{len(attentions)} attention{'s are' if len(attentions) > 1 else ' is'} written out{normed}",
        )
    ]


REWRITE = Rewrite(
    name=NAME,
    summary="ONNX Runtime's tool for transformers fuses attention, normalisation and Gelu",
    safety="exact",
    stage=6,
    params=(
        Param(
            name="model",
            kind="choice",
            default="bert",
            choices=("bert", "vit", "gpt2"),
            summary="kind of the model, as the tool calls it; read from the graph where none is given",
        ),
        Param(name="heads", kind="int", default="0", summary="heads of an attention; 0: the tool finds them"),
        Param(
            name="hidden",
            kind="int",
            default="0",
            summary="width of all heads together; 0: the tool finds it",
        ),
    ),
    task="transformers",
    needs="onnx",
    refuses=_refuses,
    mends=mend,
    proposes=_proposes,
)
