"""Result of ``ortune bisect``: the first node that differs, and the evidence."""

from __future__ import annotations

from typing import Literal

from ortune.records import (
    GridDifference,
    NotFinite,
    OutputDifference,
    Parting,
    Side,
    ValuePair,
)
from ortune.records.base import Record


class BisectResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune bisect --json``.

    Attributes:
        outputs: The distance between the outputs of the two sides.
        graphs: The graphs that were compared: "files", the models with the optimiser off; "optimised", ONNX Runtime's
            optimised graphs; "" if the outputs are equal.
        partings: Places where values diverge. The first is the answer; the others are in order of execution.
        first: The first place in that order, if it is not the answer.
        wrong: The side with wrong outputs, according to the model without optimisation or in float64. "both" if they
            are equal and wrong, "" if neither was shown to be wrong.
        judged_by: Evidence for ``wrong``.
        stepped: Values on one quantization grid that differ by several steps.
        not_finite: Where the non-finite values of each side come from.
        values: Every matched value, in the order of A's nodes.
        n_values_a, n_values_b: Numbers of compared values.
        bodies: Whether some nodes contain subgraphs, which were not compared.
        headline: The answer in one sentence.
    """

    base: Side
    new: Side
    outputs: OutputDifference
    graphs: Literal["", "files", "optimised"] = ""
    partings: tuple[Parting, ...] = ()
    first: Parting | None = None
    wrong: Literal["", "A", "B", "both"] = ""
    judged_by: Literal["", "optimiser-off", "float64"] = ""
    stepped: GridDifference | None = None
    not_finite: tuple[NotFinite, ...] = ()
    values: tuple[ValuePair, ...] = ()
    n_values_a: int = 0
    n_values_b: int = 0
    bodies: bool = False
    headline: str = ""
    notes: tuple[str, ...] = ()
