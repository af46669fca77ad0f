"""Determines the kind of a conversion fault from the outputs of source and model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np

from ortune.errors import OrtuneError
from ortune.outputs.files import Array, load_array, read_outputs
from ortune.records import CheckedCase, ConversionFault, FaultKind, OutputDifference

MOST_AXES = 5
_NEAR = 1e-3
"""Relative L2 below which outputs with reordered axes are equal."""


def fault_of(
    case: CheckedCase, source: Path, model: Path | None, *, frozen: bool, right: int, of: int
) -> ConversionFault:
    """Return the fault of a case.

    Args:
        case: A case that did not run, or whose outputs differ.
        source: Folder of the source's outputs.
        model: Folder of the model's outputs; None if there are none.
        frozen: Whether the model is correct at the sizes of its export.
        right: Number of input sets with outputs that match the source's.
        of: Number of all input sets.
    """
    if case.outputs is None or model is None:
        kind: FaultKind = "frozen-size" if frozen else "does-not-run"
        return ConversionFault(
            kind=kind, case=case.name, what=_at_sizes(case, f"the model does not run: {case.failed}")
        )
    output, kind, what = _first(case.outputs, source, model)
    if frozen and kind in ("values", "output-shape"):
        kind = "frozen-branch" if kind == "values" else "frozen-size"
        what += "; a size, or a branch that depends on it, was frozen during tracing"
    elif kind == "values" and right:
        kind = "frozen-branch"
        what += (
            f"; outputs match the source's on {right} of {of} sets of inputs, so a branch on values may have been "
            "frozen during tracing"
        )
    return ConversionFault(kind=kind, output=output, case=case.name, what=_at_sizes(case, what))


def not_compared(cases: Sequence[CheckedCase], notes: Sequence[str]) -> ConversionFault | None:
    """Return the fault that no outputs were compared; None if some were compared.

    Args:
        cases: Cases that ran.
        notes: Notes on inputs that the source rejected.
    """
    if any(case.outputs is not None for case in cases):
        return None
    why = notes[0] if notes else "the source ran on none of the inputs"
    return ConversionFault(
        kind="not-compared",
        what=f"no outputs were compared: {why}; pass inputs that it takes with --inputs PATH",
    )


def _at_sizes(case: CheckedCase, what: str) -> str:
    place = ", ".join(f"{name}={size}" for name, size in case.sizes.items())
    return f"at {place}: {what}" if place else what


def _first(difference: OutputDifference, source: Path, model: Path) -> tuple[str, FaultKind, str]:
    """Return the first output that differs, the kind of fault, and its description."""
    ours, theirs = read_outputs(model), read_outputs(source)
    if len(theirs) != len(ours):
        return "", "output-count", f"the source has {len(theirs)} outputs, and the model {len(ours)}"
    for output in difference.nonfinite:
        if output.nonfinite_candidate and not output.nonfinite_reference:
            n = output.nonfinite_candidate
            what = (
                f"output {output.name!r} overflows: {n} values are NaN or infinite, and finite in the source"
            )
            return output.name, "overflow", what
    for name, reference in theirs.items():
        if name not in ours or reference.kind != "tensor" or ours[name].kind != "tensor":
            continue
        try:
            old, new = load_array(reference.files[0]), load_array(ours[name].files[0])
        except OrtuneError:
            continue
        order = _permutation(old, new)
        if order is not None:
            what = (
                f"output {name!r} equals the source's with its axes reordered (Transpose perm={list(order)})"
            )
            return name, "axes-swapped", what
        if old.shape != new.shape:
            shapes = f"{_text(new.shape)}, and {_text(old.shape)} in the source"
            return name, "output-shape", f"output {name!r} is {shapes}"
    bad = [output for output in difference.outputs if output.relative_l2 > output.limit]
    return (bad[0].name if bad else ""), "values", difference.what


def _permutation(old: Array, new: Array) -> tuple[int, ...] | None:
    """Return the permutation of axes that makes the outputs equal; None if there is none, or if none is needed."""
    if (
        old.dtype.kind != "f"
        or not 2 <= old.ndim == new.ndim <= MOST_AXES
        or old.size != new.size
        or not old.size
    ):
        return None
    if old.shape == new.shape and _near(old, new):
        return None
    return next(
        (
            order
            # At most 5 axes, so at most 120 orders.
            for order in permutations(range(old.ndim))
            if tuple(old.shape[i] for i in order) == new.shape and _near(np.transpose(old, order), new)
        ),
        None,
    )


def _near(a: Array, b: Array) -> bool:
    size = float(np.linalg.norm(np.asarray(a, dtype=np.float64)))
    return (
        float(np.linalg.norm(np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)))
        <= _NEAR * size
    )


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a scalar"
