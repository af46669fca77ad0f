"""A built-in metric, and the data that its functions receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortune.outputs.files import Array

FEWEST = 5
"""Minimum number of rows of a class for a separate result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCase:
    """One set of inputs, with the base's outputs and the expected label.

    Attributes:
        base: Outputs of the base model, by name.
        inputs: Input values, by name.
        label: Label from the data; None if the data has no labels.
    """

    base: Mapping[str, Array]
    inputs: Mapping[str, Array]
    label: Array | None = None


Side = Sequence[Mapping[str, Array]]
"""Outputs of one model, by name, for each set of inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A built-in metric for the quality of a task's outputs, such as accuracy.

    Attributes:
        names: Returns the names of the outputs to which the metric applies.
        takes: Description of the outputs to which the metric applies.
        right: Returns the expected result for a set of inputs, from its label or the base's output.
        of: Returns the quality by slice name: first that of the whole output, named "", then that of each slice.
        count: Returns the number of rows, boxes, symbols or tokens in an expected result.
    """

    names: Callable[[TaskCase], list[str]]
    takes: str
    right: Callable[[TaskCase, str], Any]
    of: Callable[[Sequence[TaskCase], Sequence[Any], Side, str], dict[str, float]]
    count: Callable[[Any], int] = len


def rows_of(array: Array) -> Array:
    """Return an array as rows: all axes except the last are merged."""
    return array.reshape(-1, array.shape[-1])


def all_rows(side: Side, name: str) -> Array:
    """Return the rows of an output, concatenated over all sets of inputs."""
    return np.concatenate([rows_of(outputs[name]) for outputs in side])
