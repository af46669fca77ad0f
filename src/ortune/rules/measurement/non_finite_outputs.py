"""An output holds NaN or unexpected infinities.

What it is: the first run returned elements that are not finite. Minus infinity among finite values is not reported,
    because masks use it.
Why it costs: such outputs are useless and cannot be compared, so a speed-up would mean nothing.
Evidence: the number of such elements, the node that first produces them, and the stored value they come from.
Fix and its safety: advice: store a finite value of the type, such as -1e4 for a float16 mask, or pass real inputs.
Example: a mask of -1e9 that becomes -infinity in float16, and 0 times -infinity is NaN
References: IEEE 754, section 7.2, "Invalid operation".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import NOT_FINITE, Finding, NotFinite
from ortune.rules.facts import Facts

CODE = NOT_FINITE


def find(facts: Facts) -> Iterator[Finding]:
    """Finds it where a run gave them."""
    nonfinite = [output for output in facts.nonfinite if output.unusable_reference]
    if not nonfinite:
        return
    first, more = nonfinite[0], len(nonfinite) - 1
    others = f" and in {more} more output{'s' if more > 1 else ''}" if more else ""
    of = "all" if first.nonfinite_reference == first.n_elements else f"{first.nonfinite_reference} of"
    elements = "element" if first.n_elements == 1 else "elements"
    source = facts.not_finite
    invented = facts.work is not None and not facts.work.inputs_path
    mend = "replace the weight with a finite value" if source and source.weight else "correct the model"
    yield Finding(
        code=CODE,
        severity="error",
        what=f"outputs are not finite: {first.name!r} is NaN or infinite in {of} {first.n_elements} {elements}{others}"
        f"{_from(source)}",
        where=tuple(name for name in (source.node.name, source.weight) if name) if source else (),
        evidence=", ".join(output.name for output in nonfinite),
        fix=mend + (", or pass real inputs with --inputs PATH" if invented else ""),
    )


def _from(source: NotFinite | None) -> str:
    """The node and the stored value that they come from."""
    if source is None:
        return ""
    node = f", from node {source.node.name or source.node.value!r} ({source.node.operator}) on"
    if not source.weight:
        return node
    values = "NaN" if source.weight_n_nan else "an infinity" if source.weight_n_inf == 1 else "infinities"
    return f"{node}; weight {source.weight!r} ({source.weight_type}) holds {values}"
