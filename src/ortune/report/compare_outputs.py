"""How far the outputs of a side are from the base's, in words."""

from __future__ import annotations

from ortune.records import ComparedSide, OutputDifference
from ortune.report.document import Column, Table, table
from ortune.report.numbers import difference, likeness, percent


def outputs(found: OutputDifference) -> str:
    """How equal the outputs are, and how they were compared; beyond the tolerance, what accepts the difference."""
    if not found.ok:
        accepting = found.accepting_tolerance
        accepts = "" if accepting is None else f": --tolerance {accepting:g} accepts it"
        return f"outputs differ: {error(found)}; {beyond(found)}{accepts}"
    return f"outputs {alike(found)}"


def alike(found: OutputDifference) -> str:
    """How equal outputs are that are the same: "equal to 3e-7 (as sets)"."""
    if found.compared_as == "moments":
        return "alike by shape, finiteness and moments"
    if found.silent and found.relative_l2:
        return "nearly zero on both sides, so other inputs would tell more (--inputs)"
    how = " (as sets)" if found.compared_as == "sets" else ""
    if n := found.nonfinite_reference:
        finite = f"equal to {found.relative_l2:.0g}" if found.relative_l2 else "equal"
        elements = "1 element" if n == 1 else f"{n} elements"
        return f"{finite} where finite{how}, NaN or infinite on both sides in {elements}"
    return f"{difference(found.relative_l2)}{how}"


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
    if found.metric is not None and found.metric_base is not None:
        parts.append(f"metric {found.metric:.4g}, was {found.metric_base:.4g}")
    return ", ".join(parts)


def beyond(found: OutputDifference) -> str:
    """Which limit a difference exceeds."""
    if found.asked:
        return f"beyond --tolerance {found.asked}"
    return "beyond exact" if found.tolerance is None else f"beyond --tolerance {found.tolerance:g}"


def by_output(found: OutputDifference) -> Table:
    """How far each output is from the base's; no rows where all are the same to the last bit."""
    differing = found.outputs if any(output.relative_l2 for output in found.outputs) else ()
    ranked = any(output.top1 is not None for output in differing)
    heads = ["relative L2", "largest error", "cosine", "SNR", *(["top-1 agreement"] if ranked else [])]
    return table(
        [Column("output", "name"), *map(Column, heads)],
        [
            (
                output.name,
                f"{output.relative_l2:.1e}",
                f"{output.max_error:.1e}",
                "" if output.cosine is None else likeness(output.cosine),
                "" if output.snr_db is None else f"{output.snr_db:.0f} dB",
                *(["" if output.top1 is None else percent(output.top1, 2)] if ranked else []),
            )
            for output in differing
        ],
    )


def outputs_cell(side: ComparedSide) -> str:
    """The same, as a cell of the table of several sides."""
    found = side.outputs
    if found is None:
        return side.failures[-1].what if side.failures else ""
    if found.ok:
        return outputs(found).removeprefix("outputs ")
    return f"{error(found)}, {beyond(found)}" if found.comparable else f"WRONG: {found.what}"
