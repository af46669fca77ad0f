"""What became of a trial, and the blocks that trials make."""

from __future__ import annotations

import math
from typing import Literal

from ortune.records.base import Record, Value
from ortune.records.machine import Sensors
from ortune.records.protocol import FailureReason, TrialDone


class Measured(Record, frozen=True, kw_only=True, tag="measured", tag_field="outcome"):
    """A trial that completed."""

    plan: str
    done: TrialDone
    sensors: Sensors = Sensors()
    log: tuple[str, ...] = ()
    outputs_path: str = ""
    started_at: str = ""
    elapsed_ns: int = 0


class Failed(Record, frozen=True, kw_only=True, tag="failed", tag_field="outcome"):
    """A trial that did not complete. Data: never an exception, never dropped."""

    plan: str
    reason: FailureReason
    what: str
    phase: str = ""
    log: tuple[str, ...] = ()
    started_at: str = ""
    elapsed_ns: int = 0


Outcome = Measured | Failed


class BlockTrial(Record, frozen=True, kw_only=True):
    """One trial's place in a block.

    Attributes:
        group: Trials of the same group were alive together and took turns. A block has one, or more where memory
            does not hold all of its processes at once, each with a baseline of its own.
    """

    arm: str
    group: int = 0
    outcome: Outcome


class Block(Record, frozen=True, kw_only=True):
    """One trial of every live arm and the baseline, alive together and taking turns, loaded in the order listed.

    ``dropped`` names the rule under which the whole block was left out, "" when it counts.
    """

    index: int
    phase: Literal["pilot", "calibration", "race", "confirm"]
    trials: tuple[BlockTrial, ...]
    dropped: str = ""


class GridSteps(Record, frozen=True, kw_only=True):
    """How far an output that comes from QuantizeLinear is from its reference, in steps of its quantization grid.

    Attributes:
        scale: The step; of several scales the largest.
        most: Steps between the two where they are farthest apart.
        share: Of the elements that differ by a step or more.
        same: At most one step, in no more than about half of the elements.
    """

    scale: float
    most: int
    share: float
    same: bool


class SliceError(Record, frozen=True, kw_only=True):
    """How far neighbouring slices of an output, along one axis, are from their reference.

    Attributes:
        first, last: Of the indices on the axis.
        relative_l2: Of the worst of them, to its own reference; where that is nearly zero, to a floor from the whole.
        dead: "zero" or "constant" where the candidate is that and the reference varies; "" where it is neither.
    """

    axis: int
    first: int
    last: int
    relative_l2: float
    dead: Literal["", "zero", "constant"] = ""


class OutputError(Record, frozen=True, kw_only=True):
    """How far one floating-point output is from its reference.

    Attributes:
        max_error: Largest absolute error over the largest reference value.
        cosine: None where that has no meaning.
        snr_db: Of the reference over the error; None where there is no error.
        top1: Share of rows, along the last of two or three dimensions, whose largest element is the same; None for
            outputs of another shape.
        n_rows: How many rows these are.
        limit: Of the relative L2, for "the same".
        silent: The reference is nearly zero all over (its root mean square is below 1e-5), so that distances are those
            to that floor and tell little.
        steps: Where the output comes from QuantizeLinear on both sides, and differs.
        worst_slice: Along all axes of moderate length; None where the output has none.
        dead_slices: Those whose values the candidate lost, whatever the distance of the whole is.
    """

    name: str
    relative_l2: float
    max_error: float
    cosine: float | None = None
    snr_db: float | None = None
    top1: float | None = None
    n_rows: int = 0
    limit: float = 0.0
    silent: bool = False
    steps: GridSteps | None = None
    worst_slice: SliceError | None = None
    dead_slices: tuple[SliceError, ...] = ()


class NonFiniteOutput(Record, frozen=True, kw_only=True):
    """The elements of one output that are no finite numbers.

    Attributes:
        n_elements: Of the reference.
        nonfinite_reference, nonfinite_candidate: NaN and infinities.
        unusable_reference, unusable_candidate: Those that no healthy model gives: NaN and +infinity, and -infinity
            where nothing is finite. Among finite numbers -infinity is the mask of a score, or the logarithm of 0.
    """

    name: str
    n_elements: int
    nonfinite_reference: int = 0
    nonfinite_candidate: int = 0
    unusable_reference: int = 0
    unusable_candidate: int = 0


class TaskFigure(Record, frozen=True, kw_only=True):
    """What a built-in metric says of an output, or of a slice of it.

    Attributes:
        slice: "class 3", "input 7"; "" for the whole output.
        base, value: Of the base's outputs and of these; higher is better, and 1 is best.
    """

    output: str
    slice: str = ""
    base: float
    value: float


class OutputDifference(Record, frozen=True, kw_only=True):
    """How far apart the outputs of two plans are.

    Attributes:
        relative_l2: Largest relative L2 distance over the floating-point outputs.
        max_error: Largest absolute error over the largest reference value.
        compared_as: "values", "sets" (behind NMS, TopK, ArgMax) or "moments" (the model differs from itself).
        what: One sentence when not ok.
        comparable: False where the outputs are no answers to the same question: another shape or kind, NaN where the
            reference has none, or nothing in common with it.
        cosine: Smallest cosine between an output and its reference, over the floating-point outputs; None where that
            has no meaning.
        top1: Share of rows of an output whose largest element is the same, the least of all outputs; None where none
            has rows of scores.
        tolerance: The number that the user gave; None for the limits of "the same", and for a budget.
        asked: The budget that the user gave, "cosine>=0.999"; "" for none.
        outputs: Every floating-point output that was compared as values.
        metric_base, metric: The metric that was asked for, of the reference and of these outputs; None where none was,
            and for NaN. Of a built-in one, the output that lost most.
        task: What a built-in metric says of each output, and of its worst slice.
        accepting_tolerance: One that accepts the difference; None where none does, and where none is needed.
        silent: There are floating-point outputs, and with every input the reference's are nearly zero all over: what is
            computed looks alike, whatever it is.
        nonfinite: Every floating-point output that has NaN or infinities on a side.
        nonfinite_reference, nonfinite_candidate: Elements of all outputs that no healthy model gives; see
            ``NonFiniteOutput.unusable_reference``. Over all inputs.
    """

    ok: bool
    relative_l2: float = 0.0
    max_error: float = 0.0
    compared_as: Literal["values", "sets", "moments"] = "values"
    what: str = ""
    comparable: bool = True
    cosine: float | None = None
    top1: float | None = None
    tolerance: float | None = None
    accepting_tolerance: float | None = None
    asked: str = ""
    outputs: tuple[OutputError, ...] = ()
    metric_base: float | None = None
    metric: float | None = None
    task: tuple[TaskFigure, ...] = ()
    silent: bool = False
    nonfinite: tuple[NonFiniteOutput, ...] = ()
    nonfinite_reference: int = 0
    nonfinite_candidate: int = 0

    @property
    def worst_slice_l2(self) -> float:
        """The relative L2 of the worst slice over all outputs; infinite where there is no distance.

        Outputs that have nothing in common have one too: it tells which layers are to blame.
        """
        if not (self.comparable or self.outputs):
            return math.inf
        slices = [output.worst_slice.relative_l2 for output in self.outputs if output.worst_slice is not None]
        return max([self.relative_l2, *slices])


class LevelCheck(Record, frozen=True, kw_only=True):
    """The outputs of a plan against those of the same model that ONNX Runtime's optimiser has not touched.

    Attributes:
        level: Of optimisation, of the plan.
        reference: The level held against: "disable", or "basic" where the model does not run without optimisation.
        wrong: They are far beyond what rounding explains.
        outputs: How far they are apart.
        moved_relative_l2: By which rounding alone moves the reference; None where that was not asked, or not known.
        right: The highest level whose outputs are right.
        right_settings: What must be set besides, so that they are right there.
        node: From which on the outputs of a wrong plan are others; "" where that is not known.
        node_asked: Whether that was looked for.
    """

    level: str
    reference: str
    wrong: bool
    outputs: OutputDifference
    moved_relative_l2: float | None = None
    right: str
    right_settings: dict[str, Value] = {}
    node: str = ""
    node_asked: bool = False


class Figures(Record, frozen=True, kw_only=True):
    """Medians over a side's trials; each is a description, the claim is in ``Comparison``.

    Attributes:
        latency_ns: The p50: the median over processes of each one's own p50, with the span of the middle half of the
            processes.
        objective_ns: The time a run that was compared, where that is another: its p95, p25 or p10, or for throughput
            the wall time of all callers over their runs. None where it is the p50, or no time of a run at all.
        p95_ns: The same of each one's own p95; None in documents of older versions.
        first_load_ns: The load that wrote what a setting keeps on disk, once; ``load_ns`` is then of loads that read
            it. None where nothing is kept, or that load was not seen.
        spread_ratio: p90 over p10 of the runs within a process, the variance that users feel; with its 95 %
            interval over processes, None below six of them.
    """

    latency_ns: float
    latency_low_ns: float
    latency_high_ns: float
    load_ns: float
    first_run_ns: float
    cpu_per_run_ns: float
    peak_bytes: float | None = None
    spread_ratio: float | None = None
    spread_low_ratio: float | None = None
    spread_high_ratio: float | None = None
    n_trials: int = 0
    n_runs: int = 0
    objective_ns: float | None = None
    objective_low_ns: float | None = None
    objective_high_ns: float | None = None
    p95_ns: float | None = None
    first_load_ns: float | None = None
