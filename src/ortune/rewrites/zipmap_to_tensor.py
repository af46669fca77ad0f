"""Replaces a ZipMap output by the tensor that it is made from.

What it is: an output that ZipMap creates: a list with one dictionary per row, from class to probability. It becomes a
    tensor with one row per input row and one column per class, in the order of ZipMap's labels.
Why it costs: every dictionary is created twice, by ONNX Runtime and again as a Python object. For many rows or classes
    this takes longer than the model itself.
Evidence: the ZipMap node; in a profile the time of ZipMap, and time outside the run.
Fix and its safety: behaviour: programs that read the output by class must read it by column. The numbers are unchanged.
Example: ``--rewrite zipmap-to-tensor``
References: sklearn-onnx documentation, "Choose appropriate output of a classifier" (option zipmap).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.graph.attributes import ints_of, texts_of
from ortune.graph.model.graphs import name_of
from ortune.graph.shapes.known import known_values
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged


def zip_maps(model: ir.Model) -> list[ir.Node]:
    """Return the ZipMap nodes whose result is a graph output that no other node reads."""
    return [
        node
        for node in model.graph
        if node.op_type == "ZipMap" and node.outputs[0].is_graph_output() and not node.outputs[0].uses()
    ]


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    nodes = zip_maps(model)
    if not nodes:
        return unchanged("no output is made by ZipMap")
    values = known_values(model)
    for node in nodes:
        output = node.outputs[0]
        plain = ir.Node("", "Identity", [node.inputs[0]], name=node.name)
        plain.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
        labels = ints_of(node, "classlabels_int64s") or texts_of(node, "classlabels_strings") or ()
        plain.outputs[0].shape = ir.Shape(values.sizes(node.inputs[0]) or (None, len(labels) or None))
        model.graph.insert_before(node, plain)
        model.graph.outputs[model.graph.outputs.index(output)] = plain.outputs[0]
        plain.outputs[0].name = output.name
        model.graph.remove(node, safe=True)
    several = "s" if len(nodes) > 1 else ""
    return RewriteResult(modified=True, what=f"Replaced {len(nodes)} ZipMap output{several} by a tensor.")


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    nodes = zip_maps(model)
    return [({}, f"ZipMap {name_of(nodes[0])} makes one dictionary per row")] if nodes else []


REWRITE = Rewrite(
    name="zipmap-to-tensor",
    summary="returns class probabilities as a tensor instead of a list of dictionaries (ZipMap)",
    safety="behaviour",
    stage=-1,
    change=_change,
    proposes=_proposes,
)
