"""The check whether a row of a batch depends on the other rows, or on its padding."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.measure import OutputDifference

RowQuestion = Literal["batch", "padding"]
"""The comparison. batch: a row by itself and in a batch. padding: a row without padding and with masked padding."""


class RowDifference(Record, frozen=True, kw_only=True):
    """The outputs of one row, computed in two ways that should agree.

    Attributes:
        by: The change: the row in a batch, or with padding.
        size: Number of rows of the batch, or the length with padding.
        alone: The size before the change: 1, or the length without padding.
        outputs: Difference between the row's outputs before and after the change.
        differs: Whether the difference is beyond rounding.
    """

    by: RowQuestion
    size: int
    alone: int
    outputs: OutputDifference
    differs: bool


class RowCheck(Record, frozen=True, kw_only=True):
    """The comparisons of one row's outputs, computed in different ways.

    Attributes:
        compared: All comparisons that were possible; () if the model has no dynamic batch and no mask, or refuses
            other sizes.
    """

    compared: tuple[RowDifference, ...] = ()

    @property
    def differing(self) -> tuple[RowDifference, ...]:
        """The comparisons with a difference beyond rounding."""
        return tuple(difference for difference in self.compared if difference.differs)
