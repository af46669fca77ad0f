"""The measurement of one side: its inputs, the processes that run it, and the results so far."""

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
from ortune.measuring.broken_levels import LoweredArm
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.input_options import InputOptions
from ortune.measuring.known_outputs import KnownOutputs
from ortune.measuring.levels import OutputsByLevel
from ortune.measuring.limits import TrialTimeouts
from ortune.measuring.output_comparer import OutputComparer
from ortune.measuring.pilot import Pilot
from ortune.measuring.proposed_work import proposed_work
from ortune.measuring.sides import ResolvedSide
from ortune.outputs.exact import Evaluations
from ortune.printable import listed
from ortune.records import (
    FeedRef,
    Finding,
    GpuRun,
    Host,
    Measured,
    Outcome,
    PeakInTurn,
    Plan,
    Workload,
    messages,
)
from ortune.rules import Facts
from ortune.rules.measurement import emulated_device
from ortune.search.blocks import BASE, IDENTICAL, LETTERS, SPIKE
from ortune.search.controls import SPIKE_RATIO, Judgement
from ortune.search.phases import LEAST_FIRST_RUN_S, LEAST_LOAD_S
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.turns import Turns

STARTS = 2  # processes that time the load and the first run of a plan, in addition to the pilot's


class Measuring:
    """One side that is measured, and the state between the steps of its measurement.

    The steps are functions with a measuring as argument. State after each step:

    ==============================  ============================================================================
    ``Measuring(...)``              ``side``, ``work`` as proposed, ``executor``, ``limits``, ``comparer``
    ``find_inputs``                 ``work`` and ``refs`` that run, ``lowered``; ``check.levels``, ``check.folder``
    ``output_check.check_level``    ``check.nonfinite``, ``check.level_check``; ``alerts``
    ``check_against_float64``       ``check.exact``
    ``output_check.step_down``      a replaced ``side`` and ``check.wrong_plan``, if its level has wrong outputs
    ``run_pilot.run_pilot``         ``pilot`` with the first trial and the length of a trial, ``executor.timing``,
                                    ``executor.most_alive``; ``comparer.moments``; ``findings``
    ``memory_in_turn.measure``      ``peak_in_turn``
    ==============================  ============================================================================

    Attributes:
        side: The base; at a level other than the requested if its outputs are wrong or it fails at the requested level.
        lowered: The levels at which the side fails and runs, if it fails at the requested level; otherwise None.
        work: The inputs that run; ``refs`` are their files.
        executor: Runs the arms; ``limits`` are the limits of its trials.
        pilot: The cost and the length of its trials.
        comparer: Compares its outputs with others.
        check: Known facts about its outputs.
        notes: Messages that are shown with the answer; ``alerts`` are shown first.
        findings: Findings of rules during the measurement.
        peak_in_turn: Peak memory over several sizes in turn; None if not measured.
        gpu_runs: Transfer times of a run, by execution provider with separate device memory.
    """

    def __init__(
        self,
        side: ResolvedSide,
        options: InputOptions,
        scratch: Path,
        log: SessionLog,
        say: Callable[[messages.Message | str], None],
        machine: Machine,
        load: Callable[[Workload], Workload] = lambda work: work,
        line: Callable[[messages.Message], None] = lambda message: None,
    ) -> None:
        """Propose inputs; nothing is run.

        Args:
            side: The base.
            options: The options for its inputs.
            scratch: A folder for this side.
            log: The journal.
            say: Callback for messages to the user.
            machine: The machine that runs the side.
            load: Changes the proposed workload.
            line: Callback for the current step.
        """
        self.machine = machine
        self.side, self.options, self.scratch = side, options, scratch
        self.say, self.line = say, line
        self.log = log
        self.notes: list[messages.Message | str] = []
        self.findings: list[Finding] = []
        self.alerts: list[Finding] = []
        self.peak_in_turn: PeakInTurn | None = None
        self.lowered: LoweredArm | None = None
        self.gpu_runs: dict[str, GpuRun] = {}
        self.work = load(proposed_work(side, options))
        self.refs: tuple[FeedRef, ...] = ()
        self.executor = Executor({}, self.work, scratch, log, machine)
        self.limits = TrialTimeouts(self.executor)
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
            self.note(messages.InAPod(how=machine.pod.how))

    def find_inputs(self, limit_s: float, run_s: float = math.inf) -> None:
        """Find inputs that run, and keep the outputs of the first run.

        Args:
            limit_s: Maximum seconds for loading and for the first run; fixed minimums apply.
            run_s: Maximum seconds for the first run, if less.

        Raises:
            InputError, ModelError, RuntimeNotFound, MeasurementError: The first run failed.
        """
        self.limits.set(max(LEAST_LOAD_S, limit_s), max(LEAST_FIRST_RUN_S, min(run_s, limit_s)))
        self.settle_inputs()
        self.take_outputs()

    def take_outputs(self) -> None:
        """Use the outputs of the last trial, which must be the base's, as the outputs of the side."""
        check, last = self.check, self.executor.last
        if isinstance(last, Measured):
            check.folder = Path(last.outputs_path or "-")
        if self.lowered is not None:
            check.wrong_plan = self.lowered.asked
        check.levels = self.outputs_by_level(self.side.onnx or self.side, self.refs, "levels")

    def outputs_by_level(self, side: ResolvedSide, refs: Sequence[FeedRef], name: str) -> OutputsByLevel:
        """Return the outputs of a side by optimisation level, which run in the scratch folder ``name``."""
        return OutputsByLevel(
            side,
            refs,
            self.executor,
            self.work,
            self.scratch / name,
            host=self.host,
            store_folder=self.log.folder,
        )

    def shorten(self, most_ns: float, better_ns: float = math.inf) -> None:
        """Set the turns of later trials to those of the pilot, shortened to the requested maximum as far as is useful.

        Args:
            most_ns: Maximum time of a trial; rounds are reduced for it, then runs.
            better_ns: Preferred maximum time, for which only rounds are reduced.
        """
        self.use_turns(self.pilot.shortened(most_ns, better_ns))

    def use_turns(self, turns: Turns) -> None:
        """Use these turns in later trials, with as many rounds as the objective needs."""
        self.executor.timing = replace(self.executor.timing, turns=self.pilot.use(turns))

    def retime(self, judgement: Judgement, trials: Sequence[Measured]) -> None:
        """Choose the rounds of later groups from the noise of the controls.

        Args:
            judgement: The result of the controls.
            trials: Trials of the base among the controls.
        """
        if self.executor.most_alive >= 2:
            self.pilot.retime(judgement, trials, self.executor.timing.turns)

    @property
    def functional_only(self) -> bool:
        """Whether the times are those of emulated hardware, so that only outputs count."""
        return any(finding.code == emulated_device.CODE for finding in self.findings)

    def note(self, message: messages.Message | str) -> None:
        """Show a message now, and repeat it with the answer."""
        self.notes.append(message)
        self.say(message)

    def alert(self, findings: Sequence[Finding], name: str = "", *, said_before: bool = False) -> None:
        """Show findings now, and again before the result.

        Args:
            findings: The findings.
            name: The name of the side, if there are several.
            said_before: Whether the findings replace findings that were shown in other words, so that they are shown
                only before the result.
        """
        for finding in findings:
            if name and self._also(finding, name):
                continue
            said = msgspec.structs.replace(finding, what=f"{name}: {finding.what}") if name else finding
            self.alerts.append(said)
            if not said_before:
                self.say(said.sentence(evidence=False))

    def _also(self, finding: Finding, name: str) -> bool:
        """Add a side's name to the alert with the same finding; return False if there is no such alert."""
        for i, alert in enumerate(self.alerts):
            names, _, what = alert.what.partition(": ")
            known = re.split(", | and ", names)
            if what != finding.what or {*known} - {*LETTERS.values()}:
                continue
            if alert == msgspec.structs.replace(finding, what=alert.what):
                both = f"{listed([*known, name])}: {what}"
                self.alerts[i] = msgspec.structs.replace(alert, what=both)
                return True
        return False

    def facts(self) -> Facts:
        """Return the facts about the side for rules; callers add further measurements."""
        side = self.side
        return Facts(
            model=side.model,
            work=self.work,
            fed=self.options.words,
            plan=side.plan,
            target=targets.target_of(side.plan).name,
            ort_version=side.ort_version,
            host=self.host,
            topology=self.machine.topology,
            wrong_when_optimised=self.lowered is not None,
        )

    @property
    def host(self) -> Host:
        """The machine as the trials see it."""
        return self.machine.trial_host

    def settle_inputs(self) -> None:
        """Find inputs that run, report them, and write their files.

        Raises:
            InputError, ModelError, RuntimeNotFound, MeasurementError: The first run failed.
        """
        model = self.side.model.ir
        settled = feeding.find_running_workload(
            self.executor,
            lambda refs: self.arm(BASE, refs=refs),
            model,
            self.work,
            self.scratch,
            self.say,
            # A page takes time to send them; the timed trial sends them.
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
        """Feed several sizes in turn if sizes were guessed, which shows memory that grows when sizes change."""
        first = self.executor.last
        tries = sizes_in_turn(self.side.model.ir, self.work, batch=self.options.batch_too)
        mix = self.first_that_runs(tries, runs=0, keep_outputs=not self.side.plan.is_web)
        if mix is not None:
            self.work = mix[0]
            self.note(messages.SizesInTurn(sizes=tuple(case.name for case in self.work.cases)))
            return
        self.executor.last = first
        if tries:
            self.note(messages.Remark(code="one-size"))

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
        """Return the first of several mixes of sizes that runs, with its trial; None if none runs.

        Args:
            mixes: The mixes in order of preference.
            runs: Number of timed runs of each size.
            keep_outputs: Whether the trial's outputs are kept.
            fresh: Whether to ignore recorded outcomes.
            begins: Called before each trial; returns whether there is time for it.
            folder: Prefix of the input folders' names.
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
        side: ResolvedSide | None = None,
        plan: Plan | None = None,
        model: Path | None = None,
        refs: tuple[FeedRef, ...] | None = None,
        wait: float = 0.0,
    ) -> Arm:
        """Return an arm, for which arguments that are not passed are taken from the side."""
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
        """Return the arms of a calibration: the baseline, an identical copy, and the baseline with an added wait."""
        return {
            BASE: self.arm(BASE),
            IDENTICAL: self.arm(IDENTICAL),
            SPIKE: self.arm(SPIKE, wait=SPIKE_RATIO),
        }

    def limit_alive(self, trial: Measured) -> None:
        """Reduce the number of processes alive at once if another side's trial needs more memory than the base."""
        self.executor.most_alive = min(
            self.executor.most_alive, self.machine.most_alive(trial.done.peak_bytes)
        )

    def start_alone(self, *arms: Arm) -> list[list[Measured]]:
        """Load and run each arm once in further processes, one at a time; return the successful trials of each arm."""
        # One process of every arm, then the second of each, so drift of the machine affects all arms alike.
        outcomes = [[self.executor.trial(arm, runs=0, fresh=True) for arm in arms] for _ in range(STARTS)]
        return [[o for o in mine if isinstance(o, Measured)] for mine in zip(*outcomes, strict=True)]

    def require_measured(self, arm: Arm, outcome: Outcome) -> Measured:
        """Return the outcome if it was measured; raise the error for a failed trial otherwise."""
        if isinstance(outcome, Measured):
            return outcome
        if arm.name == BASE or outcome.reason == "no-runtime":
            failures.raise_if_unrunnable(outcome, arm)
        # Most verbs have one side, without a letter.
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
        """Return the trial with its outputs, run again if an interrupted session lost them."""
        if Path(trial.outputs_path).is_dir():
            return trial
        again = self.require_measured(arm, self.executor.untimed(arm))
        return msgspec.structs.replace(trial, outputs_path=again.outputs_path)
