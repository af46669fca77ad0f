"""The outputs for a row depend on the rest of its batch, or on padding.

What it is: the first row was run alone and in a batch, and its outputs differ by more than rounding. If the model has a
    mask, a shorter row was also run with padding that the mask hides.
Why it costs: batches and padding make a model fast, and here they change its answers: the same text gets another
    embedding in other company. Cached and recomputed answers disagree.
Evidence: the error of the row, and the nodes in which rows meet: a quantization range that is computed over the whole
    batch, or a normalisation, a sum or a Reshape across rows.
Fix and its safety: advice: quantize with fixed ranges instead of ranges computed on every run, or correct the named
    node in the export. Until then, run one row at a time without padding.
Example: a text encoder after ``quantize_dynamic``: the cosine similarity of one text alone and in a batch is 0.997
References: microsoft/onnxruntime#10111, #8625, #5672.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.rows import MixedRows, mixed_rows
from ortune.records import Finding, RowCheck, RowDifference
from ortune.rules._words import listed, name_of, subject
from ortune.rules.facts import Facts

CODE = "MSR015"
JOINS = ("GRA029", "QNT017")
_BROKEN = 0.1
"""Relative L2 error above which outputs belong to other rows, whatever the cause."""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the outputs of a row depend on its batch or on padding."""
    check = facts.row_check
    if check is None or not check.differing:
        return
    mixed = mixed_rows(facts.model.ir) if facts.model is not None else MixedRows()
    over_batch = mixed.over_batch if any(row.by == "batch" for row in check.differing) else ()
    nodes = (*over_batch, *mixed.ranges)
    broken = bool(over_batch) or any(row.outputs.relative_l2 > _BROKEN for row in check.differing)
    yield Finding(
        code=CODE,
        severity="error" if broken else "warning",
        what=f"the outputs for a row depend on {' and on '.join(map(_neighbour_clause, check.differing))}"
        + (f"; {_cause(mixed, batch=bool(over_batch))}" if nodes else ""),
        where=tuple(map(name_of, nodes)),
        evidence=_evidence(check),
        fix=_fix(mixed, batch=bool(over_batch)),
    )


def _neighbour_clause(row: RowDifference) -> str:
    if row.by == "batch":
        return f"the rest of its batch ({_error(row)} between 1 and {row.size} rows)"
    return f"padding that the mask hides ({_error(row)} between {row.alone} and {row.size} positions)"


def _error(row: RowDifference) -> str:
    cosine = row.outputs.cosine
    similar = f", cosine {cosine:.4f}" if cosine is not None else ""
    return f"relative L2 {row.outputs.relative_l2:.2g}{similar}"


def _cause(mixed: MixedRows, *, batch: bool) -> str:
    if batch:
        return subject(mixed.over_batch, "combines the rows", "combine the rows")
    nodes = mixed.ranges
    return f"{subject(nodes, 'computes', 'compute')} one quantization range over all of them"


def _evidence(check: RowCheck) -> str:
    names = dict.fromkeys(output.name for row in check.differing for output in row.outputs.outputs)
    return f"outputs {listed(names)}" if len(names) > 1 else ""


def _fix(mixed: MixedRows, *, batch: bool) -> str:
    if batch:
        return "correct the export; until then, run one row at a time"
    if mixed.ranges:
        return (
            "quantize the float32 model with fixed ranges (static-int8) or weights alone (weight-only-bits); until "
            "then, run one row at a time without padding"
        )
    return "run one row at a time without padding, or correct the export"
