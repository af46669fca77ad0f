"""New values for the inputs of each call: of the same shape, type and range, in separate arrays."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np


class Fresh:
    """Generator of new input values for the calls of one caller.

    Args:
        inputs: Inputs that change, in the form of ``FreshInput``.
        seed: Seed of the values.
    """

    def __init__(self, inputs: List[Dict[str, Any]], seed: List[int]) -> None:
        self.inputs = {entry["name"]: entry for entry in inputs}
        self._rng = np.random.default_rng(seed)
        self._count = 0

    def fill(self, feeds: Dict[str, Any], base: Dict[str, Any]) -> None:
        """Write new values into feeds, derived from base values that are not modified."""
        self._count += 1
        for name, entry in self.inputs.items():
            value = base.get(name)
            if isinstance(value, np.ndarray) and value.size:
                feeds[name] = self._values(value, entry)

    def _values(self, base: Any, entry: Dict[str, Any]) -> Any:
        if entry["kind"] == "text":
            return np.array(["%s %d" % (text, self._count) for text in base.ravel()], object).reshape(
                base.shape
            )
        if entry["kind"] == "integers" and entry["low"] is not None:
            return self._rng.integers(entry["low"], entry["high"], base.shape, base.dtype, endpoint=True)
        moved = np.roll(base, int(self._rng.integers(base.size)))
        if entry["kind"] == "floats":
            # Scaled by a factor between 0.5 and 1, so values stay within their range and do not repeat.
            moved *= base.dtype.type(1.0 - 0.5 * self._rng.random())
        return moved
