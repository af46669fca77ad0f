"""Reads the scores that decide a model's labels and the order of its rows, by running it with them as outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir as ir

from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.graph.grids import input_grids
from ortune.graph.model.graphs import nodes
from ortune.graph.model.save import save_model
from ortune.graph.outputs import OutputComparison, deciding_scores
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.sides import ResolvedSide
from ortune.outputs import rounding
from ortune.outputs.files import tensors
from ortune.outputs.labels import Scores
from ortune.records import FeedRef, Measured, Workload


class ScoreReader:
    """Reads the scores of labels and sorted rows, and how much one rounding step in the inputs changes them.

    Args:
        side: The model with its plan.
        executor: Executor of the runs.
        work: Workload with the seed and the custom operators.
        folder: Scratch folder, created when needed.
    """

    def __init__(self, side: ResolvedSide, executor: Executor, work: Workload, folder: Path) -> None:
        self._side, self._executor, self._work, self._folder = side, executor, work, folder
        self._read: dict[FeedRef, Path | None] = {}

    def reader(
        self, comparisons: Mapping[str, OutputComparison], refs: Sequence[FeedRef], ref: FeedRef
    ) -> Callable[[str], Scores | None]:
        """Return a function that returns the scores of an output by name, or None if they cannot be read.

        Args:
            comparisons: Methods of comparison of the model's outputs, by output name.
            refs: All inputs, which are run together when the scores for any of them are first needed.
            ref: The inputs for which scores are read.
        """

        def read(name: str) -> Scores | None:
            if ref not in self._read:
                self._read |= dict.fromkeys(refs, self._run(comparisons, tuple(refs)))
            folder = self._read[ref]
            values = tensors(folder / ref.name).get(name) if folder is not None else None
            if folder is None or values is None or values.dtype.kind != "f":
                return None
            moved = tensors(folder / _moved_name(ref)).get(name)
            apart = None
            if moved is not None and moved.shape == values.shape:
                with np.errstate(invalid="ignore"):
                    apart = rounding.FORGIVEN * np.nan_to_num(np.abs(moved - values))
            return Scores(values=values, moved=apart)

        return read

    def _run(self, comparisons: Mapping[str, OutputComparison], refs: tuple[FeedRef, ...]) -> Path | None:
        if not (self._side.can_be_edited and self._side.has_levels):
            return None
        folder = self._folder / str(len(self._read))
        folder.mkdir(parents=True)
        model = self._side.model.ir
        path = folder / "scores.onnx"
        save_model(_with_scores(model, comparisons), path)
        grids, few_bits = (
            input_grids(model),
            any(node.op_type in rounding.OF_FEW_BITS for node in nodes(model)),
        )
        step = rounding.STEP_OF_FEW_BITS if few_bits else 0.0
        moved = [
            msgspec.structs.replace(
                rounding.moved_feed(ref, folder / f"moved-{i}", self._work.seed, grids, step),
                name=_moved_name(ref),
            )
            for i, ref in enumerate(refs)
        ]
        plan = self._side.plan
        for settings in ({**plan.settings, LEVEL.name: "disable"}, plan.settings):
            arm = Arm(
                name="scores",
                plan=msgspec.structs.replace(plan, settings=settings),
                model=path,
                runtime=self._side.runtime_of(plan),
                feeds=(*refs, *moved),
            )
            with self._executor.keeping_last():
                outcome = self._executor.untimed(arm)
            if isinstance(outcome, Measured):
                return Path(outcome.outputs_path)
        return None


def _moved_name(ref: FeedRef) -> str:
    return f"{ref.name}-moved"


def _with_scores(model: ir.Model, comparisons: Mapping[str, OutputComparison]) -> ir.Model:
    """Return a copy of the model with the scores that decide its labels, and the order of its rows, as outputs."""
    deciding = map(deciding_scores, comparisons.values())
    wanted = {value.name for value in deciding if value is not None}
    copy = model.clone()
    values = [value for node in copy.graph for value in node.outputs if value.name in wanted]
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(values)
    return copy
