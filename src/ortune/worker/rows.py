"""Calls with few rows of a batch at a time, which need less memory than all rows at once."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np


class InRows:
    """Splits the batches of a session's calls into runs of rows with similar lengths.

    Args:
        session: Session with dynamic dimensions, whose names determine the axis of rows.
        most: The largest number of rows in one run.

    Attributes:
        split: Whether a call had more rows.

    Raises:
        ValueError: The outputs have no row for each row of the inputs.
    """

    def __init__(self, session: Any, most: int) -> None:
        self.most, self.split = most, False
        inputs = {value.name: list(value.shape) for value in session.get_inputs()}
        outputs = [list(value.shape) for value in session.get_outputs()]
        symbols = [size for size in outputs[0] if isinstance(size, str) and all(size in o for o in outputs)]
        symbols.sort(key=lambda size: "batch" not in size.lower())  # the others keep their order
        rows = symbols[0] if symbols else ""
        self.inputs = {name: shape.index(rows) for name, shape in inputs.items() if rows in shape}
        if not self.inputs:
            raise ValueError("the outputs have no row for each row of the inputs")
        self.outputs = [shape.index(rows) for shape in outputs]
        self.mask, self.lengths = _lengths(inputs, outputs, rows)

    def run(self, call: Callable[[Dict[str, Any]], Any], feeds: Dict[str, Any]) -> List[Any]:
        """Return the outputs of one call, split into several runs if it has more rows than the limit.

        Args:
            call: Runs the session with some of the rows, and returns all outputs in the model's order.
            feeds: Input arrays by name.
        """
        name, axis = next(iter(self.inputs.items()))
        n_rows = feeds[name].shape[axis]
        if n_rows <= self.most:
            return list(call(feeds))
        self.split = True
        lengths = self._lengths_of(feeds)
        # The longest first: no later run needs more memory than the first.
        order = np.arange(n_rows) if lengths is None else np.argsort(-lengths, kind="stable")
        found: List[Any] = []
        for start in range(0, n_rows, self.most):
            rows = order[start : start + self.most]
            longest = None if lengths is None else max(1, int(lengths[rows].max()))
            results = call({name: self._part(name, value, rows, longest) for name, value in feeds.items()})
            for number, (result, axis) in enumerate(zip(results, self.outputs)):
                if not found or len(found) <= number:
                    shape = list(result.shape)
                    shape[axis] = n_rows
                    found.append(np.empty(shape, result.dtype))
                found[number][(slice(None),) * axis + (rows,)] = result
        return found

    def _lengths_of(self, feeds: Dict[str, Any]) -> Optional[Any]:
        """Return the unmasked length of each row; None if rows cannot be shorter."""
        if not self.mask or self.mask not in feeds:
            return None
        mask = feeds[self.mask] != 0
        return np.where(mask.any(axis=1), mask.shape[1] - mask[:, ::-1].argmax(axis=1), 0)

    def _part(self, name: str, value: Any, rows: Any, longest: Optional[int]) -> Any:
        """Return some rows of an input, without the padding that all of them have at the end."""
        part = value.take(rows, self.inputs[name]) if name in self.inputs else value
        if longest is None or name not in self.lengths:
            return part
        return np.ascontiguousarray(part[(slice(None),) * self.lengths[name] + (slice(longest),)])


def _lengths(inputs: Dict[str, List[Any]], outputs: List[List[Any]], rows: str) -> Tuple[str, Dict[str, int]]:
    """Return the mask of padding and the axis of the length by input; no mask if an output has the length too."""
    for name, shape in inputs.items():
        if "mask" not in name.lower() or len(shape) != 2 or shape[0] != rows or not isinstance(shape[1], str):
            continue
        # An output without a name for a dimension may have the length.
        if all(size == rows or isinstance(size, int) for shape_ in outputs for size in shape_):
            return name, {other: s.index(shape[1]) for other, s in inputs.items() if shape[1] in s}
    return "", {}
