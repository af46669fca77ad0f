"""Findings that are accumulated while outputs are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ortune.graph.grids import Grid
from ortune.outputs.figures import nonfinite
from ortune.outputs.files import Array
from ortune.records import AcceptedBy, AcceptedChange, NonFiniteOutput, OutputError

FEWEST_TO_JUDGE = 4  # minimum number of values that count as wrong if all of them differ


@dataclass(slots=True, kw_only=True)
class Findings:
    """Findings that are accumulated during a comparison.

    Attributes:
        what: The failure with the largest ``times`` (ratio to the limit), or the first that no tolerance accepts.
        wrong: The first failure that makes an output wrong instead of less exact.
        unlike: The failure of the first exactly compared output whose values all differ; the output counts as wrong
            if the model has no floating-point outputs.
        inexact: Whether some tolerance accepts every failure.
        floats: Number of floating-point outputs compared so far.
        as_moments: Whether outputs are compared by their moments, because the reference differs between runs.
        may_be_nonfinite: Whether outputs without finite elements are accepted.
        grids: Quantization grids of the reference's outputs, by name.
        labels: Classes of outputs that are maps on one side, in the column order of the other side, by name.
        tolerance: The user's tolerance for outputs of kind "values"; None if not given.
        accepted: Accepted differences of elements and rows, and outputs without elements.
        elements: Number of elements of both sides compared so far.
    """

    relative_l2: float = 0.0
    max_error: float = 0.0
    cosine: float | None = None
    what: str = ""
    times: float = 0.0
    wrong: str = ""
    unlike: str = ""
    inexact: bool = True
    floats: int = 0
    as_moments: bool = False
    may_be_nonfinite: bool = False
    grids: Mapping[str, Grid] = field(default_factory=dict)
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tolerance: float | None = None
    ways: set[str] = field(default_factory=set)
    outputs: list[OutputError] = field(default_factory=list)
    nonfinite: list[NonFiniteOutput] = field(default_factory=list)
    accepted: list[AcceptedChange] = field(default_factory=list)
    elements: int = 0

    def fail(self, what: str, *, wrong: bool = True, times: float = math.inf) -> None:
        """Record a difference that exceeds the tolerance.

        Args:
            what: Sentence that describes the difference.
            wrong: Whether the output is wrong instead of less exact.
            times: Ratio to the limit; infinite if no tolerance accepts the difference.
        """
        if times > self.times:
            self.what, self.times = what, times
        self.inexact = self.inexact and math.isfinite(times)
        if wrong:
            self.wrong = self.wrong or what

    def differ(self, what: str, differing: int, count: int) -> None:
        """Record a failure of an output that is compared exactly: ``differing`` of ``count`` values differ."""
        self.fail(what, wrong=False)
        if count >= FEWEST_TO_JUDGE and differing == count:
            self.unlike = self.unlike or what

    def accept(self, label: str, reason: AcceptedBy, differing: int, count: int, noun: str) -> None:
        """Record accepted differences, which rounding may cause."""
        self.accepted.append(
            AcceptedChange(output=label, reason=reason, n_differing=differing, n_elements=count, what=noun)
        )

    def count_nonfinite(self, label: str, arrays: tuple[Array, Array], types: tuple[str, str]) -> None:
        """Record non-finite elements; fail if neither side has finite elements, unless such outputs are accepted."""
        (all_old, unusable_old), (all_new, unusable_new) = map(nonfinite, arrays, types)
        if not (all_old or all_new) or not (arrays[0].size and arrays[1].size):
            return
        self.nonfinite.append(
            NonFiniteOutput(
                name=label,
                n_elements=arrays[0].size,
                nonfinite_reference=all_old,
                nonfinite_candidate=all_new,
                unusable_reference=unusable_old,
                unusable_candidate=unusable_new,
            )
        )
        # Only if both sides lack finite elements: otherwise the comparison of values reports the difference.
        if min(all_old / arrays[0].size, all_new / arrays[1].size) >= 1.0 and not self.may_be_nonfinite:
            what = f"output {label!r} has no finite element on either side, so nothing was compared"
            self.fail(what, wrong=False)
