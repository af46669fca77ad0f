"""What every measuring verb stands on: inputs that run, the cost of a trial, and the baseline's own outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from ortune import rewrites
from ortune.analysis import grids, outputs
from ortune.errors import MeasurementError, UsageError
from ortune.inputs import workload
from ortune.providers.web_wasm import PROVIDER as WASM
from ortune.providers.web_webgpu import PROVIDER as WEBGPU
from ortune.records import (
    CaseTimes,
    FeedRef,
    Finding,
    Host,
    LevelCheck,
    Measured,
    NonFiniteOutput,
    Outcome,
    OutputDifference,
    Plan,
    RewriteSpec,
    Workload,
)
from ortune.rules import Facts, rule_of
from ortune.rules.measurement import depends_on_feeds, software_adapter
from ortune.rules.web import wrong_in_the_browser
from ortune.search.blocks import BASE, IDENTICAL, LETTERS
from ortune.search.controls import Judgement
from ortune.search.figures import FROM_START, OF_PAGES, PAIRED
from ortune.search.phases import (
    HANG_SHARE,
    LEAST_LOAD_S,
    LEAST_LOOK_S,
    LEAST_PATIENCE_S,
    LEVEL_TIMES,
    LOOK_SHARE,
)
from ortune.stats.warmup import runs_per_trial
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.task import Limits
from ortune.targets.turns import Turns
from ortune.trials import metric, pilot, rounding
from ortune.trials.executor import Arm, Executor, Timing
from ortune.trials.input_options import InputOptions
from ortune.trials.levels import Levels
from ortune.trials.outputs import SOMETHING_IN_COMMON, compare_outputs
from ortune.trials.sides import Resolved
from ortune.trials.tolerance import Tolerance, judged, worst_of

P95_REQUESTS = 130  # fewer requests a trial say nothing about a p95
PILOT_RUNS = 5  # of a trial that is to show that a plan runs, what it costs and what it gives
STARTS = 2  # further processes that show how long a plan takes to load and to run first, besides the pilot's


def patience_s(trial_ns: float, left_ns: float) -> float:
    """How long one step of a session with a budget may take: never less than a sound plan on a busy machine needs."""
    return max(LEAST_PATIENCE_S, 5e-9 * trial_ns, HANG_SHARE * 1e-9 * left_ns)


def run_ns(trial: Measured) -> float:
    """What a run of every case took, by every caller, its gap included."""
    done = trial.done
    return done.wall_ns * len(done.cases) * done.n_callers / done.n_runs


def require_page(objective: str, trial: Measured, name: str) -> None:
    """UsageError where a page's objective is asked of a process."""
    if objective in OF_PAGES and trial.done.page is None:
        raise UsageError(
            f"is of a page, and {name} is none",
            where=f"--objective {objective}",
            do=f"--target {WASM.target}, or another objective",
        )


class Baseline:
    """A side that was shown to run, with its feeds on disk and its trials timed.

    Attributes:
        work: The inputs that run.
        refs: Their files.
        trial_ns: What a trial of the baseline costs.
        start_ns: What a trial takes before its first turn, its first run included.
        look_runs: Timed runs of a trial that only looks: fewer than usual where they are long beside the budget.
        first: The trial whose outputs are the reference.
        moments: The baseline differs from itself, so outputs are compared by moments.
        nonfinite: Outputs that hold NaN or infinities.
        wrong_plan: What was asked for, where its outputs are wrong and another level is run in its place.
        level_check: The outputs against those of the model without optimisation; None where that was not asked.
        alerts: What is said before all else.
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
        self.known_differences: dict[str, OutputDifference] = {}
        self.notes: list[str] = []
        self.findings: list[Finding] = []
        self.work = load(self._proposed())
        self.executor = Executor({}, self.work, scratch, log, machine)
        if machine.pod:
            self.note(f"in an emulated pod: {machine.pod.how}")
        self.kinds = outputs.output_kinds(side.model.ir)
        self.grids = grids.output_grids(side.model.ir)
        self.labels = outputs.class_labels(side.model.ir)
        self.refs: tuple[FeedRef, ...] = ()
        self.moments = False
        self.alerts: list[Finding] = []
        self.nonfinite: tuple[NonFiniteOutput, ...] = ()
        self.level_check: LevelCheck | None = None
        self._checked = False
        self.wrong_plan: Plan | None = None
        self._outputs = Path("-")
        self._own: list[OutputDifference] | None = None
        self._metric_of: dict[Path, float] = {}
        self._native: Outcome | None = None
        self.trial_ns, self.look_runs = 0.0, PILOT_RUNS
        self.start_ns = self._run_ns = 0.0
        self._least_runs = 0
        # As they should be, where the budget does not make them shorter.
        self._turns = self.executor.timing.turns

    def note(self, text: str) -> None:
        """Says what is told with the answer, too."""
        self.notes.append(text)
        self.say(text)

    @property
    def host(self) -> Host:
        """The machine as the trials see it."""
        return self.machine.seen

    def settle(self, limit_s: float) -> None:
        """Finds inputs that run, says which, and writes their files.

        Raises:
            InputError, ModelError, RuntimeNotFound, MeasurementError: As the first run fails.
        """
        self.limit(max(LEAST_LOAD_S, limit_s))
        model = self.side.model.ir
        self.work = pilot.settle_workload(
            self.executor,
            lambda refs: self.arm(BASE, refs=refs),
            model,
            self.work,
            self.scratch,
            self.say,
            # A page sends them, which takes time: the one that is timed does it.
            keep_outputs=not self.side.plan.is_web,
        )
        self.say(workload.describe(self.work))
        if self.options.save_workload:
            workload.save(self.options.save_workload, self.work)
        self.refs = pilot.write_case_feeds(model, self.work, self.scratch / "feeds")
        if isinstance(self.executor.last, Measured):
            self.executor.most_alive = self.machine.most_alive(self.executor.last.done.peak_bytes)
            self._outputs = Path(self.executor.last.outputs_path or "-")
        self.levels = Levels(self.side, self.refs, self.executor, self.work, self.scratch / "levels")

    def question_outputs(self, left_ns: float = math.inf) -> None:
        """Asks whether the outputs are numbers, and the model's own; outputs in a browser are held against the CPU's.

        Args:
            left_ns: Of the budget: a run without optimisation that it does not hold is left out, with a note.
        """
        if self.side.plan.is_web:
            return
        found = self.outputs()
        self.nonfinite = self._not_finite()
        last = self.executor.last
        needed_ns = LEVEL_TIMES * last.elapsed_ns if last is not None else 0.0
        self._checked = True
        self.level_check = self.levels.known(self.host, self.log.folder)
        if self.level_check is None and needed_ns > left_ns:
            self.note(
                "outputs were not compared with those of the model without optimisation: the budget does not hold "
                f"the {needed_ns / 1e9:.0f} s that it takes"
            )
        elif self.level_check is None:
            self.level_check = self.levels.check(found, self.host, self.log.folder)

    def checked_level(self) -> LevelCheck | None:
        """How the outputs compare with those of the model without optimisation; None where that tells nothing."""
        if not self._checked:
            self.question_outputs()
        return self.level_check

    def step_down(self) -> None:
        """Goes on at the highest level whose outputs are right, where those of its own are not."""
        check = self.level_check
        if check is None or not check.wrong:
            return
        self.wrong_plan = self.side.plan
        plan = self.levels.plan(check.right)
        there = self.levels.outputs(check.right)
        self.side = replace(self.side, plan=plan)
        self.levels = Levels(self.side, self.refs, self.executor, self.work, self.scratch / "lower-levels")
        self.level_check, self._outputs = None, there or Path("-")
        self.nonfinite = self._not_finite()

    def _not_finite(self) -> tuple[NonFiniteOutput, ...]:
        """What of the side's own outputs is no finite number."""
        return self.compared(self.outputs(), self.outputs(), self.refs, None).nonfinite

    @property
    def claims(self) -> bool:
        """Whether anything may be claimed of how fast the outputs come: not of what is no number."""
        return self.options.allow_nonfinite or not any(o.unusable_reference for o in self.nonfinite)

    def outputs(self) -> Path:
        """The folder of what the side as it is gives for its inputs; made again where a resumed session lacks it."""
        if not self._outputs.is_dir():
            base = self.arm(BASE)
            trial = self.require_measured(
                base, self.executor.trial(base, runs=0, keep_outputs=True, fresh=True)
            )
            self._outputs = Path(trial.outputs_path)
        return self._outputs

    @property
    def wrong(self) -> bool:
        """Whether the optimiser is known to have made something else of the model."""
        return self.level_check is not None and self.level_check.wrong

    def pilot(
        self,
        objective: str,
        left_s: Callable[[], float] = lambda: math.inf,
        holds: Callable[[float], bool] = lambda _: True,
        rest: Callable[[], float] = lambda: 0.0,
    ) -> bool:
        """Times the baseline alone, then beside itself; compares the two, and tries three kinds of feed.

        Args:
            objective: What counts.
            left_s: Of the budget, whenever it is asked: what does not fit is made shorter, or left out with a note.
            holds: Asked after the first trial, with the nanoseconds that the shortest trial takes: whether the rest
                is worth its time.
            rest: Trials that what comes after needs at least: before they are cut, what can be left out is.

        Returns:
            What ``holds`` said.
        """
        self._least_runs = P95_REQUESTS if objective == "p95" else 0
        base = self.arm(BASE)
        self.look_runs = self.runs_to_look(LOOK_SHARE * left_s() * 1e9)
        # The first run was one, but for V8, which compiles WebAssembly again: until then a run takes far longer.
        in_wasm = self.side.plan.provider_names[0] == WASM.name
        warmup = 1 if self.look_runs == PILOT_RUNS or in_wasm else 0
        self.executor.timing = Timing(runs=self.look_runs, warmup_runs=warmup, warmup_ns=0, warmup_cap_ns=0)
        loaded = self.executor.last
        self.answer_natively()
        self.first = self.require_measured(base, self.executor.trial(base, keep_outputs=True))
        self.executor.reference = self.executor.reference or Path(self.first.outputs_path)
        require_page(objective, self.first, self.side.label)
        if objective == "first-result" and (page := self.first.done.page) is not None:
            speed = f"{8e3 * page.download_bytes / max(1, page.download_ns):.3g} Mbit/s"
            self.note(
                f"the download: {page.download_bytes / 2**20:.3g} MiB, not compressed, at {speed} "
                f"take {page.download_ns / 1e9:.3g} s"
            )
        self.executor.timing = pilot.timing_for(self.first, at_least_runs=self._least_runs)
        self._turns = self.executor.timing.turns
        # A start is measured alone; everything else beside what it is compared with.
        self.executor.most_alive = (
            1 if objective in FROM_START else self.machine.most_alive(self.first.done.peak_bytes)
        )
        if self.executor.most_alive == 1 and objective not in FROM_START:
            self.note("memory does not hold two of its processes at once: trials run one after another")
        turns_ns = (self.look_runs + warmup) * run_ns(self.first)
        elapsed_ns = self.first.elapsed_ns
        if in_wasm and self.machine.remote is None and isinstance(loaded, Measured):
            # Later pages begin with what V8 compiled in this one: they are more like the page that only loaded.
            elapsed_ns = min(elapsed_ns, loaded.elapsed_ns + int(turns_ns))
        self.time_by(self.first, turns_ns, elapsed_ns)
        least = self._least_turns()
        if self.first.done.page is not None and self.first.done.page.software:
            # Its times are nobody's: one page tells all that can be told.
            self._use(least)
            self.question_page(base, self.first)
            self.expect(self.trial_ns)
            return False
        if not holds(self.least_trial_ns):
            self._use(least)
            return False
        self.shorten(LOOK_SHARE * left_s() * 1e9 / 2)
        rest_ns = rest() * self.least_trial_ns
        self._run_again(base, left_s() * 1e9 - rest_ns)
        self._use(self._turns)
        self.question_page(base, self.first)
        left_ns = left_s() * 1e9
        self.question_values(base, min(max(1e9 * LEAST_LOOK_S, LOOK_SHARE * left_ns), left_ns - rest_ns))
        self.expect(self.trial_ns)
        return True

    def _run_again(self, base: Arm, most_ns: float) -> None:
        """The baseline beside itself: what that costs, and whether it answers the same.

        Without time for it, a model that draws no numbers is taken to be its own equal.
        """
        self.executor.arms = {BASE: base, IDENTICAL: self.arm(IDENTICAL)}
        names = [BASE, IDENTICAL][: self.executor.most_alive]
        if most_ns < len(names) * self.trial_ns and not outputs.random_ops(self.side.model.ir):
            return
        found = self.executor(names, lambda: False, keep=[BASE])
        assert found is not None
        second, *_ = (self.require_measured(base, outcome) for outcome in found)
        # Of the two the one that no stall made longer: what a budget holds is told from it.
        elapsed_ns = min(outcome.elapsed_ns for outcome in found)
        self.time_by(second, pilot.turns_ns(self.executor.timing.turns, run_ns(second)), elapsed_ns)
        self.notice_randomness(second)

    def notice_randomness(self, again: Measured) -> None:
        """Outputs are compared by moments from now on where the baseline, run again, differs from itself."""
        # Held against its own, right or wrong: that these differ from what is right is no randomness.
        found = self.difference(again, "itself", by_values=True, reference=self._first_outputs)
        if not found.ok and (found.max_error or not found.nonfinite_reference):
            self.moments = True
            ops = sorted({op for _, op in outputs.random_ops(self.side.model.ir)})
            cause = f" ({', '.join(ops)})" if ops else ""
            self.note(
                f"the model differs from itself from run to run{cause}: "
                "outputs are compared by shape, finiteness and moments"
            )

    def runs_to_look(self, most_ns: float) -> int:
        """Timed runs of the first timed trial, as the run before it says: one at least."""
        last = self.executor.last
        if not isinstance(last, Measured):
            return PILOT_RUNS
        run_ns = sum(case.first_ns for case in last.done.cases)
        return max(1, int(min(PILOT_RUNS, (most_ns - last.elapsed_ns) / max(1, run_ns))))

    def time_by(self, trial: Measured, turns_ns: float, elapsed_ns: float) -> None:
        """Takes what a start and a run cost from a trial that took so long, of which its turns took so much."""
        self._run_ns = run_ns(trial)
        self.start_ns = max(1e6, elapsed_ns - turns_ns)

    def _least_turns(self) -> Turns:
        return pilot.shortened(self._turns, self.start_ns, self._run_ns, 0.0, self._least_runs)

    @property
    def least_trial_ns(self) -> float:
        """What the shortest trial takes that makes sense."""
        return self.start_ns + pilot.turns_ns(self._least_turns(), self._run_ns)

    @property
    def functional_only(self) -> bool:
        """Whether its times are those of no hardware that anybody has."""
        return any(finding.code == software_adapter.CODE for finding in self.findings)

    def question_page(self, base: Arm, first: Measured) -> None:
        """Holds what a browser answers against the CPU outside of it, and asks whose times these are.

        Args:
            base: What runs in the browser.
            first: A trial of it; one that kept its outputs saves another.
        """
        if first.done.page is None:
            return
        self.answer_natively()
        native, found = self._native, None
        ours = first if Path(first.outputs_path or "-").is_dir() else self._answered(base)
        if isinstance(native, Measured) and isinstance(ours, Measured) and not self.moments:
            found = self.compared(Path(native.outputs_path), Path(ours.outputs_path), self.refs, None)
        facts = Facts(model=self.side.model, page=first.done.page, native=found)
        for rule in (software_adapter, wrong_in_the_browser):
            self.findings += rule_of(rule).findings(facts)

    def answer_natively(self) -> None:
        """What the CPU outside of a browser answers, before any page does: that tells how much a page may send."""
        if self._native is None and self.side.plan.is_web:
            self._native = self._answered(self.arm("native", plan=Plan()))
            if isinstance(self._native, Measured):
                self.executor.reference = Path(self._native.outputs_path)

    def _answered(self, arm: Arm) -> Outcome:
        return self.executor.trial(arm, runs=0, keep_outputs=True, fresh=True)

    def require_real_times(self) -> None:
        """Raises where nothing may be raced.

        Raises:
            MeasurementError: The browser's GPU is software.
        """
        if self.functional_only:
            raise MeasurementError(
                "the browser's GPU is software, so nothing is raced: its times are no GPU's",
                where=self.side.label,
                do="use --headful on a machine with a GPU; "
                f"ortune compare --b-target {WEBGPU.target} compares outputs here",
                code="functional-only",
            )

    def question_values(self, base: Arm, most_ns: float = math.inf) -> None:
        """Times the baseline on several kinds of invented feed, and keeps what that tells.

        Of a model whose runs take longer than ``most_ns`` for that, it is not asked, which is noted.

        What differs is timed once more in a process of its own, in the other order: a neighbour that stays for some
        seconds makes one kind of feed look expensive, and not the same one twice in all of its runs.
        """
        kinds_ns = pilot.kinds_ns(self.executor.timing.runs, self.start_ns, self._run_ns)
        if kinds_ns > most_ns and not self.work.inputs_path:
            self.note(
                "whether latency depends on the values of the inputs was not asked: the budget does not hold it"
            )
            return

        def timed(*, again: bool) -> tuple[CaseTimes, ...]:
            model, work = self.side.model.ir, self.work
            return pilot.kinds_of_feed(self.executor, base, model, work, self.scratch, again=again)

        def seen(kinds: tuple[CaseTimes, ...]) -> tuple[Finding, ...]:
            return tuple(rule_of(depends_on_feeds).findings(Facts(model=self.side.model, kinds=kinds)))

        kinds = timed(again=False)
        if seen(kinds):
            for finding in seen(pilot.pooled(kinds, timed(again=True))):
                self.findings.append(finding)
                self.say(f"{finding.code} {finding.what}; {finding.fix}")

    def shorten(self, most_ns: float, better_ns: float = math.inf) -> None:
        """Makes trials of a group as long as they should be, or as short as is asked and makes sense.

        Args:
            most_ns: What a trial may take; rounds are cut for it, then runs.
            better_ns: What it had better not exceed; rounds alone are cut for it.
        """
        turns = pilot.shortened(self._turns, self.start_ns, self._run_ns, most_ns, self._least_runs)
        fewer = pilot.shortened(turns, self.start_ns, self._run_ns, better_ns, self._least_runs)
        rounds = max(fewer.rounds, min(turns.rounds, pilot.LEAST_SHORT))
        self._use(turns if fewer.rounds == turns.rounds else replace(turns, rounds=rounds))

    def _use(self, turns: Turns) -> None:
        turns = replace(turns, rounds=max(turns.rounds, -(-self._least_runs // turns.runs)))
        self.executor.timing = replace(self.executor.timing, turns=turns)
        self.trial_ns = self.start_ns + pilot.turns_ns(turns, self._run_ns)

    def retime(self, judgement: Judgement, trials: Sequence[Measured]) -> None:
        """Chooses the rounds of further groups from the noise that was seen (Kalibera and Jones 2013)."""
        turns = self.executor.timing.turns
        if judgement.estimand not in PAIRED or judgement.within <= 0 or self.executor.most_alive < 2:
            return
        elapsed = float(np.median([t.elapsed_ns for t in trials]))
        rounds = runs_per_trial(
            cost_process_ns=max(1e6, elapsed - pilot.turns_ns(turns, self._run_ns)),
            cost_run_ns=pilot.turns_ns(replace(turns, rounds=1), self._run_ns),
            var_within=judgement.within,
            var_between=judgement.between,
            low=min(turns.rounds, pilot.LEAST_ROUNDS),
            high=2 * pilot.MOST_ROUNDS,
        )
        self._turns = replace(self._turns, rounds=rounds)

    def live_with(self, trial: Measured) -> None:
        """Takes note of another side, which may need more memory than the default."""
        self.executor.most_alive = min(
            self.executor.most_alive, self.machine.most_alive(trial.done.peak_bytes)
        )

    def expect(self, trial_ns: float, left_ns: float | None = None, *, least_s: float = 10.0) -> None:
        """Sets the limits of later trials: thirty times what a trial took is a hang, not noise.

        Args:
            trial_ns: What a trial takes.
            left_ns: The time that is left for it and what comes after it; None is no matter.
            least_s: Seconds that are no hang, however short a trial is.
        """
        limit = max(least_s, 30e-9 * trial_ns)
        self.limit(limit if left_ns is None else min(limit, patience_s(trial_ns, left_ns)))

    def limit(self, seconds: float) -> None:
        """Sets what loading may take in later trials, and each of their turns."""
        self.executor.limits = Limits(load_s=seconds, run_s=seconds)

    def starts(self, *arms: Arm) -> list[list[Measured]]:
        """Each arm loaded and run once in further processes alone, in turn; none where one of them fails."""
        outcomes = [[self.executor.trial(arm, runs=0, fresh=True) for arm in arms] for _ in range(STARTS)]
        return [[o for o in mine if isinstance(o, Measured)] for mine in zip(*outcomes, strict=True)]

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

    def require_measured(self, arm: Arm, outcome: Outcome) -> Measured:
        """The measured trial; raises the error that fits a failed one."""
        if isinstance(outcome, Measured):
            return outcome
        if arm.name == BASE or outcome.reason == "no-runtime":
            pilot.raise_if_unrunnable(outcome, arm)
        # Most verbs have one side, and no A.
        name = LETTERS[arm.name] if arm.name in LETTERS and arm.name != BASE else self.side.label
        raise MeasurementError(
            f"{name} does not run: {pilot.describe(outcome)}",
            where=pilot.place(arm),
            do=pilot.remedy(outcome, in_page=arm.plan.is_web),
            code=outcome.reason,
        )

    def with_outputs(self, arm: Arm, trial: Measured) -> Measured:
        """The trial with its outputs there: made again where they went with an interrupted session."""
        if Path(trial.outputs_path).is_dir():
            return trial
        again = self.require_measured(arm, self.executor.trial(arm, runs=0, keep_outputs=True, fresh=True))
        return msgspec.structs.replace(trial, outputs_path=again.outputs_path)

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
        if key and key in self.known_differences:
            return self.known_differences[key]
        trial = self.with_outputs(again or self.arm(BASE), trial)
        tolerance = self.options.tolerance if tolerance is None else tolerance
        if by_values and tolerance is not None and tolerance.number is None:
            tolerance = None
        folder = (reference or self.reference)()
        found = self.compared(folder, Path(trial.outputs_path), self.refs, tolerance, without)
        undecided = rounding.doubtful(found) or (not found.ok and found.accepting_tolerance is not None)
        if undecided and tolerance is None and not self.moments:
            found = self._by_own_rounding(found)
        if key:
            self.log.add("difference", {"key": key, "difference": found})
        return found

    def _by_own_rounding(self, found: OutputDifference) -> OutputDifference:
        """The verdict where the model's own rounding decides it: more than usual, or far less."""
        own = self._own_differences()
        if found.ok:
            return rounding.tightened(found, own)
        better = rounding.forgiven(found, own)
        moves = rounding.moves(own)
        note = (
            "these inputs make the outputs sensitive: with the optimiser off, or inputs one step of rounding away, "
            f"they move by {moves:.2g} (relative L2), so up to {rounding.FORGIVEN * moves:.2g} is taken for rounding"
        )
        if better.ok and note not in self.notes:
            self.notes.append(note)
            self.say(note)
        return better

    def _own_differences(self) -> list[OutputDifference]:
        """What rounding alone makes of the outputs, and the optimiser where it does no more than that."""
        if self._own is None:
            check, moved = self.checked_level(), self.levels.moved()
            right = [check.outputs] if check is not None and not check.wrong else []
            self._own = [each for each in (*right, moved) if each is not None]
        return self._own

    def reference(self) -> Path:
        """The folder of the outputs that others are held against: the baseline's own, where these are right."""
        found = self.levels.reference() if self.wrong else None
        return found[1] if found is not None else self._first_outputs()

    def _first_outputs(self) -> Path:
        """The folder of what the first timed trial gave; made again where a resumed session lacks it."""
        self.first = self.with_outputs(self.arm(BASE), self.first)
        return Path(self.first.outputs_path)

    def left_out(self, rewritten: Sequence[RewriteSpec]) -> frozenset[str]:
        """The model's outputs that these rewrites leave out on request; a note says so."""
        names = [str(value.name) for value in self.side.model.ir.graph.outputs]
        gone = rewrites.left_out(rewritten, names)
        note = f"left out on request, so compared with nothing: {', '.join(n for n in names if n in gone)}"
        if gone and note not in self.notes:
            self.notes.append(note)
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
        found = [
            compare_outputs(
                reference / name,
                outputs / name,
                kinds=self.kinds,
                grids=self.grids,
                labels=self.labels,
                # A budget has limits of its own: then only what has nothing in common fails here.
                tolerance=(asked.number or SOMETHING_IN_COMMON) if asked else None,
                rows=asked.of_rows if asked else None,
                as_moments=self.moments,
                without=without,
                allow_nonfinite=self.options.allow_nonfinite,
            )
            for name in (ref.name for ref in refs)
        ]
        if asked is not None and asked.number is None and not self.moments:
            metrics = self._metrics(reference, outputs, refs) if asked.of_metric else None
            return judged(found, asked, metrics)
        return worst_of(found)

    def _metrics(self, reference: Path, outputs: Path, refs: Sequence[FeedRef]) -> tuple[float, float]:
        """The user's own metric of a reference and of other outputs."""

        def of(folder: Path) -> float:
            cases = [(folder / ref.name, Path(ref.path), ref.weight) for ref in refs]
            return metric.measured(self.options.metric, self.side.runtime, self.scratch, cases)

        if reference not in self._metric_of:
            self._metric_of[reference] = of(reference)
        return self._metric_of[reference], of(outputs)

    def _proposed(self) -> Workload:
        o = self.options
        if o.workload:
            saved = workload.load(o.workload, o.custom_ops)
            load = {"gap_ns": o.gap_ns, "sessions": o.sessions, "callers": o.callers, "seed": o.seed}
            return msgspec.structs.replace(
                saved, **{k: v for k, v in load.items() if v != getattr(InputOptions(), k)}
            )
        proposed = workload.propose(
            self.side.model.ir,
            shapes=o.shapes,
            dims=o.dims,
            kept=o.kept,
            inputs_path=o.inputs,
            seed=o.seed,
            gap_ns=o.gap_ns,
            custom_ops=tuple(o.custom_ops),
        )
        return msgspec.structs.replace(proposed, sessions=o.sessions, callers=o.callers)
