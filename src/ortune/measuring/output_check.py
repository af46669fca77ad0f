"""Are the outputs of a trial the model's own? Held against the base's, at the level that is known to be right."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from ortune import rewrites
from ortune.durations import in_words
from ortune.graph import grids, outputs
from ortune.inputs.feed_files import read_feeds, read_label
from ortune.measuring import activations, metric
from ortune.measuring.executor import Arm
from ortune.measuring.field import Field
from ortune.measuring.levels import Levels
from ortune.measuring.precise_runs import PreciseRuns
from ortune.measuring.scores import ScoreReader
from ortune.outputs import rounding, task
from ortune.outputs.comparison import compare_outputs
from ortune.outputs.exact import Evaluations
from ortune.outputs.files import tensors
from ortune.outputs.tolerance import Tolerance, judged, worst_of
from ortune.outputs.ways import SOMETHING_IN_COMMON
from ortune.records import (
    ExactCheck,
    FeedRef,
    LevelCheck,
    Measured,
    NonFiniteOutput,
    OutputDifference,
    Plan,
    RewriteSpec,
    TaskFigure,
)
from ortune.search.blocks import BASE
from ortune.search.phases import LEVEL_TIMES

_NOT_ASKED = "outputs with and without graph optimisation were not compared"


class OutputCheck:
    """The outputs of a field's base, and whether others are as good.

    Attributes:
        levels: The side by level of optimisation.
        first: The trial whose outputs are the reference, once one was timed.
        moments: The base differs from itself, so outputs are compared by moments.
        nonfinite: Outputs that hold NaN or infinities.
        wrong_plan: What was asked for, where its outputs are wrong, or it does not run, and another level is run in its
            place.
        level_check: The outputs against those of the model without optimisation; None where that was not asked.
        exact: The outputs against the model evaluated in float64; None where that was not asked.
        exact_of: The same of other sides, by name, where they were asked.
        evaluations: Of all models of the session.
        renames: By arm, the names of its outputs as the base calls them.
        known_differences: By key, what an interrupted session saw.
        metric: By which outputs are judged where a tolerance speaks of one; "" for none.
    """

    first: Measured
    levels: Levels

    def __init__(self, field: Field) -> None:
        self._field = field
        model = field.side.model.ir
        self.comparisons = outputs.output_comparisons(model)
        self.grids = grids.output_grids(model)
        self.labels = outputs.class_labels(model)
        self.moments = False
        self.nonfinite: tuple[NonFiniteOutput, ...] = ()
        self.level_check: LevelCheck | None = None
        self.exact: ExactCheck | None = None
        self.exact_of: dict[str, ExactCheck] = {}
        self.evaluations = Evaluations(field.scratch / "evaluations", field.log.folder)
        self.renames: dict[str, Mapping[str, str]] = {}
        self._precise = PreciseRuns(field)
        self.wrong_plan: Plan | None = None
        self.known_differences: dict[str, OutputDifference] = {}
        self.metric = field.options.metric
        self._asked = False
        self._outputs = Path("-")
        self._own: rounding.Own | None = None
        self._metric_of: dict[Path, float] = {}
        side = field.side.onnx or field.side
        self._scores = ScoreReader(side, field.executor, field.work, field.scratch / "scores")
        self._tasks: dict[tuple[str, Path, tuple[FeedRef, ...]], task.Task] = {}

    def begin(self) -> None:
        """Takes the outputs of the last trial, which is the base's first, for those of the side as it is."""
        field, last = self._field, self._field.executor.last
        if isinstance(last, Measured):
            self._outputs = Path(last.outputs_path or "-")
        if field.lowered is not None:
            self.wrong_plan = field.lowered.asked
        side = field.side.onnx or field.side
        self.levels = Levels(side, field.refs, field.executor, field.work, field.scratch / "levels")

    def question(self, left_ns: float = math.inf) -> None:
        """Asks whether the outputs are numbers, and the model's own; a browser's are held against the CPU's.

        Args:
            left_ns: Of the budget: a run without optimisation that it does not hold is left out, with a note.
        """
        side = self._field.side
        if side.plan.is_web:
            return
        folder = self.outputs()
        self.nonfinite = self.not_finite(self.outputs())
        if not side.levels:
            return
        last = self._field.executor.last
        needed_ns = LEVEL_TIMES * last.elapsed_ns if last is not None else 0.0
        self._asked = True
        self.level_check = self.levels.known(self._field.host, self._field.log.folder)
        if self.level_check is None and needed_ns > left_ns:
            self._field.note(f"{_NOT_ASKED} (about {in_words(needed_ns / 1e9)} more)")
        elif self.level_check is None:
            self.level_check = self.levels.check(folder, self._field.host, self._field.log.folder)
        if self.level_check is not None:
            # An earlier note that this was not asked is void by now.
            self._field.notes = [note for note in self._field.notes if not note.startswith(_NOT_ASKED)]

    def wrong_at(self, level: str, left_ns: float = math.inf) -> bool:
        """Returns whether the model's outputs are known to be wrong at another level of optimisation than the side's.

        Args:
            level: Of the graph optimisations.
            left_ns: Of the budget; where it does not hold a run, only what an earlier session saw is known.
        """
        field, last = self._field, self._field.executor.last
        if field.side.plan.is_web or level == self.levels.own:
            return False
        side = replace(field.side, plan=self.levels.plan(level))
        levels = Levels(side, field.refs, field.executor, field.work, field.scratch / f"level-{level}")
        check = levels.known(field.host, field.log.folder)
        # Two runs: at that level, and without optimisation.
        if check is None and last is not None and 2 * LEVEL_TIMES * last.elapsed_ns <= left_ns:
            check = levels.check(None, field.host, field.log.folder)
        return check is not None and check.wrong

    def checked_level(self) -> LevelCheck | None:
        """How the outputs compare with those of the model without optimisation; None where that tells nothing."""
        if not self._asked:
            self.question()
        return self.level_check

    def step_down(self) -> None:
        """Goes on at the highest level whose outputs are right, where those of its own are not."""
        check = self.level_check
        if check is None or not check.wrong or not check.right:
            return
        self.wrong_plan = self.wrong_plan or self._field.side.plan
        plan = self.levels.plan(check.right, check.right_settings)
        there = self.levels.outputs(check.right, check.right_settings)
        self._field.side = replace(self._field.side, plan=plan)
        self.levels = Levels(
            self._field.side,
            self._field.refs,
            self._field.executor,
            self._field.work,
            self._field.scratch / "lower-levels",
        )
        self.level_check, self._outputs = None, there or Path("-")
        self.nonfinite = self.not_finite(self.outputs())

    def not_finite(self, outputs: Path) -> tuple[NonFiniteOutput, ...]:
        """What of the side's own outputs is no finite number."""
        return self.compared(outputs, outputs, self._field.refs, None).nonfinite

    @property
    def claims(self) -> bool:
        """Returns whether anything may be claimed of how fast the outputs come: not of what is no number."""
        return self._field.options.allow_nonfinite or not any(o.unusable_reference for o in self.nonfinite)

    def outputs(self) -> Path:
        """The folder of what the side as it is gives for its inputs; made again where a resumed session lacks it."""
        if not self._outputs.is_dir():
            base = self._field.arm(BASE)
            trial = self._field.require_measured(
                base, self._field.executor.trial(base, runs=0, keep_outputs=True, fresh=True)
            )
            self._outputs = Path(trial.outputs_path)
        return self._outputs

    @property
    def wrong(self) -> bool:
        """Returns whether the optimiser is known to have made something else of the model."""
        return self.level_check is not None and self.level_check.wrong

    def notice_randomness(self, again: Measured) -> None:
        """Outputs are compared by moments from now on where the baseline, run again, differs from itself."""
        # Held against its own, right or wrong: that these differ from what is right is no randomness.
        difference = self.difference(again, "itself", by_values=True, reference=self._first_outputs)
        if not (difference.ok or difference.empty) and (
            difference.max_error or not difference.nonfinite_reference
        ):
            self.moments = True
            ops = sorted({op for _, op in outputs.random_ops(self._field.side.model.ir)})
            cause = f" ({', '.join(ops)})" if ops else ""
            self._field.note(
                f"outputs vary from run to run{cause}, so only shape, "
                "finiteness, mean and standard deviation are compared"
            )

    def difference(
        self,
        trial: Measured,
        key: str = "",
        again: Arm | None = None,
        tolerance: Tolerance | None = None,
        rewritten: Sequence[RewriteSpec] = (),
        *,
        by_values: bool = False,
        reference: Callable[[], Path] | None = None,
    ) -> OutputDifference:
        """The outputs that a trial left against the reference; the worst of all cases.

        Args:
            trial: A trial that kept its outputs.
            key: With a key the answer is journalled, and taken from the journal of a session that goes on.
            again: Run once more, untimed, where the trial's outputs went with an interrupted session.
            tolerance: In place of the session's.
            rewritten: How its model was: outputs that were left out on request are passed over, which is noted.
            by_values: By the usual limits where a budget was asked for: the base itself may miss a metric.
            reference: Gives the one in place of that which is held to be right; asked only where nothing is journalled.
        """
        without = self.left_out(rewritten)
        # A session that goes on has no outputs of its first half any more: its journal decides.
        if key and key in self.known_differences:
            return self.known_differences[key]
        trial = self._field.with_outputs(again or self._field.arm(BASE), trial)
        tolerance = self._field.options.tolerance if tolerance is None else tolerance
        if by_values and tolerance is not None and tolerance.number is None:
            tolerance = None
        folder = (reference or self.reference)()
        difference = self.compared(folder, Path(trial.outputs_path), self._field.refs, tolerance, without)
        # The model's own rounding decides two cases: outputs that pass by so little that they are doubted,
        # and those that fail but that some tolerance would accept. It costs two more runs, so the clear cases
        # go without.
        if not difference.ok and tolerance is None and not self.moments:
            difference = self._by_activations(difference, trial, again, folder, without)
        undecided = rounding.doubtful(difference) or (
            not difference.ok and difference.accepting_tolerance is not None
        )
        if undecided and tolerance is None and not (self.moments or difference.cause):
            difference = self._by_own_rounding(difference)
        if self._reference_refuted and reference is None:
            difference = msgspec.structs.replace(difference, reference_wrong=True)
        if key:
            self._field.log.add("difference", {"key": key, "difference": difference})
        return difference

    def _by_activations(
        self,
        difference: OutputDifference,
        trial: Measured,
        arm: Arm | None,
        reference: Path,
        without: Collection[str],
    ) -> OutputDifference:
        """Names the cause of a difference, where it is that a side rounds activations to int8."""
        sides = self._precise.outputs(arm, Path(trial.outputs_path), reference, self.renames)
        if sides is None:
            return difference
        left = self.compared(*sides, self._field.refs, None, without)
        return activations.explained(difference, left)

    def _by_own_rounding(self, difference: OutputDifference) -> OutputDifference:
        """The verdict where the model's own rounding decides it: more than usual, or far less."""
        own = self._own_rounding()
        if difference.ok:
            return rounding.tightened(difference, own)
        better = rounding.forgiven(difference, own)
        note = (
            "outputs are sensitive to rounding: without graph optimisation, or with inputs one rounding step away, "
            f"they change by {own.moves:.2g} (relative L2); differences up to {own.accepted:.2g} are accepted"
        )
        if better.ok and note not in self._field.notes:
            self._field.notes.append(note)
            self._field.say(note)
        return better

    def _own_rounding(self) -> rounding.Own:
        """What rounding alone makes of the outputs, and the optimiser where it does no more than that."""
        if self._own is None:
            check, moved = self.checked_level(), self.levels.moved()
            right = check.outputs if check is not None and not check.wrong else None
            self._own = rounding.Own(moved=moved, optimised=right)
        return self._own

    @property
    def refuted(self) -> bool:
        """Returns whether the outputs are known to be wrong, whatever the level of optimisation."""
        return self.exact is not None and self.exact.right is False and not self.exact.right_level

    @property
    def _reference_refuted(self) -> bool:
        """Returns whether ``reference`` is known to be wrong too: no level of optimisation gives the right outputs."""
        return self.exact is not None and self.exact.right is False and not self.exact.right_level

    def reference(self) -> Path:
        """The folder of the outputs that others are held against: the baseline's own, where these are right."""
        level = self.levels.reference() if self.wrong else None
        return level[1] if level is not None else self._first_outputs()

    def _first_outputs(self) -> Path:
        """The folder of what the first timed trial gave; made again where a resumed session lacks it."""
        self.first = self._field.with_outputs(self._field.arm(BASE), self.first)
        return Path(self.first.outputs_path)

    def left_out(self, rewritten: Sequence[RewriteSpec]) -> frozenset[str]:
        """The model's outputs that these rewrites leave out on request; a note says so."""
        names = [str(value.name) for value in self._field.side.model.ir.graph.outputs]
        gone = rewrites.left_out(rewritten, names)
        note = f"excluded on request, so not compared: {', '.join(n for n in names if n in gone)}"
        if gone and note not in self._field.notes:
            self._field.notes.append(note)
        return gone

    def compared(
        self,
        reference: Path,
        outputs: Path,
        refs: Sequence[FeedRef],
        asked: Tolerance | None,
        without: Collection[str] = (),
    ) -> OutputDifference:
        """The outputs for these inputs against a reference, as one difference."""
        differences = [
            compare_outputs(
                reference / ref.name,
                outputs / ref.name,
                comparisons=self.comparisons,
                scores=self._scores.of(self.comparisons, refs, ref),
                grids=self.grids,
                labels=self.labels,
                # A budget has limits of its own: then only what has nothing in common fails here.
                tolerance=(asked.number or SOMETHING_IN_COMMON) if asked else None,
                rows=asked.of_rows if asked else None,
                as_moments=self.moments,
                without=without,
                allow_nonfinite=self._field.options.allow_nonfinite,
            )
            for ref in refs
        ]
        # Rows and metrics are judged over all inputs together; a plain number holds for each, so the worst
        # counts.
        if asked is not None and asked.number is None and not self.moments:
            if asked.of_metric and self.metric in task.METRICS:
                figures = self._task(reference, outputs, refs)
                worst = task.worst(figures)
                difference = judged(differences, asked, (worst.base, worst.value))
                return msgspec.structs.replace(difference, task=figures)
            metrics = self._metrics(reference, outputs, refs) if asked.of_metric else None
            return judged(differences, asked, metrics)
        return worst_of(differences)

    def _task(self, reference: Path, outputs: Path, refs: Sequence[FeedRef]) -> tuple[TaskFigure, ...]:
        """What the metric says of outputs, beside the reference's and the labels of the inputs."""
        figures = self.measured_by(self.metric, reference, refs).figures
        return figures([tensors(outputs / ref.name) for ref in refs])

    def measured_by(self, metric: str, reference: Path, refs: Sequence[FeedRef]) -> task.Task:
        """A built-in metric over inputs, with a reference as its base.

        Raises:
            UsageError: No output is of its kind.
        """
        key = (metric, reference, tuple(refs))
        if key not in self._tasks:
            cases = [
                task.Case(
                    base=tensors(reference / ref.name),
                    inputs={n: v for n, v in read_feeds(Path(ref.path)).items() if isinstance(v, np.ndarray)},
                    label=read_label(Path(ref.path)),
                )
                for ref in refs
            ]
            self._tasks[key] = task.Task(metric, cases)
        return self._tasks[key]

    def _metrics(self, reference: Path, outputs: Path, refs: Sequence[FeedRef]) -> tuple[float, float]:
        """The user's own metric of a reference and of other outputs."""
        side = self._field.side.onnx or self._field.side

        def of(folder: Path) -> float:
            cases = [(folder / ref.name, Path(ref.path), ref.weight) for ref in refs]
            return metric.measured(self.metric, side.runtime, self._field.scratch, cases)

        if reference not in self._metric_of:
            self._metric_of[reference] = of(reference)
        return self._metric_of[reference], of(outputs)
