"""How far the outputs of a side are from the base's, in words."""

from __future__ import annotations

from ortune.records import ComparedSide, OutputDifference
from ortune.report.numbers import difference, likeness


def outputs(found: OutputDifference) -> str:
    """How equal the outputs are, and how they were compared; beyond the tolerance, what accepts the difference."""
    if not found.ok:
        accepting = found.accepting_tolerance
        accepts = "" if accepting is None else f": --tolerance {accepting:g} accepts it"
        return f"outputs differ: {error(found)}; {beyond(found)}{accepts}"
    if found.compared_as == "moments":
        return "outputs alike by shape, finiteness and moments"
    how = " (as sets)" if found.compared_as == "sets" else ""
    return f"outputs {difference(found.relative_l2)}{how}"


def error(found: OutputDifference) -> str:
    """How far outputs are apart that are not the same: "relative L2 0.004, cosine 0.99999"."""
    # What no tolerance accepts is no matter of a distance: a label that flipped, say.
    parts = [found.what] if found.accepting_tolerance is None else []
    if found.relative_l2:
        parts.append(f"relative L2 {found.relative_l2:.1g}")
    if found.max_error > 10 * found.relative_l2:
        parts.append(f"largest error {found.max_error:.1g} of the largest value")
    if found.cosine is not None and found.relative_l2:
        parts.append(f"cosine {likeness(found.cosine)}")
    return ", ".join(parts)


def beyond(found: OutputDifference) -> str:
    """Which limit a difference exceeds."""
    return "beyond exact" if found.tolerance is None else f"beyond --tolerance {found.tolerance:g}"


def outputs_cell(side: ComparedSide) -> str:
    """The same, as a cell of the table of several sides."""
    found = side.outputs
    if found is None:
        return side.failures[-1].what if side.failures else ""
    if found.ok:
        return outputs(found).removeprefix("outputs ")
    return f"{error(found)}, {beyond(found)}" if found.comparable else f"WRONG: {found.what}"
