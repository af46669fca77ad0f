"""Folds scales, shifts and BatchNormalization into adjacent weights.

What it is: Mul, Div, Add or Sub with a constant, and BatchNormalization, are a scale and shift per channel. After a
    Conv, ConvTranspose, Gemm or MatMul with constant weights they are folded into weights and bias. Before such a node
    they are folded too; a shift only if the layer does not pad. Patterns that ONNX Runtime fuses itself are not touched
    (the factor 0.5 of a Gelu, the factors of a normalisation). Weights shared by several layers stay, because each
    layer would need a copy. A layer whose output other nodes read stays, because a second copy would cost more.
Why it costs: each of these nodes reads and writes the whole tensor. ONNX Runtime folds some of them: per-channel
    Mul and Add after a Conv, and Mul by a scalar of rank 0 there. It does not fold Add of a scalar, Mul and Add after a
    ConvTranspose, BatchNormalization after an Add, or any node before a Conv. Next to a convolution they also interrupt
    its blocked layout.
Evidence: Mul, Add and BatchNormalization with constants, between convolutions, in the optimised graph.
Fix and its safety: exact: only rounding differs.
Example: ``--rewrite affine-into-weights``
References: Jacob et al., "Quantization and Training of Neural Networks", 2018, section 3.2 (folding).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from ortune.graph.constants import constant_tensor
from ortune.graph.nodes import is_op, only_user, scopes_of
from ortune.graph.ort_fusions import folds_behind, fused, scales_product
from ortune.graph.shapes.nearby import least_rank
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites import _affine
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

_MOST_CHANNELS = 1 << 24  # maximum elements of a weight to fold into; larger ones take longer than they save
_MOST_COPIED = 1 << 12  # maximum elements of a shared weight to copy; a larger copy costs memory
_OF_SHAPE = ("Shape", "Size")  # operators that read only a shape


def scale_after(node: ir.Node, editor: Editor | None = None, *, copied: bool = False) -> ir.Node | None:
    """Return the scale or shift after a product that its weights can absorb, or None; with an editor, also fold it.

    Args:
        node: The product.
        editor: Editor of the product's model; None leaves the model unchanged.
        copied: Whether shared weights may be copied even if they are large.
    """
    user = _only_reader(node.outputs[0]) if is_op(node, *_affine.PRODUCTS) else None
    if user is None or not _affine.may_be_affine(user):
        return None
    if is_op(node, "MatMul") and _affine.shifts(user):  # MatMul has no bias
        return None
    product = _affine.product(node) if _light(node) and (copied or _may_change_weights(node)) else None
    if product is None:
        return None
    affine = _affine.affine(user, max(product.rank, least_rank(node.outputs[0])))
    if affine is None or affine.x is not node.outputs[0]:
        return None
    new = _affine.fold_after(product, affine)
    if new is None or fused(user):  # tested second, since it is slower than the fold's own checks
        return None
    if editor is not None:
        _affine.replace_weights(editor, product, *new)
        editor.replace(affine.y, affine.x)
    return user


def scale_before(node: ir.Node, editor: Editor | None = None, *, copied: bool = False) -> ir.Node | None:
    """Return the scale or shift before a product that its weights can absorb, or None; with an editor, also fold it.

    The arguments are those of ``scale_after``.
    """
    operand = node.inputs[0] if is_op(node, *_affine.PRODUCTS) and node.inputs else None
    source = operand.producer() if operand is not None else None
    if (
        operand is None
        or source is None
        or not _affine.may_be_affine(source)
        or only_user(operand) is not node
    ):
        return None
    product = _affine.product(node) if _light(node) and (copied or _may_change_weights(node)) else None
    if product is None:
        return None
    affine = _affine.affine(source, max(product.rank, least_rank(operand)))
    if affine is None or affine.y is not operand:
        return None
    if not (is_op(source, "BatchNormalization") or _same_shape(affine, product)):
        return None
    new = _affine.fold_before(product, affine)
    if new is None or fused(source):
        return None
    if editor is not None:
        _affine.replace_weights(editor, product, *new)
        node.replace_input_with(0, affine.x)
        editor.drop(affine.y)
    return source


def absorbable(product: ir.Node) -> Iterator[ir.Node]:
    """Yield the scales and shifts that a product's weights can absorb and that ONNX Runtime does not fold."""
    if not is_op(product, *_affine.PRODUCTS):
        return
    user = _only_reader(product.outputs[0])
    # ONNX Runtime's own folds are checked first, since checking a fold here reads all weights.
    if (
        user is not None
        and _affine.may_be_affine(user)
        and not folds_behind(product, user)
        and scale_after(product)
    ):
        yield user
    source = product.inputs[0].producer() if product.inputs[0] is not None else None
    if (
        source is None
        or not _affine.may_be_affine(source)
        or scales_product(product, source)
        or _taken_up(source)
    ):
        return
    if scale_before(product):
        yield source


def _taken_up(scale: ir.Node) -> bool:
    """Return whether the product before a scale absorbs the scale, in ONNX Runtime or by this rewrite."""
    makers = [value.producer() for value in scale.inputs if value is not None and only_user(value) is scale]
    maker = next((maker for maker in makers if maker is not None and is_op(maker, *_affine.PRODUCTS)), None)
    if maker is None or constant_tensor(maker.inputs[1]) is None:
        return False
    return is_op(scale, "BatchNormalization") or folds_behind(maker, scale)


def _only_reader(value: ir.Value) -> ir.Node | None:
    """Return the only node that reads a value's elements (unlike Shape and Size); None if there are more or none."""
    readers = [use.node for use in value.uses() if not is_op(use.node, *_OF_SHAPE)]
    if len(readers) != 1 or value.is_graph_output():
        return None
    producer = value.producer()
    return readers[0] if producer is None or readers[0].graph is producer.graph else None


def _why_unfolded(norm: ir.Node) -> str:
    """Return why a BatchNormalization after a product with constant weights is not folded; "" if there is no reason."""
    value = norm.inputs[0] if norm.inputs else None
    node = value.producer() if value is not None else None
    if value is None or node is None or not is_op(node, *_affine.PRODUCTS) or not _light(node):
        return ""
    product = _affine.product(node)
    affine = _affine.affine(norm, product.rank) if product is not None else None
    if product is None or affine is None or not _affine.fits(affine, product.outs, product):
        return ""
    what = f"BatchNormalization {norm.name!r} was not folded: the output of {node.op_type} {node.name!r} is"
    if value.is_graph_output():
        return f"{what} also the graph output {value.name!r}"
    others = [use.node for use in value.uses() if use.node is not norm and not is_op(use.node, *_OF_SHAPE)]
    return f"{what} also read by {others[0].op_type} {others[0].name!r}" if others else ""


def _same_shape(affine: _affine.Affine, product: _affine.Product) -> bool:
    """Return whether ``x`` and ``scale * x + shift`` certainly have the same rank and channels."""
    if least_rank(affine.x) < max(affine.rank, product.rank if affine.rank else 0):
        return False
    if affine.last is None:
        return True
    channels = affine.x.shape[-1 if affine.last else 1] if affine.x.shape is not None else None
    return channels == product.ins


def _light(node: ir.Node) -> bool:
    value = node.inputs[1] if len(node.inputs) > 1 else None
    stored = value.const_value if value is not None else None
    return stored is None or stored.size <= _MOST_CHANNELS


def _may_change_weights(node: ir.Node) -> bool:
    """Return whether a product is the only reader of its weights, or they are small enough to copy."""
    value = node.inputs[1] if len(node.inputs) > 1 else None
    stored = value.const_value if value is not None else None
    return value is None or len(value.uses()) == 1 or (stored is not None and stored.size <= _MOST_COPIED)


def _shared(node: ir.Node) -> str:
    """Return a sentence that says that a scale or shift is not folded because of shared weights; otherwise ""."""
    if _may_change_weights(node) or not (scale_after(node, copied=True) or scale_before(node, copied=True)):
        return ""
    readers = len(node.inputs[1].uses()) if node.inputs[1] is not None else 0
    return f"{readers} nodes share the weights of {node.op_type} {node.name!r}, which would need a copy"


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    editor = Editor(model)
    count = 0
    for scope, _ in scopes_of(model):
        for node in list(scope):
            # A folded node is in this list too, without a graph.
            while node.graph is not None and (scale_after(node, editor) or scale_before(node, editor)):
                count += 1
    norms = [n for scope, _ in scopes_of(model) for n in scope if is_op(n, "BatchNormalization")]
    products = (n for scope, _ in scopes_of(model) for n in scope if is_op(n, *_affine.PRODUCTS))
    left = tuple(filter(None, [*map(_why_unfolded, norms), *map(_shared, products)]))
    if not count:
        why = "there is no foldable scale or shift next to a layer with constant weights"
        return unchanged(*(left or (why,)))
    folded = amount(count, "scale or shift", "scales and shifts")
    return RewriteResult(modified=True, what=f"Folded {folded} into weights.", reasons=left)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    count = sum(any(absorbable(node)) for scope, _ in scopes_of(model) for node in scope)
    return (
        [
            (
                {},
                f"{count} scale{'s or shifts' if count > 1 else ' or shift'} could be folded into adjacent "
                f"weights",
            )
        ]
        if count
        else []
    )


REWRITE = Rewrite(
    name="affine-into-weights",
    summary="folds constant scales, shifts and BatchNormalization into adjacent weights",
    safety="exact",
    stage=4,
    change=_change,
    proposes=_proposes,
)
