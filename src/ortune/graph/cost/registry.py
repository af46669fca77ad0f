"""Table of cost formulas by operator."""

from __future__ import annotations

from ortune.graph.cost import (
    attention,
    conv,
    einsum,
    elementwise,
    matmul,
    pool_norm,
    quantized,
    recurrent,
    resize,
    trees,
)
from ortune.graph.cost.call import Formula

_FAMILIES = (conv, matmul, quantized, attention, recurrent, pool_norm, resize, einsum, trees, elementwise)

FORMULAS: dict[tuple[str, str], Formula] = {
    (domain, op_type): formula
    for family in _FAMILIES
    for domain, formulas in family.FORMULAS.items()
    for op_type, formula in formulas.items()
}
"""Maps (domain, operator) to the cost formula; the domain of ONNX's own operators is ""."""


def formula_of(domain: str, op_type: str) -> Formula | None:
    """Return the formula of an operator, or None if there is none."""
    return FORMULAS.get(("" if domain == "ai.onnx" else domain, op_type))
