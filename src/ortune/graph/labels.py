"""Tracing labels to the scores that decided them: the label of each output element, and the value per class.

A label is the index of the best score (ArgMax, TopK with k=1) or the class of a classifier. Nodes between the label and
an output may move labels, compute with them, or look up values by label. Any other node ends the trace; the output is
compared element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.graph.attributes import int_of, ints_of, texts_of
from ortune.graph.constants import constant
from ortune.graph.kinds import MOVES
from ortune.graph.model.graphs import op_set

__all__ = ["CLASSIFIERS", "LabelSource", "TracedLabels", "label_source", "traced"]

Array = NDArray[Any]

CLASSIFIERS = op_set("TreeEnsembleClassifier LinearClassifier SVMClassifier")
_SAME = op_set("Identity Cast CastLike Dropout")
_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Mod": np.mod,
}
_LOOKED_UP = op_set("Gather ArrayFeatureExtractor")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSource:
    """The scores that decide the labels of an output.

    Attributes:
        scores: The value with the scores.
        axis: The axis of the classes.
        keeps_axis: Whether the labels keep that axis, with length 1.
        smallest: Whether the smallest score decides.
        classes: The label of each class; empty if labels are class indices.
        path: The nodes between the labels and the output.
    """

    scores: ir.Value
    axis: int
    keeps_axis: bool = False
    smallest: bool = False
    classes: tuple[int, ...] | tuple[str, ...] = ()
    path: tuple[ir.Node, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedLabels:
    """The labels from which the elements of an output are derived.

    Attributes:
        label: Index of the label for each output element, counted in the order of the scores.
        place: Column in ``values`` for each output element; 0 for a label itself.
        values: Values that each class maps to, of shape (classes, columns).
        shaped: Whether the arrays have their shape in the model; otherwise only the order of elements is known.
    """

    label: Array
    place: Array
    values: Array
    shaped: bool = True


def label_source(node: ir.Node, output: int) -> LabelSource | None:
    """Return the scores that decide a node's output, or None if that output has no labels."""
    source = node.inputs[0] if node.inputs else None
    if node.op_type in ("ArgMax", "ArgMin") and source is not None:
        axis = int_of(node, "axis", 0)
        keeps = bool(int_of(node, "keepdims", 1))
        return LabelSource(scores=source, axis=axis, keeps_axis=keeps, smallest=node.op_type == "ArgMin")
    if node.op_type == "TopK" and output == 1 and takes_one(node) and source is not None:
        axis, smallest = int_of(node, "axis", -1), not int_of(node, "largest", 1)
        return LabelSource(scores=source, axis=axis, keeps_axis=True, smallest=smallest)
    if node.op_type in CLASSIFIERS and output == 0 and len(node.outputs) > 1:
        numbers = ints_of(node, "classlabels_ints") or ints_of(node, "classlabels_int64s")
        texts = texts_of(node, "classlabels_strings")
        return LabelSource(
            scores=node.outputs[1], axis=-1, classes=tuple(numbers or ()) or tuple(texts or ())
        )
    return None


def takes_one(node: ir.Node) -> bool:
    """Return whether a TopK selects only one element."""
    count = constant(node.inputs[1], most=1) if len(node.inputs) > 1 else np.array(int_of(node, "k", 0))
    return count is not None and count.size == 1 and int(count.reshape(())) == 1


def follows(node: ir.Node, at: int) -> bool:
    """Return whether labels can be followed through a node that reads them as input ``at``."""
    if node.op_type in _SAME | MOVES or node.op_type in _ARITHMETIC:
        return at == 0 or node.op_type in ("Add", "Mul")
    # Labels index a table; positions in a list of labels are followed if they are constant.
    return node.op_type in _LOOKED_UP


def traced(source: LabelSource, scores: tuple[int, ...], output: tuple[int, ...]) -> TracedLabels | None:
    """Follow labels from their scores to an output.

    Args:
        source: The scores, and the nodes between the labels and the output.
        scores: Shape of the scores.
        output: Shape of the output.

    Returns:
        The label of each output element; None if a node cannot be followed or the shapes disagree.
    """
    if not -len(scores) <= source.axis < len(scores):
        return None
    axis = source.axis % len(scores)
    classes = np.array(source.classes) if source.classes else np.arange(scores[axis])
    if len(classes) != scores[axis]:
        return None
    shape = scores[:axis] + ((1,) if source.keeps_axis else ()) + scores[axis + 1 :]
    label = np.arange(math.prod(shape)).reshape(shape)
    state: TracedLabels | None = TracedLabels(
        label=label, place=np.zeros_like(label), values=classes[:, None]
    )
    for node in source.path:
        try:
            state = state and _through(node, state)
        except (ValueError, IndexError):
            return None  # the labels have another shape here than the scores imply
    if state is None or state.label.size != math.prod(output):
        return None
    return replace(state, label=state.label.reshape(output), place=state.place.reshape(output))


def _through(node: ir.Node, state: TracedLabels) -> TracedLabels | None:
    """Return the labels after a node; None if they cannot be followed."""
    if node.op_type in _ARITHMETIC:
        return _computed(node, state)
    if node.op_type in _LOOKED_UP:
        return _looked_up(node, state)
    if node.op_type in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
        return _reshaped(node, state)
    if not state.shaped and node.op_type not in _SAME:
        return None
    if node.op_type == "Transpose":
        order = ints_of(node, "perm")
        return _with_moved_elements(state, lambda array: np.transpose(array, order))
    return state if node.op_type in _SAME else _sliced(node, state)


def _with_moved_elements(state: TracedLabels, move: Callable[[Array], Array]) -> TracedLabels:
    return replace(state, label=move(state.label), place=move(state.place))


def _computed(node: ir.Node, state: TracedLabels) -> TracedLabels | None:
    numbers = [number for value in node.inputs if (number := constant(value, most=1)) is not None]
    if len(numbers) != 1 or numbers[0].size != 1 or state.values.dtype.kind not in "iuf":
        return None
    return replace(state, values=_ARITHMETIC[node.op_type](state.values, numbers[0].reshape(())))


def _looked_up(node: ir.Node, state: TracedLabels) -> TracedLabels | None:
    """Return labels at constant positions, or the entries of a constant table for labels; None if neither applies."""
    table, at = constant(node.inputs[0]), constant(node.inputs[1])
    axis = -1 if node.op_type == "ArrayFeatureExtractor" else int_of(node, "axis", 0)
    if at is not None and state.shaped:
        return _with_moved_elements(state, lambda array: np.take(array, at.astype(np.int64), axis=axis))
    # Tables with several axes are indexed by rows.
    of_rows = table is not None and (axis % table.ndim == 0 or table.size == table.shape[axis])
    if table is None or not of_rows or state.values.shape[1] > 1 or state.values.dtype.kind not in "iu":
        return None
    if table.dtype.kind in "OS":
        table = np.array([text.decode() if isinstance(text, bytes) else text for text in table.flat]).reshape(
            table.shape
        )
    rows = table.reshape(table.shape[axis], -1)
    width = rows.shape[1]
    shape = (*state.label.shape, *(() if width == 1 else (width,)))
    return TracedLabels(
        label=np.repeat(state.label.reshape(-1), width).reshape(shape),
        place=np.tile(np.arange(width), state.label.size).reshape(shape),
        values=rows[state.values[:, 0]],
        shaped=state.shaped and table.ndim <= 2 and node.op_type == "Gather",
    )


def _sliced(node: ir.Node, state: TracedLabels) -> TracedLabels | None:
    """Return the labels that a Slice keeps; None if its bounds are computed."""
    lists = [ints_of(node, name) for name in ("starts", "ends", "axes")]
    if len(node.inputs) > 1:
        given = [constant(value, most=state.label.ndim) for value in node.inputs[1:]]
        if any(
            array is None and value is not None for array, value in zip(given, node.inputs[1:], strict=True)
        ):
            return None
        lists = [None if array is None else [int(n) for n in array.reshape(-1)] for array in given]
    starts, ends, axes, steps = (*lists, None, None)[:4]
    if starts is None or ends is None:
        return None
    cut = [slice(None)] * state.label.ndim
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        cut[axis] = slice(starts[i], ends[i], 1 if steps is None else steps[i])
    return _with_moved_elements(state, lambda array: array[tuple(cut)])


def _reshaped(node: ir.Node, state: TracedLabels) -> TracedLabels:
    """Return reshaped labels, flattened and with ``shaped`` unset if the new shape is computed."""
    given = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    axes = tuple(ints_of(node, "axes") or (() if given is None else map(int, given.reshape(-1))))
    if state.shaped and node.op_type == "Unsqueeze" and axes:
        return _with_moved_elements(state, lambda array: np.expand_dims(array, axes))
    if state.shaped and node.op_type == "Squeeze":
        return _with_moved_elements(state, lambda array: np.squeeze(array, axes or None))
    if node.op_type == "Reshape" and given is not None and (given != 0).all():
        return replace(_with_moved_elements(state, lambda array: array.reshape(axes)), shaped=True)
    return replace(_with_moved_elements(state, np.ravel), shaped=False)
