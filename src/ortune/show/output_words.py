"""The difference between a side's outputs and the base's outputs, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ortune.printable import amount
from ortune.records import AcceptedChange, Failed, GridSteps, OutputDifference, OutputError, SliceError
from ortune.show.document import Column, Table, table
from ortune.show.numbers import difference, likeness, percent

STANDS_OUT = 3.0
"""Factor by which a slice's error must exceed the whole output's error to be mentioned."""


def outputs(distance: OutputDifference, *, wrong: bool = False) -> str:
    """Return a phrase on the difference of the outputs and how they were compared.

    For a rejected difference, the phrase contains the tolerance that would accept it.

    Args:
        distance: Difference between the outputs of two sides.
        wrong: Whether one side's outputs are known to be wrong, so that no tolerance is suggested.
    """
    if distance.empty:
        return distance.what
    if (
        any(output.nonfinite_reference == output.n_elements for output in distance.nonfinite)
        and not distance.ok
    ):
        return error(distance)  # no elements were compared
    if not distance.ok:
        accepting = distance.accepting_tolerance
        accepts = (
            ""
            if accepting is None or accepting >= 1.0 or wrong
            else f"; accept with --tolerance {accepting:g}"
        )
        return f"outputs differ {beyond(distance)}{_level_clause(distance)} ({error(distance)}){accepts}"
    return f"outputs {closeness(distance)}{_level_clause(distance)}"


def _level_clause(distance: OutputDifference) -> str:
    """Return a phrase on the optimisation level of the comparison if it is not the requested level; else ""."""
    if not distance.compared_level:
        return ""
    return f" at level {distance.compared_level}{_AT_REQUESTED[distance.at_requested_level]}"


_AT_REQUESTED = {
    "": "",
    "right": ", and right at the requested level",
    "wrong": "; at the requested level, the new model is wrong too",
    "fails": "; at the requested level, the new model does not run either",
}


def outputs_against(distance: OutputDifference, against: str, *, base_wrong: bool, wrong: bool) -> str:
    """Return a phrase on how a side's outputs differ from other outputs, and which of the two are known to be wrong.

    Args:
        distance: Difference of the outputs.
        against: Name of the outputs that the side's outputs are compared with.
        base_wrong: Whether A's outputs are known to be wrong.
        wrong: Whether the side's outputs are known to be wrong.
    """
    known = "outputs are wrong; " if wrong else "A's outputs are wrong; " if base_wrong else ""
    return f"{known}compared with {against}, {outputs(distance, wrong=wrong or base_wrong)}"


def rounded(distance: OutputDifference) -> str:
    """Return a phrase on a difference that rounding to int8 causes, and the difference without this rounding."""
    worst = max(filter(None, map(_standing_out, distance.outputs)), key=lambda s: s.relative_l2, default=None)
    where = (
        f", {worst.relative_l2:.1g} in row {worst.first} of axis {worst.axis}" if worst is not None else ""
    )
    # Documents of earlier versions do not contain the options.
    options = " ".join(distance.without_cause_by) or "activations in float32"
    return (
        f"relative L2 {distance.relative_l2:.1g}{where}, because MatMulNBits rounds activations to int8 "
        f"({difference(distance.without_cause_l2)} with {options})"
    )


def closeness(distance: OutputDifference) -> str:
    """Return a phrase on how close accepted outputs are: "equal within 3e-7 (rows in another order)"."""
    if distance.reference_wrong:
        right = msgspec.structs.replace(distance, reference_wrong=False)
        return f"{closeness(right)} to the base's, which are wrong"
    if distance.cause:
        return f"equal but for rounding: {rounded(distance)}"
    agreement = _agreement(distance)
    # If any element differs, or is at another position, the outputs are not identical.
    equal = (
        re.sub("^identical", "equal", agreement)
        if distance.accepted or distance.compared_as == "sets"
        else agreement
    )
    if not distance.accepted:
        return equal
    empty = [change.output for change in distance.accepted if change.reason == "empty"]
    drawn = [change.output for change in distance.accepted if change.reason == "random"]
    counted = [change for change in distance.accepted if change.reason not in ("empty", "random")]
    parts = [
        *map(_accepted, counted),
        *_not_compared(empty, "{} has no elements", "{} outputs have no elements"),
        *_not_compared(
            drawn,
            "the values of {} are random and were not compared",
            "the values of {} outputs are random and were not compared",
        ),
    ]
    return f"{equal}, but {', '.join(parts)}"


def _not_compared(names: Sequence[str], one: str, several: str) -> list[str]:
    """Return a phrase on the outputs that were not compared, as a list; empty if there are none.

    ``one`` is the template with an output's name, ``several`` the template with the number of outputs.
    """
    return [one.format(names[0]) if len(names) == 1 else several.format(len(names))] if names else []


def _agreement(distance: OutputDifference) -> str:
    if distance.compared_as == "moments":
        return "alike in shape, finiteness, mean and standard deviation"
    if distance.compared_as == "sizes":
        return "alike in shape and finiteness"
    if distance.silent and distance.relative_l2:
        return "nearly zero on both sides; use other inputs (--inputs) for a meaningful comparison"
    how = " (rows in another order)" if distance.compared_as == "sets" else ""
    if n := distance.nonfinite_reference:
        finite = f"equal within {distance.relative_l2:.0g}" if distance.relative_l2 else "equal"
        elements = amount(n, "element")
        return f"{finite} in finite elements{how}, NaN or infinite on both sides in {elements}"
    if (steps := _steps(distance)) is not None and steps.same:
        return f"at most one step of {steps.scale:.2g} apart, in {_share(steps)} of the elements{how}"
    return f"{difference(distance.relative_l2)}{how}"


def _accepted(change: AcceptedChange) -> str:
    """Return a phrase on an output's elements that differ only because of rounding near a tie or a threshold."""
    one = change.n_differing == 1
    counted = f"{change.n_differing} of {change.n_elements} {change.what} of {change.output}"
    if change.reason == "threshold":
        return f"{counted} {'has' if one else 'have'} no counterpart"
    return f"{counted} {'differs' if one else 'differ'}, {'' if one else 'each '}within rounding of a tie"


def _steps(distance: OutputDifference) -> GridSteps | None:
    """Return the largest difference on a quantization grid that exceeds the usual limit; None if there is none."""
    steps = [
        output.steps for output in distance.outputs if output.steps and output.relative_l2 > output.limit
    ]
    return max(steps, key=lambda output: (output.most, output.share), default=None)


def _share(steps: GridSteps) -> str:
    return percent(steps.share, 0 if steps.share >= 0.02 else 2)


def _standing_out(output: OutputError) -> SliceError | None:
    """Return an output's worst slice if its error exceeds ``STANDS_OUT`` times that of the output; None otherwise."""
    worst = output.worst_slice
    return worst if worst is not None and worst.relative_l2 > STANDS_OUT * output.relative_l2 else None


def error(distance: OutputDifference) -> str:
    """Return a phrase on how far rejected outputs are apart: "relative L2 0.004, cosine 0.99999"."""
    # If no tolerance can accept the difference, as for another label, it is described first.
    parts = [distance.what] if distance.accepting_tolerance is None else []
    if distance.relative_l2:
        parts.append(f"relative L2 {distance.relative_l2:.1g}")
    if (steps := _steps(distance)) is not None:
        most = amount(steps.most, "step")
        parts.append(f"up to {most} of {steps.scale:.2g} in {_share(steps)} of the elements")
    worst = max(filter(None, map(_standing_out, distance.outputs)), key=lambda s: s.relative_l2, default=None)
    if worst is not None:
        parts.append(f"{worst.relative_l2:.1g} in row {worst.first} of axis {worst.axis}")
    if distance.max_error > 10 * distance.relative_l2:
        parts.append(f"largest error {distance.max_error:.1g} of the largest value")
    if distance.cosine is not None and distance.relative_l2:
        parts.append(f"cosine {likeness(distance.cosine)}")
    if distance.metric is not None and distance.metric_base is not None:
        parts.append(f"metric {distance.metric:.4g}, was {distance.metric_base:.4g}")
        slices = [part for part in distance.task if part.slice and part.value < part.base]
        parts += [f"{part.value:.4g} in {part.slice}" for part in slices]
    return ", ".join(parts)


def limit_missed(distance: OutputDifference, *, named: bool = False) -> str:
    """Return the error that exceeds its limit: "largest error 2.4 of the largest value, limit 0.1".

    Args:
        distance: Difference that exceeds a limit.
        named: Whether to name the output if there are several.
    """
    what = re.sub(
        r"largest error over the largest value ([^,]+),",
        r"largest error \1 of the largest value,",
        distance.what,
    )
    return what if named and len(distance.outputs) > 1 else re.sub("^output '.*?'( differs)?: ", "", what)


def beyond(distance: OutputDifference) -> str:
    """Return the limit that a difference exceeds: "beyond rounding", "beyond --tolerance 0.01"."""
    if distance.asked:
        return f"beyond --tolerance {distance.asked}"
    return "beyond rounding" if distance.tolerance is None else f"beyond --tolerance {distance.tolerance:g}"


def by_output(distance: OutputDifference) -> Table:
    """Return a table of each output's errors relative to the base's output; no rows if all outputs are identical."""
    differing = distance.outputs if any(output.relative_l2 for output in distance.outputs) else ()
    ranked = any(output.top1 is not None for output in differing)
    sliced = any(map(_standing_out, differing))
    heads = ["relative L2", *(["worst slice"] if sliced else []), "largest error", "cosine", "SNR"]
    heads += ["top-1 agreement"] if ranked else []
    return table(
        [Column("output", "name"), *map(Column, heads)],
        [
            (
                output.name,
                f"{output.relative_l2:.1e}",
                *([_worst_cell(output)] if sliced else []),
                f"{output.max_error:.1e}",
                "" if output.cosine is None else likeness(output.cosine),
                "" if output.snr_db is None else f"{output.snr_db:.0f} dB",
                *(["" if output.top1 is None else percent(output.top1, 2)] if ranked else []),
            )
            for output in differing
        ],
    )


def _worst_cell(output: OutputError) -> str:
    worst = output.worst_slice
    return "" if worst is None else f"{worst.relative_l2:.1e} (axis {worst.axis}: {worst.first})"


def outputs_cell(distance: OutputDifference | None, failures: Sequence[Failed]) -> str:
    """Return a table cell on a side's outputs.

    Without outputs, the cell contains the side's last failure, or "" if there is none.
    """
    if distance is None:
        return failures[-1].what if failures else ""
    if distance.ok or distance.empty:
        return outputs(distance).removeprefix("outputs ")
    return (
        f"{error(distance)}, {beyond(distance)}"
        if distance.comparable
        else f"not comparable: {distance.what}"
    )
