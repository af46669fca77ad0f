"""An output holds NaN or unexpected infinities.

What it is: the first run returned elements that are not finite. Minus infinity among finite values is not reported,
    because masks use it.
Why it costs: such outputs are useless and cannot be compared, so a speed-up would mean nothing.
Evidence: the number of such elements, the node that first produces them, and the stored value they come from. Where an
    earlier node overflows or divides by zero, and a later one turns the infinity into NaN, both are named. Where the
    inputs themselves hold NaN or infinities, the input is named. An evaluation in float64 that is finite is mentioned:
    then a type overflows, or a kernel is at fault.
Fix and its safety: advice: store a finite value of the type, such as -1e4 for a float16 mask, compute the node that
    overflows in float32, or pass real and finite inputs.
Example: a mask of -1e9 becomes -infinity in float16, and 0 times -infinity is NaN; an Exp overflows before a division,
    and infinity over infinity is NaN
References: IEEE 754, section 7.2, "Invalid operation".
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ortune.printable import amount
from ortune.records import NOT_FINITE, ExactCheck, Finding, GraphNode, NotFinite
from ortune.rules._words import UNWRITTEN
from ortune.rules.facts import Facts

CODE = NOT_FINITE

_HALF = ("float16", "bfloat16")
_NORMALISING = ("Softmax", "LogSoftmax")  # NaN if a whole row is masked


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if outputs of a run are not finite."""
    nonfinite = [output for output in facts.nonfinite if output.unusable_reference]
    if not nonfinite:
        return
    first, more = nonfinite[0], len(nonfinite) - 1
    others = f" and in {amount(more, 'more output')}" if more else ""
    of = "all" if first.nonfinite_reference == first.n_elements else f"{first.nonfinite_reference} of"
    elements = "element" if first.n_elements == 1 else "elements"
    source = facts.not_finite
    fed = facts.not_finite_input
    if source is not None and source.input:
        fed = source.input, source.input_n_nan, source.input_n_inf
    unwritten = facts.level_check is not None and facts.level_check.unwritten
    invented = facts.work is not None and not facts.work.inputs_path
    yield Finding(
        code=CODE,
        severity="error",
        what=f"outputs are not finite: {first.name!r} is NaN or infinite in {of} {first.n_elements} {elements}{others}"
        f"{_origin(source)}{_input_clause(fed)}",
        where=(*_places(source), *(fed[:1] if fed is not None else ())),
        evidence=", ".join(output.name for output in nonfinite),
        fix=UNWRITTEN
        if unwritten
        else f"replace the NaN and infinite elements of input {fed[0]!r}, or pass other inputs"
        if fed is not None
        else _fix(source, invented=invented),
    )


def with_evaluation(finding: Finding, exact: ExactCheck) -> Finding:
    """Return the finding with the result of an evaluation in float64 added, if that evaluation's outputs are finite.

    Args:
        finding: Any finding; findings of other rules are returned unchanged.
        exact: The evaluation. If it refutes the outputs, a kernel is at fault and the fix is removed.
    """
    if finding.code != CODE or not exact.finite:
        return finding
    what = f"{finding.what}; ONNX's reference evaluator gives finite values in float64"
    return msgspec.structs.replace(finding, what=what, fix=finding.fix if exact.right is None else "")


def _places(source: NotFinite | None) -> tuple[str, ...]:
    if source is None:
        return ()
    nan = source.nan_node.name if source.nan_node is not None else ""
    return tuple(name for name in (source.node.name, nan, source.weight) if name)


def _origin(source: NotFinite | None) -> str:
    """Format the node and the weight from which non-finite values come; "" if unknown."""
    if source is None:
        return ""
    text = f", from {_node(source.node)} on"
    if source.infinity or source.nan_node is not None:
        nan = f", and {_node(source.nan_node)} turns it into NaN" if source.nan_node is not None else ""
        text = f"; {_node(source.node)} {_infinity(source)}{nan}"
    if source.input or not source.weight:
        return text
    values = "NaN" if source.weight_n_nan else "an infinity" if source.weight_n_inf == 1 else "infinities"
    return f"{text}; weight {source.weight!r} ({source.weight_type}) holds {values}"


def _input_clause(fed: tuple[str, int, int] | None) -> str:
    """Format (name, number of NaN, number of infinities) of an input as a clause; "" for None."""
    if fed is None:
        return ""
    name, n_nan, n_inf = fed
    infinite = amount(n_inf, "infinity", "infinities")
    parts = [*([f"{n_nan} NaN"] if n_nan else []), *([infinite] if n_inf else [])]
    return f"; input {name!r} holds {' and '.join(parts)}"


def _node(node: GraphNode) -> str:
    return f"node {(node.name or node.value)!r} ({node.operator})"


def _infinity(source: NotFinite) -> str:
    """Return a verb phrase that says how the infinity arises, such as "divides by zero"."""
    if source.infinity == "overflow":
        return "overflows to infinity" + (f" in {source.onnx_type}" if source.onnx_type in _HALF else "")
    if source.infinity == "division-by-zero":
        return "takes the logarithm of 0" if "Log" in source.node.operator else "divides by zero"
    return "returns infinity"


def _fix(source: NotFinite | None, *, invented: bool) -> str:
    """Return the text of the fix; real inputs come first if synthetic ones, such as an empty mask, may be the cause."""
    mend, real = _mend(source), "pass real inputs with --inputs PATH"
    if not invented:
        return mend
    # A stored non-finite value is at fault wherever it is used, except an infinity as a mask, which may hide
    # a whole row.
    stored = source is not None and source.weight
    if source is None or (stored and (source.weight_n_nan or source.node.operator not in _NORMALISING)):
        return f"{mend}, or {real}"
    return f"{real}; if outputs are still not finite, {mend}"


def _mend(source: NotFinite | None) -> str:
    """Return the text of the fix for a cause in the model."""
    if source is None:
        return "correct the model"
    if source.weight:
        return "replace the weight with a finite value"
    node = source.node.name or source.node.value
    if source.infinity == "overflow":
        wider = f"compute {node!r} in float32, or " if source.onnx_type in _HALF else ""
        return f"{wider}scale or clip the input of {node!r}"
    if source.infinity == "division-by-zero":
        return (
            f"add a small number to the {'input' if 'Log' in source.node.operator else 'divisor'} of {node!r}"
        )
    return "correct the model"
