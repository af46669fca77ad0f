"""How far the outputs of a side are from the base's, in words."""

from __future__ import annotations

from ortune.records import ComparedSide, GridSteps, OutputDifference, OutputError, SliceError
from ortune.report.document import Column, Table, table
from ortune.report.numbers import difference, likeness, percent

STANDS_OUT = 3.0
"""Times the distance of the whole: a slice that is farther away is named."""


def outputs(found: OutputDifference) -> str:
    """How equal the outputs are, and how they were compared; beyond the tolerance, what accepts the difference."""
    if any(each.nonfinite_reference == each.n_elements for each in found.nonfinite) and not found.ok:
        return error(found)  # nothing was compared
    if not found.ok:
        accepting = found.accepting_tolerance
        accepts = "" if accepting is None or accepting >= 1.0 else f": --tolerance {accepting:g} accepts it"
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
    if (steps := _steps(found)) is not None and steps.same:
        return f"at most one step of {steps.scale:.2g} apart, in {_share(steps)} of the elements{how}"
    return f"{difference(found.relative_l2)}{how}"


def _steps(found: OutputDifference) -> GridSteps | None:
    """The worst of the outputs that are on a quantization grid and beyond the limit of what is the same elsewhere."""
    steps = [each.steps for each in found.outputs if each.steps and each.relative_l2 > each.limit]
    return max(steps, key=lambda each: (each.most, each.share), default=None)


def _share(steps: GridSteps) -> str:
    return percent(steps.share, 0 if steps.share >= 0.02 else 2)


def _standing_out(output: OutputError) -> SliceError | None:
    """The worst slice of an output where the distance of the whole does not speak for it."""
    worst = output.worst_slice
    return worst if worst is not None and worst.relative_l2 > STANDS_OUT * output.relative_l2 else None


def error(found: OutputDifference) -> str:
    """How far outputs are apart that are not the same: "relative L2 0.004, cosine 0.99999"."""
    # What no tolerance accepts is no matter of a distance: a label that flipped, say.
    parts = [found.what] if found.accepting_tolerance is None else []
    if found.relative_l2:
        parts.append(f"relative L2 {found.relative_l2:.1g}")
    if (steps := _steps(found)) is not None:
        most = "1 step" if steps.most == 1 else f"{steps.most} steps"
        parts.append(f"up to {most} of {steps.scale:.2g} in {_share(steps)} of the elements")
    worst = max(filter(None, map(_standing_out, found.outputs)), key=lambda s: s.relative_l2, default=None)
    if worst is not None:
        parts.append(f"{worst.relative_l2:.1g} in row {worst.first} of axis {worst.axis}")
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


def outputs_cell(side: ComparedSide) -> str:
    """The same, as a cell of the table of several sides."""
    found = side.outputs
    if found is None:
        return side.failures[-1].what if side.failures else ""
    if found.ok:
        return outputs(found).removeprefix("outputs ")
    return f"{error(found)}, {beyond(found)}" if found.comparable else f"WRONG: {found.what}"
