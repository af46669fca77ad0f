"""One model that is measured: its side and inputs, the processes that run it, and what is known of it so far."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import targets
from ortune.errors import MeasurementError
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.inputs.sizes_in_turn import sizes_in_turn
from ortune.inputs.trial_fixes import node_at_fault
from ortune.measuring import failures, feeding
from ortune.measuring.broken_levels import Lowered
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.input_options import InputOptions
from ortune.measuring.known_outputs import KnownOutputs
from ortune.measuring.levels import Levels
from ortune.measuring.limits import Limits
from ortune.measuring.output_comparer import OutputComparer
from ortune.measuring.pilot import Pilot
from ortune.measuring.proposed_work import proposed_work
from ortune.measuring.sides import Resolved
from ortune.outputs.exact import Evaluations
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
from ortune.rules.measurement import emulated_device
from ortune.search.blocks import BASE, IDENTICAL, LETTERS, SPIKE
from ortune.search.controls import SPIKE_RATIO, Judgement
from ortune.search.phases import LEAST_FIRST_RUN_S, LEAST_LOAD_S
from ortune.show.numbers import listed
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.turns import Turns

STARTS = 2  # further processes that show how long a plan takes to load and to run first, besides the pilot's


class Measuring:
    """One side that is measured, and everything that stays between the steps of that.

    The steps are functions that take a measuring; what exists after each:

    ==============================  ============================================================================
    ``Measuring(...)``              ``side``, ``work`` as proposed, ``executor``, ``limits``, ``comparer``
    ``settle``                      ``work`` and ``refs`` that run, ``lowered``; ``check.levels``, ``check.folder``
    ``first_run.settle``            ``check.nonfinite``, ``check.level_check``; ``alerts``
    ``right_outputs.question_right``  ``check.exact``
    ``output_check.step_down``      another ``side`` and ``check.wrong_plan``, if the level of the side was wrong
    ``run_pilot.run_pilot``         ``pilot`` with the first trial and the length of a trial, ``executor.timing``,
                                    ``executor.most_alive``; ``comparer.moments``; ``findings``
    ``memory_in_turn.measure``      ``peak_in_turn``
    ==============================  ============================================================================

    Attributes:
        side: The base; another level of it if its own is wrong, or does not run.
        lowered: The level at which the side runs, if it does not at its own.
        work: The inputs that run; ``refs`` are their files.
        executor: Runs the arms; ``limits`` are those of its trials.
        pilot: The cost of its trials, and their length.
        comparer: Compares its outputs with others.
        check: What is known of its outputs.
        notes: Sentences that are shown with the answer; ``alerts`` are shown before all else.
        findings: What rules found on the way.
        peak_in_turn: Peak memory over several sizes in turn, once it was measured.
        gpu_runs: Transfers of a run, by execution provider, once one with memory of its own ran.
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
        """Propose inputs; nothing is run yet.

        Args:
            side: The base.
            options: The options of its inputs.
            scratch: A folder of its own.
            log: The journal.
            say: Receives sentences for the user.
            machine: Where it runs.
            load: Changes the proposed workload.
        """
        self.machine = machine
        self.side, self.options, self.scratch, self.say = side, options, scratch, say
        self.log = log
        self.notes: list[str] = []
        self.findings: list[Finding] = []
        self.alerts: list[Finding] = []
        self.peak_in_turn: PeakInTurn | None = None
        self.lowered: Lowered | None = None
        self.gpu_runs: dict[str, GpuRun] = {}
        self.work = load(proposed_work(side, options))
        self.refs: tuple[FeedRef, ...] = ()
        self.executor = Executor({}, self.work, scratch, log, machine)
        self.limits = Limits(self.executor)
        self.pilot = Pilot()
        self.comparer = OutputComparer(
            side,
            self.work,
            self.executor,
            scratch,
            metric=options.metric,
            allow_nonfinite=options.allow_nonfinite,
        )
        self.check = KnownOutputs(
            evaluations=Evaluations(scratch / "evaluations", log.folder),
            allow_nonfinite=options.allow_nonfinite,
        )
        if machine.pod:
            self.note(f"{IN_A_POD}: {machine.pod.how}")

    def settle(self, limit_s: float) -> None:
        """Find inputs that run, and keep the outputs of the first run.

        Args:
            limit_s: Seconds that loading and the first run may take each; never less than in any budget.

        Raises:
            InputError, ModelError, RuntimeNotFound, MeasurementError: As the first run fails.
        """
        self.limits.set(max(LEAST_LOAD_S, limit_s), max(LEAST_FIRST_RUN_S, limit_s))
        self.settle_inputs()
        self.take_outputs()

    def take_outputs(self) -> None:
        """Take the outputs of the last trial, which is the base's, for those of the side as it runs."""
        check, last = self.check, self.executor.last
        if isinstance(last, Measured):
            check.folder = Path(last.outputs_path or "-")
        if self.lowered is not None:
            check.wrong_plan = self.lowered.asked
        side = self.side.onnx or self.side
        check.levels = Levels(side, self.refs, self.executor, self.work, self.scratch / "levels")

    def shorten(self, most_ns: float, better_ns: float = math.inf) -> None:
        """Make further trials as long as they should be, or as short as requested and still useful.

        Args:
            most_ns: Maximum time of a trial; rounds are cut for it, then runs.
            better_ns: Preferred maximum; rounds alone are cut for it.
        """
        self.use_turns(self.pilot.shortened(most_ns, better_ns))

    def use_turns(self, turns: Turns) -> None:
        """Run further trials with these turns."""
        self.executor.timing = replace(self.executor.timing, turns=self.pilot.use(turns))

    def retime(self, judgement: Judgement, trials: Sequence[Measured]) -> None:
        """Choose the rounds of further groups from the noise of the controls.

        Args:
            judgement: The result of the controls.
            trials: Trials of the base in them.
        """
        if self.executor.most_alive >= 2:
            self.pilot.retime(judgement, trials, self.executor.timing.turns)

    @property
    def functional_only(self) -> bool:
        """Whether the times are those of emulated hardware."""
        return any(finding.code == emulated_device.CODE for finding in self.findings)

    def note(self, text: str) -> None:
        """Say something now, and repeat it with the answer."""
        self.notes.append(text)
        self.say(text)

    def alert(self, findings: Sequence[Finding], name: str = "", *, said_before: bool = False) -> None:
        """Says findings at once, and again before the answer.

        Args:
            findings: What is said.
            name: Of the side, if there are several.
            said_before: They replace findings that were said in other words, so they only come before the answer.
        """
        for finding in findings:
            if name and self._also(finding, name):
                continue
            said = msgspec.structs.replace(finding, what=f"{name}: {finding.what}") if name else finding
            self.alerts.append(said)
            if not said_before:
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
        """Return what rules may know of the side as it runs here; whoever asks them adds what else it measured."""
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
        """Find inputs that run, says which, and writes their files.

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
        tries = sizes_in_turn(self.side.model.ir, self.work, batch=self.options.batch_too)
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
        folder: str = "in-turn",
    ) -> tuple[Workload, Measured] | None:
        """Return the first of several mixes of sizes that runs, with its trial; None where none does.

        Args:
            mixes: The best first.
            runs: Timed runs of each size.
            keep_outputs: Whether the trial's outputs stay.
            fresh: Whether it runs whatever was recorded.
            begins: Asked before each trial, whether there is time for it.
            folder: Name of the folder for the inputs.
        """
        for number, mix in enumerate(mixes):
            if not begins():
                return None
            refs = feeding.write_case_feeds(self.side.model.ir, mix, self.scratch / f"{folder}-{number}")
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
        """Return a contestant; what is not given is the side's own."""
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
        """Return the base, its double, and the base with a known wait: what every calibration runs."""
        return {
            BASE: self.arm(BASE),
            IDENTICAL: self.arm(IDENTICAL),
            SPIKE: self.arm(SPIKE, wait=SPIKE_RATIO),
        }

    def live_with(self, trial: Measured) -> None:
        """Take note of another side, which may need more memory than the default."""
        self.executor.most_alive = min(
            self.executor.most_alive, self.machine.most_alive(trial.done.peak_bytes)
        )

    def starts(self, *arms: Arm) -> list[list[Measured]]:
        """Return each arm loaded and run once in further processes alone, in turn; none where one of them fails."""
        # One process of every arm, then the second of each: a machine that drifts meets all arms alike.
        outcomes = [[self.executor.trial(arm, runs=0, fresh=True) for arm in arms] for _ in range(STARTS)]
        return [[o for o in mine if isinstance(o, Measured)] for mine in zip(*outcomes, strict=True)]

    def require_measured(self, arm: Arm, outcome: Outcome) -> Measured:
        """Return the measured trial; raises the error that fits a failed one."""
        if isinstance(outcome, Measured):
            return outcome
        if arm.name == BASE or outcome.reason == "no-runtime":
            failures.raise_if_unrunnable(outcome, arm)
        # Most verbs have one side, and no A.
        name = LETTERS[arm.name] if arm.name in LETTERS and arm.name != BASE else self.side.label
        what, do = failures.describe(outcome), failures.remedy(outcome, in_page=arm.plan.is_web)
        onnx = arm.runtime.source is None and not arm.plan.is_web
        ran = outcome.reason in ("run-error", "input-error")
        if onnx and ran and self.work.cases and not self.work.inputs_path:
            model = open_model(arm.model).ir
            what, do = node_at_fault(model, self.work.cases[0], outcome.what) or (what, do)
        raise MeasurementError(
            f"{name} does not run: {what}",
            where=failures.place(arm),
            do=do,
            code=outcome.reason,
        )

    def with_outputs(self, arm: Arm, trial: Measured) -> Measured:
        """Return the trial with its outputs there: made again where they went with an interrupted session."""
        if Path(trial.outputs_path).is_dir():
            return trial
        again = self.require_measured(arm, self.executor.trial(arm, runs=0, keep_outputs=True, fresh=True))
        return msgspec.structs.replace(trial, outputs_path=again.outputs_path)
