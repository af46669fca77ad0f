"""Decision whether a side's outputs are wrong, or which of two differing sides is, from independent references."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from ortune.outputs import rounding
from ortune.outputs.files import Array, decode, family, load_array, read_outputs
from ortune.records import OutputDifference

WRONG = 1e-3
"""Relative L2 distance above which outputs count as wrong instead of less exact."""
WRONG_ELSEWHERE = 2e-2
"""The same limit for providers that by default may compute with fewer bits than the model's types."""
WRONG_SLICE = 10.0
"""Factor on the limit that applies to the worst slice, such as a channel or the border of a map."""
FARTHER = 4.0
"""Minimum ratio of the sides' distances to the reference; below it, either both sides are wrong or neither is."""


def refutes(
    difference: OutputDifference, moved: OutputDifference | None, *, few_bits: bool, cpu: bool
) -> bool:
    """Return whether a difference from exact outputs shows that a side is wrong, not merely rounded.

    Args:
        difference: Difference of the side's outputs from the exact outputs.
        moved: Effect of rounding on the model's outputs; None if unknown.
        few_bits: Whether ``moved`` is the effect of rounding to few bits, as in a quantized model.
        cpu: Whether the side runs on the CPU, in the model's types.
    """
    if not rounding.far_beyond(difference, moved, few_bits=few_bits):
        return False
    if difference.accepting_tolerance is None:
        return True  # another shape, label or NaN
    limit = WRONG if cpu else WRONG_ELSEWHERE
    return difference.relative_l2 > limit or difference.worst_slice_l2 > WRONG_SLICE * limit


def finite_alone(difference: OutputDifference) -> bool:
    """Return whether the reference is finite and the outputs are not."""
    return any(of.unusable_candidate > of.nonfinite_reference == 0 for of in difference.nonfinite)


def wrong_side(a: Path, b: Path, reference: Mapping[str, Array]) -> Literal["", "A", "B"]:
    """Return the side whose outputs are far from a reference while the other side's are not; "" without such a side.

    Args:
        a: Folder with the base's outputs.
        b: Folder with the other side's outputs, under the base's names.
        reference: Correct outputs by name; only floating-point outputs are compared.
    """
    # Both are far if the reference belongs to another model, and neither if the difference is rounding.
    far_a, far_b = _farthest(a, reference), _farthest(b, reference)
    if max(far_a, far_b) < WRONG or max(far_a, far_b) < FARTHER * min(far_a, far_b):
        return ""
    return "A" if far_a > far_b else "B"


def float_outputs(folder: Path) -> dict[str, Array]:
    """Return the floating-point outputs in a worker's folder as float64, by name."""
    return {
        name: decode(np.asarray(load_array(value.files[0], value.onnx_type)), value.onnx_type).astype(
            np.float64
        )
        for name, value in read_outputs(folder).items()
        if value.kind == "tensor" and family(value.onnx_type) == "float"
    }


def _farthest(folder: Path, reference: Mapping[str, Array]) -> float:
    worst = 0.0
    for name, mine in float_outputs(folder).items():
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
        # A non-finite error counts as infinite, unless the reference is not finite either.
        far = np.inf if not np.isfinite(error) else error / norm if norm else error
        if np.isfinite(norm):
            worst = max(worst, far)
    return worst
