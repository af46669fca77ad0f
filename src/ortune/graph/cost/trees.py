"""Costs of classical models: tree ensembles, linear models, support vector machines.

A tree costs one comparison per split on the way to a leaf. The path depends on the values, so the expected length is
counted, with both sides of every split equally likely.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ortune.graph.attributes import length_of, optional_int, text_of, texts_of
from ortune.graph.cost.activations import PER_ELEMENT
from ortune.graph.cost.call import Call, Count, Formula, Uncounted, no_work, work

_MOST_LEVELS = 4096
_POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

Ints = NDArray[np.int64]


def expected_splits(roots: Ints, yes: Ints, no: Ints) -> float:
    """Return the expected number of splits that a row visits, summed over all trees.

    Args:
        roots: Index of each tree's first split; -1 for a tree that is only a leaf.
        yes: Index of the next split if a split's condition is true; -1 for a leaf.
        no: Index of the next split if a split's condition is false; -1 for a leaf.

    Raises:
        Uncounted: If the trees are deeper than ``_MOST_LEVELS``, as with a cycle.
    """
    total, share = 0.0, 1.0
    level = roots[roots >= 0]
    weights: NDArray[np.float64] = np.ones(len(level))
    for _ in range(_MOST_LEVELS):
        if not len(level):
            return total
        total += share * float(weights.sum())
        # Both sides of a split are equally likely, so each level halves the probability.
        share /= 2
        following = np.concatenate([yes[level], no[level]])
        twice = np.concatenate([weights, weights])[following >= 0]
        # Splits reached on several paths are visited once, so the frontier never outgrows the model.
        level, back = np.unique(following[following >= 0], return_inverse=True)
        weights = np.bincount(back, twice, len(level)).astype(np.float64)
    raise Uncounted(f"the trees do not end within {_MOST_LEVELS} levels")


def _numbers(call: Call, name: str) -> Ints:
    values = call.ints(name)
    if values is None:
        raise Uncounted(f"the attribute {name} is missing")
    return np.asarray(values, np.int64)


def _post(call: Call, scores: int) -> int:
    # TreeEnsemble uses numbers for the names of the older operators.
    number = optional_int(call.node, "post_transform")
    transform = text_of(call.node, "post_transform", "") if number is None else _POST[number % len(_POST)]
    per_score = {"LOGISTIC": PER_ELEMENT["Sigmoid"], "SOFTMAX": 5, "SOFTMAX_ZERO": 5, "PROBIT": 1}
    return per_score.get(transform, 0) * scores


def tree_ensemble_lists(call: Call) -> Count:
    """Count TreeEnsembleClassifier and TreeEnsembleRegressor, which store nodes and leaves in parallel lists."""
    prefix = "class" if call.node.op_type.endswith("Classifier") else "target"
    tree, node = _numbers(call, "nodes_treeids"), _numbers(call, "nodes_nodeids")
    yes, no = _numbers(call, "nodes_truenodeids"), _numbers(call, "nodes_falsenodeids")
    leaf = np.asarray([mode == "LEAF" for mode in texts_of(call.node, "nodes_modes") or ()], bool)
    if not len(tree) or not len(node) == len(leaf) == len(yes) == len(no) == len(tree):
        raise Uncounted("the lists that make up the trees are empty or differ in length")
    successors = _successors(tree, node, leaf, (yes, no))
    _, first = np.unique(tree, return_index=True)
    splits = expected_splits(np.where(leaf[first], -1, first), *successors)
    weights = len(call.ints(f"{prefix}_ids") or [])
    return _ensemble(call, splits, len(first), weights / max(1, int(leaf.sum())))


def _successors(
    tree: Ints, node: Ints, leaf: NDArray[np.bool_], ways: tuple[Ints, Ints]
) -> tuple[Ints, Ints]:
    """Return the index of each node's successor on both sides; -1 if the successor or the node itself is a leaf."""
    # Each (tree, id) pair becomes one number; ids are made dense first to avoid overflow.
    ids = np.unique(np.concatenate([node, *ways]), return_inverse=True)[1].astype(np.int64)
    trees = np.unique(tree, return_inverse=True)[1].astype(np.int64) * (ids.max() + 1)
    keys, *wanted = (trees + part for part in np.split(ids, 3))
    order = np.argsort(keys, kind="stable")
    successors: list[Ints] = []
    for key in wanted:
        at = order[np.minimum(np.searchsorted(keys[order], key), len(order) - 1)]
        if not (leaf | (keys[at] == key)).all():
            raise Uncounted("a split of a tree leads to a missing node")
        successors.append(np.where(leaf | leaf[at], -1, at))
    return successors[0], successors[1]


def tree_ensemble(call: Call) -> Count:
    """Count TreeEnsemble (ai.onnx.ml 5), which stores splits in parallel lists and leaves separately."""
    roots = _numbers(call, "tree_roots")
    ways = [_way(call, side) for side in ("true", "false")]
    n = len(ways[0])
    if len(ways[1]) != n or (len(roots) and not 0 <= roots.min() <= roots.max() < n):
        raise Uncounted("the lists that make up the trees differ in length or refer to missing nodes")
    splits = expected_splits(roots, *ways)
    # Each leaf adds to one target.
    return _ensemble(call, splits, len(roots), 1.0)


def _way(call: Call, side: str) -> Ints:
    ids, at_leaf = _numbers(call, f"nodes_{side}nodeids"), _numbers(call, f"nodes_{side}leafs")
    if len(ids) != len(at_leaf):
        raise Uncounted("the lists that make up the trees differ in length")
    way = np.where(at_leaf != 0, -1, ids)
    if len(way) and not (way.min() >= -1 and way.max() < len(way)):
        raise Uncounted("a split of a tree leads to a missing node")
    return way


def _ensemble(call: Call, splits: float, n_trees: int, weights_per_leaf: float) -> Count:
    shape = call.shape(0)
    rows = shape[0] if len(shape) > 1 else 1
    scores = max(1, call.int("n_targets"), _labels(call))
    flops = rows * (splits + n_trees * weights_per_leaf + _post(call, scores))
    return Count(
        flops=round(flops),
        note="its operation count is an estimate: each split is assumed to send half of the rows each way",
    )


def _labels(call: Call) -> int:
    """Return the number of class labels."""
    names = ("classlabels_int64s", "classlabels_ints", "classlabels_strings")
    return max(length_of(call.node, name) for name in names)


def linear(call: Call) -> Count:
    """Count LinearClassifier and LinearRegressor: a matrix product with the coefficients, and the intercepts."""
    coefficients = length_of(call.node, "coefficients")
    shape = call.shape(0)
    rows = shape[0] if len(shape) > 1 else 1
    scores = coefficients // max(1, shape[-1] if shape else 1)
    macs = rows * coefficients
    extra = bool(length_of(call.node, "intercepts")) * scores + _post(call, scores)
    return Count(flops=2 * macs + rows * extra, macs=macs)


def support_vectors(call: Call) -> Count:
    """Count SVMClassifier and SVMRegressor: a kernel of the row with every support vector, then weighted sums."""
    shape = call.shape(0)
    rows, features = (shape[0] if len(shape) > 1 else 1), shape[-1] if shape else 1
    n_values = length_of(call.node, "support_vectors")
    if not n_values:
        raise Uncounted("no formula for a linear SVM without support vectors")
    vectors = n_values // max(1, features)
    # RBF: subtract, square and add per feature, then exp; other kernels: multiply and add.
    per_feature = 3 if call.text("kernel_type", "LINEAR") == "RBF" else 2
    flops = rows * (vectors * (per_feature * features + 1) + 2 * length_of(call.node, "coefficients"))
    return Count(flops=flops)


FORMULAS: dict[str, dict[str, Formula]] = {
    "ai.onnx.ml": {
        "TreeEnsemble": tree_ensemble,
        "TreeEnsembleClassifier": tree_ensemble_lists,
        "TreeEnsembleRegressor": tree_ensemble_lists,
        "LinearClassifier": linear,
        "LinearRegressor": linear,
        "SVMClassifier": support_vectors,
        "SVMRegressor": support_vectors,
        "Scaler": work(lambda call: 2 * call.n_in()),
        "Normalizer": work(lambda call: 3 * call.n_in()),  # power, sum, divide
        "Imputer": work(lambda call: call.n_in()),
        "Binarizer": work(lambda call: call.n_in()),
        **dict.fromkeys(
            ("ArrayFeatureExtractor", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer",
             "LabelEncoder", "OneHotEncoder", "ZipMap"),
            no_work,
        ),
    }
}  # fmt: skip
