"""Growing columns of a trace, and their conversion to arrays."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from ortune.trace.table import Codes, Labels, Numbers

Key = TypeVar("Key", bound=Hashable)


class Numbered(Generic[Key]):
    """A growing column of keys, stored as one number per distinct key."""

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.codes = array("i")

    def add(self, keys: Sequence[Key]) -> None:
        """Append one row for each key."""
        numbers = self.numbers
        for key in dict.fromkeys(keys):
            if key not in numbers:
                numbers[key] = len(numbers)
        self.codes.extend([numbers[key] for key in keys])

    def done(self) -> Codes:
        """Return the finished column of key numbers."""
        return np.frombuffer(self.codes, dtype=np.int32).copy()


def labels(column: Numbered[str]) -> Labels:
    """Return the finished column of texts."""
    return Labels(codes=column.done(), texts=tuple(column.numbers))


def column(values: Sequence[int]) -> Numbers:
    """Convert integers to a column."""
    return np.asarray(values, dtype=np.int64) if len(values) else np.empty(0, dtype=np.int64)
