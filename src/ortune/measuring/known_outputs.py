"""Known facts about the outputs of a base: whether they are finite, and whether they are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ortune.measuring.activations import PreciseOutputs
from ortune.measuring.levels import OutputsByLevel
from ortune.outputs import rounding
from ortune.outputs.exact import Evaluations
from ortune.records import ClippedActivation, ExactCheck, LevelCheck, NonFiniteOutput, OutputDifference, Plan


@dataclass(slots=True, kw_only=True)
class KnownOutputs:
    """The outputs of a base, and the results of the checks on them.

    Attributes:
        evaluations: Evaluations in float64 of all models of the session.
        allow_nonfinite: Whether non-finite outputs are accepted.
        levels: Outputs of the side by optimisation level; not set before inputs are settled.
        folder: Folder with the outputs of the side as it runs; a resumed session may lack the folder.
        nonfinite: Outputs that contain NaN or infinities.
        clipped: Activations of a quantized base that exceed the range of their quantization.
        wrong_plan: The requested plan if it was replaced, since its outputs are wrong or it does not run; None if not.
        level_asked: Whether a comparison with the model without optimisation was requested.
        level_check: The result of that comparison; None if it was not made.
        exact: Comparison with the model evaluated in float64; None if it was not made.
        exact_of: Comparisons of other sides with their models in float64, by name of the side.
        renames: For each arm, a mapping of the arm's output names to the base's.
        known_differences: Differences that an interrupted session journalled, by key.
        own_rounding: The differences that rounding alone causes; None if not measured yet.
        precise: Outputs with activations in float32, keyed by plan, model and build; None if activations are not
            rounded, or the run failed.
    """

    evaluations: Evaluations
    allow_nonfinite: bool
    levels: OutputsByLevel = field(init=False)
    folder: Path = Path("-")
    nonfinite: tuple[NonFiniteOutput, ...] = ()
    clipped: tuple[ClippedActivation, ...] = ()
    wrong_plan: Plan | None = None
    level_asked: bool = False
    level_check: LevelCheck | None = None
    exact: ExactCheck | None = None
    exact_of: dict[str, ExactCheck] = field(default_factory=dict)
    renames: dict[str, Mapping[str, str]] = field(default_factory=dict)
    known_differences: dict[str, OutputDifference] = field(default_factory=dict)
    own_rounding: rounding.OwnRounding | None = None
    precise: dict[str, PreciseOutputs | None] = field(default_factory=dict)

    @property
    def claims(self) -> bool:
        """Whether the speed of the base can be claimed, since its outputs are finite or need not be."""
        return self.allow_nonfinite or not any(o.unusable_reference for o in self.nonfinite)

    @property
    def wrong(self) -> bool:
        """Whether ONNX Runtime's optimiser is known to make the outputs wrong."""
        return self.level_check is not None and self.level_check.wrong

    @property
    def refuted(self) -> bool:
        """Whether the outputs are known to be wrong at every optimisation level."""
        return self.exact is not None and self.exact.right is False and not self.exact.right_level
