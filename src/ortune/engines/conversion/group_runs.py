"""Runs groups of inputs through a source, and through its ONNX model at two optimisation levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

import msgspec

from ortune.errors import OrtuneError
from ortune.graph.outputs import random_outputs
from ortune.inputs.feeds import Kind
from ortune.measuring import failures, output_check
from ortune.measuring.feeding import write_case_feeds
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import ResolvedSide
from ortune.outputs.pairing import rename_outputs
from ortune.outputs.tolerance import Tolerance
from ortune.records import CheckedCase, Failed, FeedRef, Measured, OutputDifference, RunSource, SourceRan
from ortune.search.blocks import BASE
from ortune.targets.source import RUN_S, SourceProcess, SourceProcessFailed

Level = Literal["disable", "all"]
LIMIT_S = 300.0
"""Time limit for loading the ONNX model, in seconds. A run has the source's time limit, since a loop may never end."""


MadeUp = tuple[str, int, Kind]
"""Generated inputs: their name, the offset added to the seed, and the kind of values."""


@dataclass(frozen=True, kw_only=True)
class CaseGroup:
    """Result of one group of inputs that the source and the model ran."""

    cases: list[CheckedCase]
    refs: dict[str, FeedRef]
    source: Path
    model: dict[str, Path]

    @property
    def wrong(self) -> CheckedCase | None:
        """The first wrong case, preferring optimisation level none; None if all are correct."""
        bad = [
            case for case in self.cases if case.failed or (case.outputs is not None and not case.outputs.ok)
        ]
        return min(bad, key=lambda case: case.level != "disable", default=None)


class SourceRefuses(Exception):
    """The source rejects inputs of a size that is checked."""


class GroupRuns:
    """Runs groups of inputs through the source and through a model.

    Attributes:
        notes: Notes on inputs that the source rejected.

    Args:
        opened: The experiment.
        process: Process of the framework, with the source opened.
        place: Folder of inputs, which the framework's process may read.
        tolerance: Tolerance of the comparison; None for the default.
    """

    def __init__(
        self, opened: Experiment, process: SourceProcess, place: Path, tolerance: Tolerance | None
    ) -> None:
        self.opened, self.process, self.place, self.tolerance = opened, process, place, tolerance
        self.notes: list[str] = []
        self._numbers = count()

    def run(
        self,
        side: ResolvedSide,
        pairs: Mapping[str, str],
        options: InputOptions,
        kinds: Sequence[MadeUp],
        sizes: Mapping[str, int] | None = None,
    ) -> CaseGroup:
        """Run one group of inputs through the source, and through the model at both levels.

        Raises:
            SourceRefuses: ``sizes`` is passed and the source rejects the inputs.
        """
        folder = self.folder()
        baseline = self.opened.base_measuring(side, feeds=options, scratch=folder, say=lambda _: None)
        baseline.comparer.random = random_outputs(side.model.ir)
        first_kind = kinds[0][0] if kinds else "inputs"
        refs, trouble = self._refs(baseline, kinds, folder, at_sizes=sizes is not None)
        outputs = self.process.folder / folder.name
        run = [ref for ref in refs if self._source_runs(ref, pairs, outputs, side, strict=sizes is not None)]
        if trouble or not run:
            failed = [] if not trouble else [
                CheckedCase(name=first_kind, sizes=dict(sizes or {}), level="all", failed=trouble)
            ]  # fmt: skip
            return CaseGroup(cases=failed, refs={}, source=outputs, model={})
        baseline.refs = tuple(run)
        at: dict[str, Path] = {}
        cases: list[CheckedCase] = []
        levels: tuple[Level, ...] = ("all", "disable")
        for level in levels:
            for case in self._level(baseline, level, outputs, at):
                cases.append(msgspec.structs.replace(case, sizes=dict(sizes or {})))
        return CaseGroup(cases=cases, refs={ref.name: ref for ref in run}, source=outputs, model=at)

    def _refs(
        self, baseline: Measuring, kinds: Sequence[MadeUp], folder: Path, *, at_sizes: bool
    ) -> tuple[list[FeedRef], str]:
        """Return the inputs, and the error if the model does not run on them; the error is "" if it does."""
        trouble = ""
        try:
            baseline.find_inputs(LIMIT_S, RUN_S)
        except OrtuneError as error:
            trouble = error.what
            if not at_sizes:
                raise
        if not kinds:
            return list(baseline.refs), trouble
        refs = []
        for name, step, kind in kinds:
            work = msgspec.structs.replace(baseline.work, seed=baseline.work.seed + step)
            (ref, *_) = write_case_feeds(baseline.side.model.ir, work, folder / name.replace(" ", "-"), kind)
            refs.append(msgspec.structs.replace(ref, name=name.replace(" ", "-"), weight=1.0))
        return refs, trouble

    def _source_runs(
        self, ref: FeedRef, pairs: Mapping[str, str], folder: Path, side: ResolvedSide, *, strict: bool
    ) -> bool:
        """Compute the source's outputs; add a note and return False if it rejects the inputs.

        Raises:
            SourceRefuses: The source rejects the inputs, and ``strict`` is set.
        """
        try:
            ran = self.process.ask(RunSource(feeds=(ref,), inputs=dict(pairs), output=str(folder)), SourceRan)
        except SourceProcessFailed as error:
            if error.reason != "failed":
                raise
            if strict:
                raise SourceRefuses from error
            self.notes.append(f"the source does not run on the inputs {ref.name!r}: {error.what}")
            return False
        names = [str(value.name) for value in side.model.ir.graph.outputs]
        rename_outputs(folder / ref.name, dict(zip(ran.outputs, names, strict=False)))
        return True

    def _level(
        self, baseline: Measuring, level: Level, source: Path, at: dict[str, Path]
    ) -> Iterator[CheckedCase]:
        """Yield the checked cases at one optimisation level."""
        if baseline.lowered is not None:  # reported once, at the user's level
            broken = baseline.lowered.level
            what = (
                f"ONNX Runtime's optimiser breaks the model at level {broken.level} (it runs at level "
                f"{broken.right}): {broken.what}"
            )
            if level == "all":
                yield from (CheckedCase(name=ref.name, level=level, failed=what) for ref in baseline.refs)
            return
        if level == "all":
            arm = baseline.arm(BASE)
            outcome = baseline.executor.untimed(arm)
            if isinstance(outcome, Failed):
                what = failures.describe(outcome)
                yield from (CheckedCase(name=ref.name, level=level, failed=what) for ref in baseline.refs)
                return
            baseline.take_outputs()
            baseline.pilot.first = outcome
        else:
            there = baseline.check.levels.outputs(level) if at else None
            if there is None:
                return  # some models contain operators that have kernels only after optimisation
            outcome = msgspec.structs.replace(baseline.pilot.first, outputs_path=str(there))
        at[level] = Path(outcome.outputs_path)
        yield from self._judged(baseline, level, outcome, source)

    def _judged(
        self, baseline: Measuring, level: Level, outcome: Measured, source: Path
    ) -> Iterator[CheckedCase]:
        tolerance = self.tolerance
        # All inputs together first, since limits on fractions (changed labels) need many inputs. If these pass, each
        # input passes; if not, the worst single input is reported.
        whole = output_check.difference(baseline, outcome, tolerance=tolerance, reference=lambda: source)
        differences = {
            ref.name: baseline.comparer.difference(source, Path(outcome.outputs_path), (ref,), tolerance)
            for ref in baseline.refs
        }
        if whole.ok:
            differences = {
                name: msgspec.structs.replace(difference, ok=True, what="")
                for name, difference in differences.items()
            }
        elif all(difference.ok for difference in differences.values()):
            worst = max(differences, key=lambda name: _distance(differences[name]))
            differences[worst] = whole
        for name, difference in differences.items():
            yield CheckedCase(name=name, level=level, outputs=difference)

    def folder(self) -> Path:
        """Create and return a new folder for a group."""
        folder = self.place / f"check-{next(self._numbers)}"
        folder.mkdir()
        return folder


def _distance(difference: OutputDifference) -> float:
    return difference.relative_l2 if difference.comparable else math.inf
