"""Merges nodes that compute the same value.

What it is: nodes of the same operator with the same inputs and attributes, in one graph; and weights of equal type,
    shape and values under different names, which hide such nodes. The first one replaces all others.
Why it costs: the same work is repeated in every run. ONNX Runtime merges nodes with identical inputs. If an exporter
    stored a weight several times, ONNX Runtime sees different nodes and keeps all copies in memory.
Evidence: weights are compared in full where type, shape and first values agree, up to 1 GiB in total.
Fix and its safety: exact: all values are equal. Random operators and operators of unknown domains stay.
Example: ``--rewrite duplicate-nodes``
References: ONNX Runtime source, ``core/optimizer/common_subexpression_elimination.cc``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from ortune.graph.attributes import signature, small_contents
from ortune.graph.fingerprints import equal_tensors
from ortune.graph.model.graphs import graphs, subgraphs
from ortune.graph.nodes import scopes_of
from ortune.graph.randomness import is_random
from ortune.printable import amounts
from ortune.records import Workload
from ortune.rewrites._base import CLEAN_UP, Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

_DOMAINS = ("", "ai.onnx", "com.microsoft")
_MOST_READ_BYTES = 1 << 30
_MOST_INPUTS = 256
"""Maximum number of inputs of a node that reads a duplicate, since replacing an input copies the list of inputs."""


def _equal_weights(graph: ir.Graph | ir.Function) -> Iterator[list[ir.Value]]:
    """Yield the groups of equal weights of a graph."""
    weights = [
        (value, value.const_value)
        for value in (graph.initializers.values() if isinstance(graph, ir.Graph) else ())
        if value.const_value is not None and not value.is_graph_input() and not value.is_graph_output()
    ]
    return equal_tensors(weights, most_bytes=_MOST_READ_BYTES)


def _merge_weights(editor: Editor, model: ir.Model) -> int:
    """Merge equal weights and return the number removed."""
    merged = 0
    for graph in graphs(model, functions=False):
        for kept, *others in _equal_weights(graph):
            for value in others:
                editor.replace(value, kept)
            merged += len(others)
    return merged


def _merge_nodes(editor: Editor, model: ir.Model) -> int:
    """Merge equal nodes and return the number removed."""
    merged = 0
    for scope, _ in scopes_of(model):
        first: dict[tuple[object, ...], ir.Node] = {}
        for node in list(scope):
            # An Identity only names a graph output, so nothing is computed twice.
            named = node.op_type == "Identity" and node.outputs[0].is_graph_output()
            if node.domain not in _DOMAINS or any(subgraphs(node)) or named:
                continue
            # Equal Constants are recognized where they are compared; functions may be random inside.
            if node.op_type == "Constant" or is_random(node) or node.op_identifier() in model.functions:
                continue
            if node.graph is not scope:
                continue
            attributes = signature(node, small_contents)
            what = (node.domain, node.op_type, node.overload, len(node.outputs), *node.inputs)
            # Which optional outputs are used may affect the result of an operator.
            used_outputs = tuple(bool(value.name) for value in node.outputs)
            kept = first.setdefault((what, used_outputs, attributes), node)
            if kept is not node and not _read_widely(node):
                for old, new in zip(list(node.outputs), kept.outputs, strict=True):
                    editor.replace(old, new)
                merged += 1
    return merged


def _read_widely(node: ir.Node) -> bool:
    return any(len(use.node.inputs) > _MOST_INPUTS for value in node.outputs for use in value.uses())


def _merge(model: ir.Model) -> tuple[int, int, int]:
    """Merge equal nodes, equal weights, and nodes that became equal through weights; return the three counts."""
    editor = Editor(model)
    direct = _merge_nodes(editor, model)
    weights = _merge_weights(editor, model)
    hidden = _merge_nodes(editor, model) if weights else 0
    return direct, weights, hidden


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    direct, weights, hidden = _merge(model)
    if not (direct or weights):
        why = "no two nodes compute the same value, and no two weights are equal"
        return unchanged(why)
    return RewriteResult(
        modified=True,
        what=f"Merged {amounts((direct + hidden, 'node'), (weights, 'weight'))} with equal ones.",
    )


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    # ONNX Runtime itself merges nodes with the same inputs.
    if not any(next(_equal_weights(graph), None) for graph in graphs(model, functions=False)):
        return []
    _, weights, hidden = _merge(model.clone())
    return [({}, f"{amounts((hidden, 'node'), (weights, 'weight'))} duplicate others")] if hidden else []


REWRITE = Rewrite(
    name="duplicate-nodes",
    summary="merges duplicate nodes and weights",
    safety="exact",
    stage=CLEAN_UP,
    change=_change,
    proposes=_proposes,
)
