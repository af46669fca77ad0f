"""What stands in the blocks of a measurement: one side with its inputs, the arms made of it, and their executor."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import files, targets
from ortune.bundle.shared import WORKLOAD
from ortune.errors import MeasurementError
from ortune.inputs import user_feeds, workload
from ortune.inputs.declared import inspect_inputs
from ortune.inputs.trial_fixes import sizes_in_turn
from ortune.measuring import failures, feeding
from ortune.measuring.broken_levels import Lowered
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.input_options import InputOptions
from ortune.measuring.limits import Limits
from ortune.measuring.sides import Resolved
from ortune.records import (
    IN_A_POD,
    FeedRef,
    Finding,
    GpuRun,
    Host,
    Measured,
    Outcome,
    PeakInTurn,
    Plan,
    Workload,
)
from ortune.rules import Facts
from ortune.search.blocks import BASE, IDENTICAL, LETTERS, SPIKE
from ortune.search.controls import SPIKE_RATIO
from ortune.show.numbers import listed
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine

STARTS = 2  # further processes that show how long a plan takes to load and to run first, besides the pilot's
SIZES_OF_DATA = "sizes are those of the median-sized input in --data"


class Field:
    """A side that is run, what it is fed, and whatever stands beside it.

    Attributes:
        side: The base; another level of it where its own is wrong, or does not run.
        lowered: The level at which the side runs, where it does not at its own.
        work: The inputs that run; ``refs`` are their files.
        executor: Runs the arms; ``limits`` are those of its trials.
        notes: What is told with the answer; ``alerts`` are said before all else.
        findings: What was found on the way.
        peak_in_turn: Peak memory over several sizes in turn, once that was asked.
        gpu_runs: What transfer takes of a run, by execution provider, once one with memory of its own ran.
    """

    def __init__(
        self,
        side: Resolved,
        options: InputOptions,
        scratch: Path,
        log: SessionLog,
        say: Callable[[str], None],
        machine: Machine,
        load: Callable[[Workload], Workload] = lambda work: work,
    ) -> None:
        self.machine = machine
        self.side, self.options, self.scratch, self.say = side, options, scratch, say
        self.log = log
        self.notes: list[str] = []
        self.findings: list[Finding] = []
        self.alerts: list[Finding] = []
        self.peak_in_turn: PeakInTurn | None = None
        self.lowered: Lowered | None = None
        self.gpu_runs: dict[str, GpuRun] = {}
        self.work = load(self._proposed())
        self.refs: tuple[FeedRef, ...] = ()
        self.executor = Executor({}, self.work, scratch, log, machine)
        self.limits = Limits(self.executor)
        if machine.pod:
            self.note(f"{IN_A_POD}: {machine.pod.how}")

    def note(self, text: str) -> None:
        """Says what is told with the answer, too."""
        self.notes.append(text)
        self.say(text)

    def alert(self, findings: Sequence[Finding], name: str = "") -> None:
        """Says findings at once, and again before the answer.

        Args:
            findings: What is said.
            name: Of the side, if there are several.
        """
        for finding in findings:
            if name and self._also(finding, name):
                continue
            said = msgspec.structs.replace(finding, what=f"{name}: {finding.what}") if name else finding
            self.alerts.append(said)
            self.say(said.sentence(evidence=False))

    def _also(self, finding: Finding, name: str) -> bool:
        """Name a further side in the alert that contains the same finding; return whether there is one."""
        for i, alert in enumerate(self.alerts):
            names, _, what = alert.what.partition(": ")
            known = re.split(", | and ", names)
            if what != finding.what or {*known} - {*LETTERS.values()}:
                continue
            if alert == msgspec.structs.replace(finding, what=alert.what):
                sides = listed([*known, name])
                self.alerts[i] = msgspec.structs.replace(alert, what=f"{sides}: {what}")
                return True
        return False

    def facts(self) -> Facts:
        """What rules may know of the side as it runs here; whoever asks them adds what else it measured."""
        side = self.side
        return Facts(
            model=side.model,
            work=self.work,
            fed=self.options.words,
            plan=side.plan,
            target=targets.of(side.plan).name,
            ort_version=side.runtime_of(side.plan).version_of(side.plan),
            host=self.host,
            topology=self.machine.topology,
            wrong_when_optimised=self.lowered is not None,
        )

    @property
    def host(self) -> Host:
        """The machine as the trials see it."""
        return self.machine.seen

    def settle_inputs(self) -> None:
        """Finds inputs that run, says which, and writes their files.

        Raises:
            InputError, ModelError, RuntimeNotFound, MeasurementError: As the first run fails.
        """
        model = self.side.model.ir
        settled = feeding.settle_workload(
            self.executor,
            lambda refs: self.arm(BASE, refs=refs),
            model,
            self.work,
            self.scratch,
            self.say,
            # A page sends them, which takes time: the one that is timed does it.
            keep_outputs=not self.side.plan.is_web,
        )
        self.work, self.lowered = settled.work, settled.lowered
        if self.lowered is not None:
            self.side = replace(self.side, plan=self.lowered.plan)
        if self.options.in_turn:
            self._vary_sizes()
        self.say(workload.describe(self.work))
        if self.options.save_workload:
            workload.save(self.options.save_workload, self.work)
        self.refs = feeding.write_case_feeds(model, self.work, self.scratch / "feeds")
        if isinstance(self.executor.last, Measured):
            self.executor.most_alive = self.machine.most_alive(self.executor.last.done.peak_bytes)

    def _vary_sizes(self) -> None:
        """Feeds several sizes in turn where sizes were guessed: memory that grows with a change shows only then."""
        first = self.executor.last
        tries = sizes_in_turn(self.side.model.ir, self.work)
        mix = self.first_that_runs(tries, runs=0, keep_outputs=not self.side.plan.is_web)
        if mix is not None:
            self.work = mix[0]
            sizes = "; ".join(case.name for case in self.work.cases)
            self.note(
                f"memory grows when input sizes change, so {len(self.work.cases)} sizes are fed in turn: {sizes}"
            )
            return
        self.executor.last = first
        if tries:
            self.note("the model runs only at this size, so memory is measured at one size")

    def first_that_runs(
        self,
        mixes: Sequence[Workload],
        *,
        runs: int,
        keep_outputs: bool = False,
        fresh: bool = False,
        begins: Callable[[], bool] = lambda: True,
    ) -> tuple[Workload, Measured] | None:
        """The first of several mixes of sizes that runs, with its trial; None where none does.

        Args:
            mixes: The best first.
            runs: Timed runs of each size.
            keep_outputs: Whether the trial's outputs stay.
            fresh: Whether it runs whatever was recorded.
            begins: Asked before each trial, whether there is time for it.
        """
        for number, mix in enumerate(mixes):
            if not begins():
                return None
            refs = feeding.write_case_feeds(self.side.model.ir, mix, self.scratch / f"in-turn-{number}")
            outcome = self.executor.trial(
                self.arm(BASE, refs=refs), runs=runs, keep_outputs=keep_outputs, fresh=fresh
            )
            if isinstance(outcome, Measured):
                return mix, outcome
        return None

    def arm(
        self,
        name: str,
        *,
        side: Resolved | None = None,
        plan: Plan | None = None,
        model: Path | None = None,
        refs: tuple[FeedRef, ...] | None = None,
        wait: float = 0.0,
    ) -> Arm:
        """A contestant; what is not given is the side's own."""
        mine = side or self.side
        plan = mine.plan if plan is None else plan
        return Arm(
            name=name,
            plan=plan,
            model=model or mine.runs,
            runtime=mine.runtime_of(plan),
            feeds=self.refs if refs is None else refs,
            wait_ratio=wait,
        )

    def controls(self) -> dict[str, Arm]:
        """The base, its double, and the base with a known wait: what every calibration runs."""
        return {
            BASE: self.arm(BASE),
            IDENTICAL: self.arm(IDENTICAL),
            SPIKE: self.arm(SPIKE, wait=SPIKE_RATIO),
        }

    def live_with(self, trial: Measured) -> None:
        """Takes note of another side, which may need more memory than the default."""
        self.executor.most_alive = min(
            self.executor.most_alive, self.machine.most_alive(trial.done.peak_bytes)
        )

    def starts(self, *arms: Arm) -> list[list[Measured]]:
        """Each arm loaded and run once in further processes alone, in turn; none where one of them fails."""
        # One process of every arm, then the second of each: a machine that drifts meets all arms alike.
        outcomes = [[self.executor.trial(arm, runs=0, fresh=True) for arm in arms] for _ in range(STARTS)]
        return [[o for o in mine if isinstance(o, Measured)] for mine in zip(*outcomes, strict=True)]

    def require_measured(self, arm: Arm, outcome: Outcome) -> Measured:
        """The measured trial; raises the error that fits a failed one."""
        if isinstance(outcome, Measured):
            return outcome
        if arm.name == BASE or outcome.reason == "no-runtime":
            failures.raise_if_unrunnable(outcome, arm)
        # Most verbs have one side, and no A.
        name = LETTERS[arm.name] if arm.name in LETTERS and arm.name != BASE else self.side.label
        raise MeasurementError(
            f"{name} does not run: {failures.describe(outcome)}",
            where=failures.place(arm),
            do=failures.remedy(outcome, in_page=arm.plan.is_web),
            code=outcome.reason,
        )

    def with_outputs(self, arm: Arm, trial: Measured) -> Measured:
        """The trial with its outputs there: made again where they went with an interrupted session."""
        if Path(trial.outputs_path).is_dir():
            return trial
        again = self.require_measured(arm, self.executor.trial(arm, runs=0, keep_outputs=True, fresh=True))
        return msgspec.structs.replace(trial, outputs_path=again.outputs_path)

    def _proposed(self) -> Workload:
        o = self.options
        saved = workload.load(o.workload, o.custom_ops) if o.workload else self._of_bundle()
        if saved is not None:
            load = {"gap_ns": o.gap_ns, "sessions": o.sessions, "callers": o.callers, "seed": o.seed}
            # A saved workload keeps its own load, but for options that the user set to something else than
            # the default.
            return msgspec.structs.replace(
                saved, **{k: v for k, v in load.items() if v != getattr(InputOptions(), k)}
            )
        of_data = self._shapes_of_data()
        proposed = workload.propose(
            self.side.model.ir,
            shapes=o.shapes,
            dims=o.dims,
            kept=of_data or o.kept,
            inputs_path=o.inputs,
            seed=o.seed,
            gap_ns=o.gap_ns,
            custom_ops=tuple(o.custom_ops),
        )
        notes = (*proposed.notes, *([SIZES_OF_DATA] if of_data else []))
        return msgspec.structs.replace(proposed, sessions=o.sessions, callers=o.callers, notes=notes)

    def _of_bundle(self) -> Workload | None:
        """What a bundle was measured with, where nothing else decides what it is fed."""
        o, bundle = self.options, self.side.bundle
        if bundle is None or o.inputs is not None or o.shapes or o.dims or o.kept or o.data is not None:
            return None
        path = bundle / WORKLOAD
        if not files.is_file(path):
            return None
        saved = workload.load(path, o.custom_ops, inside=True)
        taken = {wanted.name for wanted in inspect_inputs(self.side.model.ir).inputs}
        fits = all({choice.name for choice in case.inputs} == taken for case in saved.cases)
        there = not saved.inputs_path or Path(saved.inputs_path).exists()
        return saved if saved.cases and fits and there else None

    def _shapes_of_data(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the user's further inputs, where the model leaves sizes open and nothing else decides them."""
        o, model = self.options, self.side.model.ir
        if o.data is None or o.inputs is not None or o.shapes or o.dims or not inspect_inputs(model).kinds:
            return {}
        return user_feeds.middle_shapes(o.data, model, "--data")
