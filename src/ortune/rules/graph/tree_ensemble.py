"""A tree ensemble may be scored one row per run.

What it is: TreeEnsembleRegressor, TreeEnsembleClassifier or TreeEnsemble, in a model that accepts any number of rows.
Why it costs: scoring one row takes microseconds, and the call overhead is as large. Rows in one batch share this
    overhead, and ONNX Runtime scores large batches on all threads. A large ensemble also loads slowly.
Evidence: the trees and nodes, counted in the operator; the number of rows per run, where it is known.
Fix and its safety: advice: batch rows, a hundred or more per run; or train fewer or shallower trees.
Example: ``ortune bench model.onnx --shape X:1x4``, then the same with ``--shape X:128x4``
References: microsoft/onnxruntime#886, #827, #13835, #23338.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import ints_of, length_of
from ortune.graph.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import counted, name_of, plural
from ortune.rules.facts import Facts

CODE = "GRA019"
TIER = "preview"

_ENOUGH = 16  # rows per call that are enough
_TREES = {
    "TreeEnsembleRegressor": "nodes_treeids",
    "TreeEnsembleClassifier": "nodes_treeids",
    "TreeEnsemble": "tree_roots",
}
_NODES = ("nodes_treeids", "nodes_modes")
_ML = "ai.onnx.ml"
_HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'

BAD = f"""
{_HEAD}
stump (float[n,2] x) => (float[n,1] y)
{{
    [bad_trees] y = ai.onnx.ml.TreeEnsembleRegressor <
        n_targets = 1, nodes_treeids = [0,0,0], nodes_nodeids = [0,1,2], nodes_featureids = [0,0,0],
        nodes_modes = ["BRANCH_LEQ","LEAF","LEAF"], nodes_values = [0.5,0.0,0.0], nodes_truenodeids = [1,0,0],
        nodes_falsenodeids = [2,0,0], target_treeids = [0,0], target_nodeids = [1,2], target_ids = [0,0],
        target_weights = [1.0,2.0]> (x)
}}
"""
GOOD = f"""
{_HEAD}
line (float[n,2] x) => (float[n,1] y)
{{
    y = ai.onnx.ml.LinearRegressor <coefficients = [1.0,2.0], targets = 1> (x)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on tree ensembles, unless each call has many rows."""
    if facts.model is None or _rows(facts) >= _ENOUGH:
        return
    models = [node for node in nodes(facts.model.ir) if node.op_type in _TREES and node.domain == _ML]
    if models:
        trees = sum(_trees(node) for node in models)
        size = sum(max(length_of(node, name) for name in _NODES) for node in models)
        yield Finding(
            code=CODE,
            severity="note",
            what=f"each row evaluates {trees:,} {plural(trees, 'tree')} with {size:,} nodes: {counted(models)}",
            where=tuple(map(name_of, models)),
            fix="batch many rows per run",
        )


def _rows(facts: Facts) -> int:
    """Return the number of rows per call; 0 if unknown."""
    choices = facts.work.cases[0].inputs if facts.work is not None and facts.work.cases else ()
    return max((choice.shape[0] for choice in choices if choice.shape), default=0)


def _trees(node: ir.Node) -> int:
    """Return the number of trees in an ensemble; older operators list the tree of each tree node."""
    name = _TREES[node.op_type]
    listed = ints_of(node, name)
    return length_of(node, name) if listed is None else len(set(listed))
