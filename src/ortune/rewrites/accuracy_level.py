"""Sets the accuracy level of MatMulNBits: level 4 rounds activations to int8, level 1 keeps them in float32.

What it is: the attribute ``accuracy_level`` of every MatMulNBits becomes ``level``.
Why it costs: below level 4 the CPU dequantizes the weights to float32 in every run, which takes several times as long
    as a product of int8 for a single row. At level 4 it quantizes the activations to int8 in blocks.
Evidence: the attribute; outputs and times at both levels.
Fix and its safety: numerics: level 4 changes outputs, usually by 0.1 to 1 %, and level 1 removes this change.
Example: ``--rewrite accuracy-level:level=1``
References: ONNX Runtime, contrib operators, "com.microsoft.MatMulNBits"; microsoft/onnxruntime#23004.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.graph.attributes import int_of, is_parameter
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import operator
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite, RewriteResult, unchanged

INT8, FLOAT32 = "4", "1"
_LEVEL = "accuracy_level"

BAD = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
four_bits (float[1,32] x, uint8[16,1,16] w, float[16] s) => (float[1,16] y)
{
    [bad_product] y = com.microsoft.MatMulNBits <K = 32, N = 16, bits = 4, block_size = 32> (x, w, s)
}
"""
GOOD = BAD.replace("block_size = 32", "block_size = 32, accuracy_level = 4")


def products(model: ir.Model) -> list[ir.Node]:
    """Return the MatMulNBits nodes of a model, except those whose accuracy level is a parameter of a function."""
    return [
        node
        for node in nodes(model)
        if operator(node) == "com.microsoft:MatMulNBits" and not is_parameter(node, _LEVEL)
    ]


def in_int8(node: ir.Node) -> bool:
    """Return whether a MatMulNBits node requests activations in int8."""
    return int_of(node, _LEVEL, 0) == int(INT8)


def slow_in_float(model: ir.Model) -> list[ir.Node]:
    """Return the products of float32 activations with 4-bit weights that do not request activations in int8."""
    # Not all platforms have integer kernels for other widths.
    return [
        node
        for node in products(model)
        if int_of(node, "bits", 4) == 4
        and not in_int8(node)
        and (x := next(iter(node.inputs), None)) is not None
        and x.dtype in (None, ir.DataType.FLOAT)
    ]


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    level = int(params["level"])
    changed = [node for node in products(model) if int_of(node, _LEVEL, 0) != level]
    if not changed:
        return unchanged(f"no MatMulNBits node has an accuracy level other than {level}")
    for node in changed:
        node.attributes[_LEVEL] = ir.AttrInt64(_LEVEL, level)
    return RewriteResult(
        modified=True,
        what=f"Set the accuracy level of {amount(len(changed), 'MatMulNBits node')} to {level}.",
    )


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    slow = slow_in_float(model)
    if not slow:
        return []
    return [({}, f"{amount(len(slow), 'MatMulNBits node')} could multiply activations in int8")]


REWRITE = Rewrite(
    name="accuracy-level",
    summary="sets the accuracy level of MatMulNBits: activations in int8 (4) or float32 (1)",
    safety="numerics",
    targets=(CPU.target,),
    params=(
        Param(
            name="level",
            kind="choice",
            default=INT8,
            choices=(INT8, FLOAT32),
            summary="`4` rounds activations to int8, `1` keeps them in float32",
        ),
    ),
    change=_change,
    proposes=_proposes,
)
