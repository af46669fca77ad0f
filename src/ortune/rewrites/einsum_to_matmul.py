"""Replaces an Einsum with MatMul, Mul and Transpose.

What it is: Einsum of two tensors (``bqhd,bkhd->bhqk``) becomes MatMul, with Transposes where the indices are in a
    different order and Reshapes where several indices are summed. Without a summed index it becomes Mul, and where both
    tensors have the same indices Mul and ReduceSum. Einsum of three or more tensors becomes such products one after
    another. Einsum of one tensor that only permutes its axes becomes Transpose.
Why it costs: ONNX Runtime's Einsum parses its equation in every run and executes the same Transpose and MatMul inside.
    It cannot prepack weights, fuse the next operator, or cancel its Transposes with adjacent ones.
Evidence: Einsum in the optimised graph, and its share of a trace.
Fix and its safety: exact: the same products, summed in a different order.
Example: ``--rewrite einsum-to-matmul``
References: ONNX operators, "Einsum" and "MatMul".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import text_of
from ortune.graph.nodes import FLOATS
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 12  # first opset with Einsum
_AXES_ARE_INPUT = 13  # first opset in which the axes of Squeeze, Unsqueeze and ReduceSum are an input
_MULTIPLIED = FLOATS | {ir.DataType[name] for name in ("BFLOAT16", "INT32", "INT64", "UINT32", "UINT64")}
"""Types that MatMul supports."""


Dims = Mapping[str, "int | str | None"]
"""Maps each index of a tensor to its size: a number, a symbol, or None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """A product of two tensors, which replaces both in the list of remaining tensors.

    Attributes:
        places: Positions of the two tensors in the list of remaining tensors, left factor first.
        terms: The indices of the two tensors, such as "bqhd".
        kept: The indices of the product.
        sizes: Maps the indices that a Reshape merges or splits to their sizes.
    """

    places: tuple[int, int]
    terms: tuple[str, str]
    kept: str
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """An Einsum that other operators can replace.

    Attributes:
        node: The Einsum.
        term: The indices of its first input.
        result: The indices of its output.
        products: The products in order; empty for a transposition.
    """

    node: ir.Node
    term: str
    result: str
    products: tuple[_Product, ...] = ()


def _match(node: ir.Node, look: PatternFacts) -> _Match | str:  # noqa: PLR0911  (one a near miss)
    """Match an Einsum that is a transposition or a chain of products, or return the reason that it is neither."""
    text = text_of(node, "equation", "").replace(" ", "")
    if not text or None in node.inputs:
        return f"Einsum {node.name!r} has no equation attribute"
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    said = f"Einsum {node.name!r} ({text})"
    if not arrow or "." in text or any(len(set(t)) != len(t) for t in (*terms, result)):
        return f"{said} has an ellipsis, a repeated index in one tensor, or no output"
    if len(terms) != len(node.inputs) or not set(result) <= set("".join(terms)):
        return f"{said} does not match its inputs"
    if any(left.count(index) == 1 and index not in result for index in "".join(terms)):
        return f"{said} sums over an index of a single tensor"
    match = _Match(node=node, term=terms[0], result=result)
    if len(terms) == 1:
        return match
    if look.inferred(node.inputs[0]).dtype not in _MULTIPLIED:
        return f"{said} has a type that MatMul does not support"
    dims = [_dims(value, term, look) for value, term in zip(node.inputs, terms, strict=True)]
    products: list[_Product] = []
    while len(terms) > 1:
        product = _product(terms, dims, result)
        if isinstance(product, str):
            return f"{said} {product}"
        products.append(product)
        first, second = sorted(product.places)
        terms[first], dims[first] = product.kept, _joint(dims[first], dims[second])
        del terms[second], dims[second]
    return replace(match, products=tuple(products))


def _product(terms: Sequence[str], dims: Sequence[Dims], result: str) -> _Product | str:
    """Return the product to compute first, or the reason that there is none."""

    def cost(pair: tuple[int, int]) -> tuple[bool, int]:
        # Prefer pairs with an index to sum, then those with the fewest remaining indices.
        kept = _indices_kept(terms, result, pair)
        return len(kept) == len({*terms[pair[0]], *terms[pair[1]]}), len(kept)

    i, j = min(itertools.combinations(range(len(terms)), 2), key=cost)
    kept = _indices_kept(terms, result, (i, j))
    if any(dims[i].get(index) is None or dims[i].get(index) != dims[j].get(index) for index in terms[i]
           if index not in kept):  # fmt: skip
        return "may broadcast along the summed index"
    # The factor with fewer indices of its own is on the right: several column indices must be merged, which
    # needs fixed sizes, but several row indices need not be.
    if _n_own_indices(terms[i], terms[j]) < _n_own_indices(terms[j], terms[i]):
        i, j = j, i
    sizes = {index: dims[place].get(index) for place in (i, j) for index in terms[place]}
    joined = _joined(terms[i], terms[j], kept)
    fixed = {index: size for index in joined if isinstance(size := sizes[index], int)}
    if len(fixed) < len(joined):
        return "has dynamic sizes in indices that are summed together"
    return _Product(places=(i, j), terms=(terms[i], terms[j]), kept=kept, sizes=fixed)


def _indices_kept(terms: Sequence[str], result: str, pair: Sequence[int]) -> str:
    """Return the indices that the product of two terms keeps; for the last product, these are the result's indices."""
    if len(terms) == 2:
        return result
    others = "".join(term for place, term in enumerate(terms) if place not in pair) + result
    both = terms[pair[0]] + terms[pair[1]]
    return "".join(index for index in dict.fromkeys(both) if index in others)


def _n_own_indices(term: str, other: str) -> int:
    """Return the number of indices of the first tensor that the second tensor lacks."""
    return len(set(term) - set(other))


def _joined(a: str, b: str, kept: str) -> set[str]:
    """Return the indices to merge for a MatMul: several summed indices, or several column indices, become one."""
    summed, columns = set(a) - set(kept), set(b) - set(a)
    if not summed or set(a) == set(b):
        return set()
    return {*(summed if len(summed) > 1 else ()), *(columns if len(columns) > 1 else ())}


def _dims(value: ir.Value | None, term: str, look: PatternFacts) -> Dims:
    dims = look.inferred(value).dims
    return dict(zip(term, dims, strict=True)) if dims is not None and len(dims) == len(term) else {}


def _joint(one: Dims, other: Dims) -> Dims:
    """Return the sizes in a product; an index of size 1 in one factor broadcasts to the other factor's size."""
    joint = {**one, **other}
    for index in one.keys() & other.keys():
        if one[index] != other[index]:
            joint[index] = other[index] if one[index] == 1 else one[index] if other[index] == 1 else None
    return joint


class _Writer:
    """Inserts the operators of a product of two tensors before an Einsum."""

    def __init__(self, editor: Editor, node: ir.Node, opset: int) -> None:
        self._editor, self._at, self._opset = editor, node, opset
        self._name = node.name or "einsum"

    def turned(self, value: ir.Value, indices: str, wanted: str) -> ir.Value:
        """Transpose a tensor to the order of indices `wanted` and return the result."""
        if indices == wanted:
            return value
        perm = ir.AttrInt64s("perm", [indices.index(index) for index in wanted])
        return self._node("Transpose", [value], "transpose", perm)

    def product(self, of: _Product, values: Sequence[ir.Value]) -> ir.Value:
        """Insert the product of two tensors, left factor first, and return the result."""
        (a, b), kept, sizes = of.terms, of.kept, of.sizes
        summed = "".join(index for index in a if index not in kept)
        if not summed or set(a) == set(b):
            every = kept + summed
            factors = [self._spread(value, term, every) for value, term in zip(values, of.terms, strict=True)]
            product = self._node("Mul", factors, "product")
            axes = list(range(len(kept), len(every)))
            return self._by_axes("ReduceSum", product, axes) if axes else product
        # bqhd,bkhd->bhqk: "both" is bh, rows q, columns k, and d is summed.
        both = "".join(index for index in kept if index in a and index in b)
        rows = "".join(index for index in a if index not in b)
        columns = "".join(index for index in b if index not in a)
        left = self._joined(self.turned(values[0], a, both + rows + summed), sizes, both + rows, summed)
        right = self._right(values[1], b, sizes, (both, summed, columns))
        # If the left factor has several row axes, the right one gets axes of size 1 to align the common axes.
        if both and len(rows) > 1:
            right = self._by_axes("Unsqueeze", right, [len(both) + i for i in range(len(rows) - 1)])
        product = self._node("MatMul", [left, right], "product")
        if not columns:
            product = self._by_axes("Squeeze", product, [len(both + rows)])
        if len(columns) > 1:
            product = self._reshaped(product, [0] * len(both + rows) + [sizes[index] for index in columns])
        return self.turned(product, both + rows + columns, kept)

    def _right(
        self, value: ir.Value, term: str, sizes: Mapping[str, int], order: tuple[str, ...]
    ) -> ir.Value:
        """Return the right factor with its summed indices merged to one axis and its column indices to another."""
        both, summed, columns = order
        if len(summed) > 1 and len(columns) == 1:
            # The size of the column may be dynamic: it stays in place, so the Reshape can copy it.
            turned = self.turned(value, term, both + columns + summed)
            joined = self._joined(turned, sizes, both + columns, summed)
            return self.turned(joined, both + columns + "*", both + "*" + columns)
        right = self._joined(self.turned(value, term, both + summed + columns), sizes, both, summed, columns)
        return right if columns else self._by_axes("Unsqueeze", right, [len(both) + 1])

    def _joined(self, value: ir.Value, sizes: Mapping[str, int], before: str, *groups: str) -> ir.Value:
        """Return a tensor with each group of its last indices merged to one axis."""
        if all(len(group) <= 1 for group in groups):
            return value
        copied = len(before)
        if len(groups[0]) == 1:
            copied, groups = copied + 1, groups[1:]
        joined = [math.prod(sizes[index] for index in group) for group in groups if group]
        return self._reshaped(value, [0] * copied + joined)

    def _spread(self, value: ir.Value, term: str, every: str) -> ir.Value:
        """Return a tensor with all indices in `every`, adding axes of size 1 for missing indices."""
        turned = self.turned(value, term, "".join(index for index in every if index in term))
        missing = [place for place, index in enumerate(every) if index not in term]
        # Mul itself adds leading axes.
        return turned if missing == [*range(len(missing))] else self._by_axes("Unsqueeze", turned, missing)

    def _reshaped(self, value: ir.Value, sizes: Sequence[int]) -> ir.Value:
        shape = self._editor.constant(self._at, f"{self._name}_shape", np.array(sizes, np.int64))
        return self._node("Reshape", [value, shape], "reshape")

    def _by_axes(self, operator: str, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        attributes = [ir.AttrInt64("keepdims", 0)] if operator == "ReduceSum" else []
        if self._opset < _AXES_ARE_INPUT:
            return self._node(
                operator, [value], operator.lower(), ir.AttrInt64s("axes", list(axes)), *attributes
            )
        tensor = self._editor.constant(self._at, f"{self._name}_axes", np.array(axes, np.int64))
        return self._node(operator, [value, tensor], operator.lower(), *attributes)

    def _node(self, operator: str, inputs: Sequence[ir.Value], called: str, *attributes: ir.Attr) -> ir.Value:
        value = self._editor.node(self._at, operator, inputs, attributes, name=f"{self._name}_{called}")
        value.type = self._at.outputs[0].type
        return value


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    node, writer = match.node, _Writer(editor, match.node, look.opset)
    values = [value for value in node.inputs if value is not None]
    for product in match.products:
        i, j = product.places
        values[min(i, j)] = writer.product(product, (values[i], values[j]))
        del values[max(i, j)]
    output = values[0] if match.products else writer.turned(values[0], match.term, match.result)
    if output is node.inputs[0]:
        output = editor.node(node, "Identity", [output], name=f"{node.name or 'einsum'}_same")
    editor.replace(node.outputs[0], output)


PATTERN = Pattern(
    anchors=("Einsum",),
    match=_match,
    replace=_replace,
    made="Replaced {n} {Einsum|Einsums} with MatMul, Mul or Transpose.",
    proposed="{n} {Einsum is a matrix multiplication|Einsums are matrix multiplications}",
    none="the model has no Einsum",
    least_opset=_LEAST_OPSET,
    repeats=True,
    counts_replaced=True,
)
REWRITE = PATTERN.rewrite(
    name="einsum-to-matmul",
    summary="replaces an Einsum with MatMul, Mul and Transpose",
    stage=1,
)
