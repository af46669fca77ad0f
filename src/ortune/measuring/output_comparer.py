"""Compares the output files of a model's trials by values, rows, moments, or a metric."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from ortune.graph import grids, outputs
from ortune.inputs.feed_files import read_feeds, read_label
from ortune.measuring import metric
from ortune.measuring.executor import Executor
from ortune.measuring.scores import ScoreReader
from ortune.measuring.sides import ResolvedSide
from ortune.outputs import task
from ortune.outputs.comparison import compare_outputs
from ortune.outputs.files import tensors
from ortune.outputs.metrics import METRICS
from ortune.outputs.metrics.metric import TaskCase
from ortune.outputs.tolerance import Tolerance, judged, worst_of
from ortune.outputs.ways import SOMETHING_IN_COMMON
from ortune.records import FeedRef, NonFiniteOutput, OutputDifference, TaskFigure, Workload


class OutputComparer:
    """Compares output folders of one model.

    Attributes:
        comparisons, grids, labels: How each output is compared, by name; labels of two sides may be joined.
        moments: Whether outputs are compared by moments, because trials of the base differ.
        random: Outputs with random numbers from different generators, such as a framework's and ONNX Runtime's.
        metric: The metric of a tolerance; "" for none.
    """

    def __init__(
        self,
        side: ResolvedSide,
        work: Workload,
        executor: Executor,
        scratch: Path,
        *,
        metric: str,
        allow_nonfinite: bool,
    ) -> None:
        """Determine from the graph how the side's outputs are compared.

        Args:
            side: The base.
            work: Workload with the seed and the custom operators.
            executor: Executor that runs the base once more to read the scores of labels.
            scratch: Folder for the run that reads scores.
            metric: The metric of a tolerance; "" for none.
            allow_nonfinite: Whether non-finite outputs may be compared.
        """
        model = side.model.ir
        self.comparisons = outputs.output_comparisons(model)
        self.grids = grids.output_grids(model)
        self.labels = outputs.class_labels(model)
        self.moments = False
        self.random: Mapping[str, bool] = {}
        self.metric = metric
        self.allow_nonfinite = allow_nonfinite
        self._onnx, self._scratch = side.onnx or side, scratch
        self._scores = ScoreReader(self._onnx, executor, work, scratch / "scores")
        self._metric_of: dict[Path, float] = {}
        self._tasks: dict[tuple[str, Path, tuple[FeedRef, ...]], task.MetricTask] = {}

    def not_finite(self, folder: Path, refs: Sequence[FeedRef]) -> tuple[NonFiniteOutput, ...]:
        """Return the outputs for these inputs that contain NaN or infinities."""
        return self.difference(folder, folder, refs, None).nonfinite

    def difference(
        self,
        reference: Path,
        outputs: Path,
        refs: Sequence[FeedRef],
        asked: Tolerance | None,
        without: Collection[str] = (),
    ) -> OutputDifference:
        """Return the difference between two output folders: the largest over inputs, or one over all inputs together.

        Args:
            reference: Folder of the outputs to compare with.
            outputs: Folder of the other outputs.
            refs: The inputs.
            asked: The user's tolerance; None for the default limits.
            without: Names of outputs to skip.
        """
        differences = [
            compare_outputs(
                reference / ref.name,
                outputs / ref.name,
                comparisons=self.comparisons,
                scores=self._scores.reader(self.comparisons, refs, ref),
                grids=self.grids,
                labels=self.labels,
                # A budget has its own limits, so only outputs with nothing in common fail here.
                tolerance=(asked.number or SOMETHING_IN_COMMON) if asked else None,
                rows=asked.of_rows if asked else None,
                as_moments=self.moments,
                random=self.random,
                without=without,
                allow_nonfinite=self.allow_nonfinite,
            )
            for ref in refs
        ]
        # Rows and metrics are judged over all inputs together; a number is judged for each, so the worst counts.
        if asked is not None and asked.number is None and not self.moments:
            if asked.of_metric and self.metric in METRICS:
                figures = self._task(reference, outputs, refs)
                worst = task.worst(figures)
                difference = judged(differences, asked, (worst.base, worst.value))
                return msgspec.structs.replace(difference, judged_by=self.metric, task=figures)
            metrics = self._metrics(reference, outputs, refs) if asked.of_metric else None
            difference = judged(differences, asked, metrics)
            return msgspec.structs.replace(difference, judged_by=self.metric if metrics else "")
        return worst_of(differences)

    def _task(self, reference: Path, outputs: Path, refs: Sequence[FeedRef]) -> tuple[TaskFigure, ...]:
        """Return the built-in metrics of outputs, relative to the reference and the labels of the inputs."""
        figures = self.measured_by(self.metric, reference, refs).figures
        return figures([tensors(outputs / ref.name) for ref in refs])

    def measured_by(self, metric: str, reference: Path, refs: Sequence[FeedRef]) -> task.MetricTask:
        """Return the computation of a built-in metric over inputs relative to a reference; cached.

        Raises:
            UsageError: The metric applies to none of the outputs.
        """
        key = (metric, reference, tuple(refs))
        if key not in self._tasks:
            cases = [
                TaskCase(
                    base=tensors(reference / ref.name),
                    inputs={n: v for n, v in read_feeds(Path(ref.path)).items() if isinstance(v, np.ndarray)},
                    label=read_label(Path(ref.path)),
                )
                for ref in refs
            ]
            self._tasks[key] = task.MetricTask(metric, cases)
        return self._tasks[key]

    def _metrics(self, reference: Path, outputs: Path, refs: Sequence[FeedRef]) -> tuple[float, float]:
        """Return the user's metric for the reference and for the other outputs."""

        def mean(folder: Path) -> float:
            cases = [(folder / ref.name, Path(ref.path), ref.weight) for ref in refs]
            return metric.mean_metric(self.metric, self._onnx.runtime, self._scratch, cases)

        if reference not in self._metric_of:
            self._metric_of[reference] = mean(reference)
        return self._metric_of[reference], mean(outputs)
