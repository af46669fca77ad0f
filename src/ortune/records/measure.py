"""Outcomes of trials, blocks of trials, and differences of outputs."""

from __future__ import annotations

import math
from typing import Literal

from ortune.records.base import Record, Value
from ortune.records.machine import Sensors
from ortune.records.protocol import FailureReason, TrialDone

ROUNDING_L2 = 1e-4
"""Relative L2 distance up to which outputs in float32 count as the same."""


class Measured(Record, frozen=True, kw_only=True, tag="measured", tag_field="outcome"):
    """A completed trial: its times and memory, sensor readings, the worker's log, and the folder of its outputs."""

    plan: str
    done: TrialDone
    sensors: Sensors = Sensors()
    log: tuple[str, ...] = ()
    outputs_path: str = ""
    started_at: str = ""
    elapsed_ns: int = 0


class Failed(Record, frozen=True, kw_only=True, tag="failed", tag_field="outcome"):
    """A failed trial, stored as data and never dropped."""

    plan: str
    reason: FailureReason
    what: str
    phase: str = ""
    log: tuple[str, ...] = ()
    started_at: str = ""
    elapsed_ns: int = 0


Outcome = Measured | Failed


class BlockTrial(Record, frozen=True, kw_only=True):
    """One trial of a block.

    Attributes:
        arm: Name of the configuration.
        group: Number of its group. Trials of one group were alive together and took turns. A block has several groups,
            each with its own baseline, if its processes do not fit in memory together.
    """

    arm: str
    group: int = 0
    outcome: Outcome


class Block(Record, frozen=True, kw_only=True):
    """One trial of each configuration and of the baseline, alive together and taking turns, in the order of loading.

    ``dropped`` names the rule that excludes the whole block; "" if it counts.
    """

    index: int
    phase: Literal["pilot", "calibration", "race", "confirm"]
    trials: tuple[BlockTrial, ...]
    dropped: str = ""


class GridSteps(Record, frozen=True, kw_only=True):
    """The distance of an output of QuantizeLinear from its reference, in steps of the quantization grid.

    Attributes:
        scale: The step; the largest of several scales.
        most: The largest distance, in steps.
        share: Fraction of the elements that differ by a step or more.
        same: Whether at most about half of the elements differ, and by at most one step.
    """

    scale: float
    most: int
    share: float
    same: bool


class SliceError(Record, frozen=True, kw_only=True):
    """The error of neighbouring slices of an output along one axis.

    Attributes:
        first, last: Index of the first and of the last slice on the axis.
        relative_l2: The error of the worst slice relative to its reference, or to a floor from the whole output if the
            reference is nearly zero.
        dead: "zero" or "constant" if the candidate is constant and the reference varies; otherwise "".
    """

    axis: int
    first: int
    last: int
    relative_l2: float
    dead: Literal["", "zero", "constant"] = ""


class OutputError(Record, frozen=True, kw_only=True):
    """The error of one floating-point output.

    Attributes:
        max_error: Largest absolute error divided by the largest reference value.
        cosine: Cosine similarity; None if undefined.
        snr_db: Signal-to-noise ratio in dB; None if there is no error.
        top1: Fraction of rows, along the last of two or three dimensions, with the same largest element; None for
            outputs of another rank.
        n_rows: Number of these rows.
        limit: The relative L2 error up to which the output counts as the same.
        silent: Whether the reference is nearly zero (root mean square below 1e-5), so distances are relative to that
            floor and mean little.
        steps: The distance in quantization steps, if the output comes from QuantizeLinear on both sides and differs.
        worst_slice: The worst slice along any axis of moderate length; None if there is none.
        dead_slices: Slices whose values the candidate lost, regardless of the total error.
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
    """The non-finite elements of one output.

    Attributes:
        n_elements: Number of elements of the reference.
        nonfinite_reference, nonfinite_candidate: Number of NaN and infinite elements.
        unusable_reference, unusable_candidate: Number of elements that indicate a defect: NaN, +infinity, and -infinity
            if nothing is finite. Otherwise -infinity is a mask or the logarithm of 0.
    """

    name: str
    n_elements: int
    nonfinite_reference: int = 0
    nonfinite_candidate: int = 0
    unusable_reference: int = 0
    unusable_candidate: int = 0


AcceptedBy = Literal["tie", "threshold", "empty", "random"]
"""Why differing outputs count as equal: best scores tie within rounding, a row is at a threshold, an output has no
elements on either side, or an output is random."""


class AcceptedChange(Record, frozen=True, kw_only=True):
    """Elements of an output that differ although the outputs count as equal.

    Attributes:
        what: The kind of the counted elements: "labels", "indices", "rows", "values".
    """

    output: str
    reason: AcceptedBy
    what: str
    n_differing: int
    n_elements: int


class TaskFigure(Record, frozen=True, kw_only=True):
    """The value of a built-in metric for an output, or for a slice of it.

    Attributes:
        slice: "class 3", "input 7"; "" for the whole output.
        base, value: The metric of the base's outputs and of the compared outputs; higher is better, and 1 is best.
    """

    output: str
    slice: str = ""
    base: float
    value: float


RoundingCause = Literal["", "int8-activations"]
"""Cause of a difference: computation in lower precision, by ONNX Runtime's default or set in the model."""


class OutputDifference(Record, frozen=True, kw_only=True):
    """The difference between the outputs of two plans.

    Attributes:
        relative_l2: Largest relative L2 error of the floating-point outputs.
        max_error: Largest absolute error divided by the largest reference value.
        compared_as: "values", "sets" (rows after NMS or TopK are in another order) or "moments" (the model is not
            deterministic).
        what: The difference in one sentence; "" if ``ok``.
        comparable: False if the outputs cannot be compared: another shape or kind, NaN that the reference does not
            have, or nothing in common.
        cosine: Smallest cosine similarity between an output and its reference, over the floating-point outputs; None if
            undefined.
        top1: Fraction of rows with the same largest element, in the output with the smallest fraction; None if no
            output has rows of scores.
        tolerance: The number given by the user; None for the default limits, and for a budget.
        asked: The budget given by the user, "cosine>=0.999"; "" for none.
        judged_by: The name of the requested metric; "" for none.
        outputs: Every floating-point output that was compared as values.
        metric_base, metric: The requested metric of the reference outputs and of the compared outputs; None without a
            metric, and for NaN. A built-in metric is that of the output that lost most.
        task: The built-in metric of each output, and of its worst slice.
        accepting_tolerance: A tolerance that accepts the difference; None if there is none, or none is needed.
        silent: Whether there are floating-point outputs and all references are nearly zero, so the comparison is not
            meaningful.
        cause: "int8-activations" if the difference is only the rounding of activations to int8 in MatMulNBits: outputs
            are the same with activations in float32. "" if the cause is not known.
        reference_wrong: Whether the reference outputs are known to be wrong, so equal outputs are wrong too.
        without_cause_l2: The remaining relative L2 error if ``cause`` is removed.
        without_cause_by: The options that remove ``cause``, such as "--set qdq_matmulnbits_accuracy_level=1".
        nonfinite: Every floating-point output with NaN or infinite values on a side.
        nonfinite_reference, nonfinite_candidate: Number of elements of all outputs that indicate a defect, over all
            inputs; see ``NonFiniteOutput.unusable_reference``.
        accepted: Labels, indices and rows that may differ because of rounding, and outputs without elements.
        empty: Whether no output has an element, so nothing was compared.
        compared_level: The optimisation level at which both were run if the requested one is wrong or fails; "" if the
            requested one is right.
        at_requested_level: Result of the new model at the requested level, if the source's outputs are wrong at that
            level; "" if it was not run.
    """

    ok: bool
    relative_l2: float = 0.0
    max_error: float = 0.0
    compared_as: Literal["values", "sets", "moments", "sizes"] = "values"
    what: str = ""
    comparable: bool = True
    cosine: float | None = None
    top1: float | None = None
    tolerance: float | None = None
    accepting_tolerance: float | None = None
    asked: str = ""
    judged_by: str = ""
    outputs: tuple[OutputError, ...] = ()
    metric_base: float | None = None
    metric: float | None = None
    task: tuple[TaskFigure, ...] = ()
    silent: bool = False
    cause: RoundingCause = ""
    without_cause_l2: float = 0.0
    without_cause_by: tuple[str, ...] = ()
    reference_wrong: bool = False
    nonfinite: tuple[NonFiniteOutput, ...] = ()
    nonfinite_reference: int = 0
    nonfinite_candidate: int = 0
    accepted: tuple[AcceptedChange, ...] = ()
    empty: bool = False
    compared_level: str = ""
    at_requested_level: Literal["", "right", "wrong", "fails"] = ""

    @property
    def unjudged(self) -> bool:
        """Whether the outputs cannot be judged: the reference is nearly zero for all inputs, and there is no metric."""
        return self.silent and self.metric is None

    @property
    def worst_slice_l2(self) -> float:
        """The relative L2 error of the worst slice over all outputs; infinite if the distance is unknown.

        Outputs with nothing in common have a distance too, so layers can be compared by it.
        """
        if not (self.comparable or self.outputs):
            return math.inf
        slices = [output.worst_slice.relative_l2 for output in self.outputs if output.worst_slice is not None]
        return max([self.relative_l2, *slices])


FLOAT64 = "float64"
"""The ``LevelCheck.reference`` for a model evaluated by ONNX's reference evaluator."""


class LevelCheck(Record, frozen=True, kw_only=True):
    """The outputs of a plan compared with those of the unoptimised model.

    Attributes:
        level: The plan's optimisation level.
        reference: The level of the reference: "disable", or "basic" if the model does not run without optimisation;
            "float64" for ONNX's reference evaluator.
        wrong: Whether the difference is far beyond rounding.
        outputs: Difference between the plan's outputs and the reference's.
        moved_relative_l2: The change of the reference caused by rounding alone; None if not measured or unknown.
        right: The highest level whose outputs equal the reference's and do not depend on the content of memory; "" if
            there is none.
        right_settings: Further settings needed at that level.
        rounded: Difference of the outputs from those with activations in float32, if the file requests int8 at every
            level and this changes outputs; None if not.
        unwritten: Whether outputs of the reference depend on previous memory content because a kernel does not write
            them.
        node: The first node with wrong values; "" if unknown.
        node_asked: Whether that node was searched for.
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
    rounded: OutputDifference | None = None
    unwritten: bool = False


NotEvaluated = Literal[
    "", "operators", "misread", "random", "format", "work-unknown", "time", "failed", "unsure", "empty"
]
"""Why outputs were not compared with an evaluation in float64: operators that ONNX's reference evaluator does
not support, operators that it computes differently from the ONNX specification, random operators, a model in
ORT format, work that cannot be estimated from the graph, work that takes too long, a failed evaluation, an
evaluation with other results in the model's own types, or outputs without elements."""


class ExactCheck(Record, frozen=True, kw_only=True):
    """The outputs of a side compared with its model evaluated in float64 by ONNX's reference evaluator.

    Attributes:
        right: Whether outputs are equal within rounding; None if the model was not evaluated.
        outputs: The difference; None if the model was not evaluated.
        not_evaluated: Why the model was not evaluated; "" if it was.
        needed_s: Expected seconds of the evaluation, if there was no time for it; otherwise 0.
        right_level: If outputs are wrong, the highest other optimisation level whose outputs are right; "" for none.
        finite: Whether the evaluation is finite where the outputs are NaN or infinite.
    """

    right: bool | None = None
    outputs: OutputDifference | None = None
    not_evaluated: NotEvaluated = ""
    needed_s: float = 0.0
    right_level: str = ""
    finite: bool = False


class BrokenLevel(Record, frozen=True, kw_only=True):
    """A level of graph optimisation at which a model that runs without optimisation fails.

    Attributes:
        level: The lowest level that fails.
        right: The highest level below it; the model runs there.
        what: The message of ONNX Runtime.
        node: The node that fails, which the optimiser may have created; "" if the message names none.
        made_from: Nodes of the model that it replaces; () if unknown.
    """

    level: str
    right: str
    what: str
    node: str = ""
    made_from: tuple[str, ...] = ()


class Figures(Record, frozen=True, kw_only=True):
    """Medians over the trials of a side. They only describe the side; the claim is in ``Comparison``.

    Attributes:
        latency_ns: p50 latency: the median over processes of each process's p50.
        latency_low_ns, latency_high_ns: Interquartile range of the processes.
        objective_ns: The time per run that was compared, if it is not the p50: p95, p25 or p10, or for throughput the
            wall time of all callers divided by their runs. None if it is the p50, or not a time per run.
        p95_ns: p95 latency: the median over processes of each process's p95; None in documents of older versions.
        first_load_ns: The single load that wrote a setting's cache on disk; ``load_ns`` is then the time of loads that
            read the cache. None if there is no cache, or that load was not observed.
        spread_ratio: p90 over p10 of the runs within a process, with its 95 % interval over processes; None below six
            processes.
        idle_bytes: Resident memory between runs; None if unknown.
        released_bytes: Resident memory after the sessions were deleted; None if unknown.
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
    idle_bytes: float | None = None
    released_bytes: float | None = None
