"""Which outputs are wrong, by outputs that no side made: of one side, and of two that differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from ortune.outputs import rounding
from ortune.outputs.files import Array, decode, family, load_array, read_outputs
from ortune.records import OutputDifference

WRONG = 1e-3
"""Relative L2 from which outputs are wrong, not less exact."""
WRONG_ELSEWHERE = 2e-2
"""The same of a provider whose default may compute in fewer bits than the model says."""
WRONG_SLICE = 10.0
"""Times as much, of the worst slice: a border of a map, a channel."""
FARTHER = 4.0
"""Times as far from the reference as the other side: else both are, or neither."""


def refutes(
    difference: OutputDifference, moved: OutputDifference | None, *, few_bits: bool, cpu: bool
) -> bool:
    """Return whether a difference from exact outputs shows that a side is wrong, and not merely rounded.

    Args:
        difference: Of the side's outputs from the exact ones.
        moved: What rounding alone does to the model's outputs; None if that is not known.
        few_bits: That was rounding to few bits.
        cpu: The side runs on the CPU, in the types of the model.
    """
    if not rounding.far_beyond(difference, moved, few_bits=few_bits):
        return False
    if difference.accepting_tolerance is None:
        return True  # another shape, label or NaN
    limit = WRONG if cpu else WRONG_ELSEWHERE
    return difference.relative_l2 > limit or difference.worst_slice_l2 > WRONG_SLICE * limit


def wrong_side(a: Path, b: Path, reference: Mapping[str, Array]) -> Literal["", "A", "B"]:
    """Return the side whose outputs are far from a reference, where the other's are not; "" if that is not so.

    Args:
        a: Folder of the outputs of the base.
        b: That of the other side, under the names that the base's have.
        reference: Outputs that are right, by name; those that are no floating point are passed over.
    """
    # Both are far where the reference itself is another model's, and neither where it is rounding.
    far_a, far_b = _farthest(a, reference), _farthest(b, reference)
    if max(far_a, far_b) < WRONG or max(far_a, far_b) < FARTHER * min(far_a, far_b):
        return ""
    return "A" if far_a > far_b else "B"


def numbers(folder: Path) -> dict[str, Array]:
    """Return the floating-point outputs that a worker left, by name, as float64."""
    return {
        name: decode(np.asarray(load_array(value.files[0], value.onnx_type)), value.onnx_type).astype(
            np.float64
        )
        for name, value in read_outputs(folder).items()
        if value.kind == "tensor" and family(value.onnx_type) == "float"
    }


def _farthest(folder: Path, reference: Mapping[str, Array]) -> float:
    worst = 0.0
    for name, mine in numbers(folder).items():
        right = reference.get(name)
        if right is None:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            norm = float(np.linalg.norm(right))
            error = (
                float(np.linalg.norm(mine.reshape(-1) - right.reshape(-1)))
                if mine.size == right.size
                else np.inf
            )
        # What is not finite is right where the reference is not either, and infinitely far elsewhere.
        far = np.inf if not np.isfinite(error) else error / norm if norm else error
        if np.isfinite(norm):
            worst = max(worst, far)
    return worst
