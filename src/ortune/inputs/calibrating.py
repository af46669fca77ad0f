"""Checks that the user's inputs are usable for calibration and output comparison: finite numbers, at least one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as ir

from ortune.inputs.declared import inspect_inputs
from ortune.inputs.feeds import FeedValue
from ortune.printable import amount

__all__ = ["fault", "masks"]


def masks(model: ir.Model) -> frozenset[str]:
    """Return the names of a model's inputs that are masks, in which minus infinity hides a position."""
    return frozenset(spec.name for spec in inspect_inputs(model).inputs if spec.role == "mask")


def fault(values: Mapping[str, FeedValue], hidden: Iterable[str]) -> str:
    """Return the reason that a set of inputs cannot be used for ranges or errors; "" if it can be.

    Args:
        values: Values by input name.
        hidden: Names of inputs in which minus infinity is valid.
    """
    for name, value in values.items():
        if not isinstance(value, np.ndarray):
            continue
        if value.ndim > 1 and not value.shape[0]:
            return f"input {name!r} has no rows"
        if value.dtype.kind != "f":
            continue
        bad = ~np.isfinite(value)
        if name in hidden:
            bad &= ~np.isneginf(value)
        if n := int(bad.sum()):
            return f"input {name!r} contains {amount(n, 'NaN or infinite value')}"
    return ""
