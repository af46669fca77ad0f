"""The pilot: what a start and a run of the base cost, and how long a trial is for that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ortune import targets
from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import WEB_WASM as WASM
from ortune.catalogue.providers import WEB_WEBGPU as WEBGPU
from ortune.errors import MeasurementError, UsageError
from ortune.graph import outputs
from ortune.measuring import feed_kinds, row_check, timing
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.executor import Arm, Timing
from ortune.measuring.field import Field
from ortune.measuring.output_check import OutputCheck
from ortune.objectives import Objective
from ortune.records import CaseTimes, Finding, Measured, Outcome, Plan
from ortune.rules import rule_of
from ortune.rules.measurement import (
    data_dependent_latency,
    emulated_device,
    non_finite_outputs,
    rows_depend_on_neighbours,
)
from ortune.rules.web import wrong_outputs_in_browser
from ortune.search.blocks import BASE, IDENTICAL
from ortune.search.controls import Judgement
from ortune.search.figures import FROM_START, OF_PAGES, PAIRED
from ortune.search.phases import LEAST_LOOK_S, LOOK_SHARE
from ortune.stats.warmup import runs_per_trial
from ortune.targets.turns import Turns

P95_REQUESTS = 130  # fewer requests a trial say nothing about a p95
PILOT_RUNS = 5  # of a trial that is to show that a plan runs, what it costs and what it gives


def run_ns(trial: Measured) -> float:
    """What a run of every case took, by every caller, its gap included."""
    done = trial.done
    # ``n_runs`` counts every run of every case by every caller. Example: two cases, one caller, ten runs in 1
    # s: 1 x 2 x 1 / 10 = 0.2 s for one run of each case.
    return done.wall_ns * len(done.cases) * done.n_callers / done.n_runs


def require_page(objective: Objective, trial: Measured, name: str) -> None:
    """UsageError where a page's objective is asked of a process."""
    if objective in OF_PAGES and trial.done.page is None:
        raise UsageError(
            f"applies to web pages, and {name} is not one",
            where=f"--objective {objective}",
            do=f"--target {WASM.target}, or another objective",
        )


class Pilot:
    """The first timed trials of a field's base, and the length of all later ones.

    Attributes:
        trial_ns: What a trial of the base costs; ``least_trial_ns`` the shortest that makes sense.
        start_ns: What a trial takes before its first turn, its first run included.
        look_runs: Timed runs of a trial that only looks: fewer than usual where they are long beside the budget.
        first: The base's first timed trial.
    """

    first: Measured

    def __init__(self, field: Field, check: OutputCheck) -> None:
        self._field, self._check = field, check
        self._native: Outcome | None = None
        self.trial_ns, self.look_runs = 0.0, PILOT_RUNS
        self.start_ns = self._run_ns = 0.0
        self._least_runs = 0
        # As they should be, where the budget does not make them shorter.
        self._turns = Timing().turns

    def run(
        self,
        objective: Objective,
        budget: Budget = UNLIMITED,
        holds: Callable[[float], bool] = lambda _: True,
        rest: Callable[[], float] = lambda: 0.0,
    ) -> bool:
        """Times the baseline alone, then beside itself; compares the two, and tries three kinds of feed.

        Args:
            objective: What counts.
            budget: The budget of the command: what does not fit is made shorter, or left out with a note.
            holds: Asked after the first trial, with the nanoseconds that the shortest trial takes: whether the rest
                is worth its time.
            rest: Trials that what comes after needs at least: before they are cut, what can be left out is.

        Returns:
            What ``holds`` said.
        """
        self._least_runs = P95_REQUESTS if objective == "p95" else 0
        base = self._field.arm(BASE)
        self.look_runs = self.runs_to_look(LOOK_SHARE * budget.left_ns)
        # The first run was one, but for V8, which compiles WebAssembly again: until then a run takes far longer.
        in_wasm = self._field.side.plan.provider_names[0] == WASM.name
        warmup = 1 if self.look_runs == PILOT_RUNS or in_wasm else 0
        self._field.executor.timing = Timing(
            runs=self.look_runs, warmup_runs=warmup, warmup_ns=0, warmup_cap_ns=0
        )
        loaded = self._field.executor.last
        self.answer_natively()
        self.first = self._check.first = self._field.require_measured(
            base, self._field.executor.trial(base, keep_outputs=True)
        )
        self._field.executor.reference = self._field.executor.reference or Path(self.first.outputs_path)
        require_page(objective, self.first, self._field.side.label)
        if objective == "first-result" and (page := self.first.done.page) is not None:
            speed = f"{8e3 * page.download_bytes / max(1, page.download_ns):.3g} Mbit/s"
            self._field.note(
                f"download: {page.download_bytes / 2**20:.3g} MiB uncompressed at {speed} "
                f"takes {page.download_ns / 1e9:.3g} s"
            )
        self._field.executor.timing = timing.timing_for(self.first, at_least_runs=self._least_runs)
        self._turns = self._field.executor.timing.turns
        # A start is measured alone; everything else beside what it is compared with.
        self._field.executor.most_alive = (
            1 if objective in FROM_START else self._field.machine.most_alive(self.first.done.peak_bytes)
        )
        if self._field.executor.most_alive == 1 and objective not in FROM_START:
            self._field.note("two processes do not fit in memory, so trials run one at a time")
        # What this trial spent on runs; the rest of its time is the start.
        turns_ns = (self.look_runs + warmup) * run_ns(self.first)
        elapsed_ns = self.first.elapsed_ns
        if in_wasm and self._field.machine.remote is None and isinstance(loaded, Measured):
            # Later pages begin with what V8 compiled in this one: they are more like the page that only loaded.
            elapsed_ns = min(elapsed_ns, loaded.elapsed_ns + int(turns_ns))
        self.time_by(self.first, turns_ns, elapsed_ns)
        least = self._least_turns()
        if self.first.done.page is not None and self.first.done.page.software:
            # Its times are nobody's: one page tells all that can be told.
            self._use(least)
            self.question_page(base, self.first)
            self._field.limits.expect(self.trial_ns)
            return False
        if not holds(self.least_trial_ns):
            self._use(least)
            return False
        # Half of the share: in the next step two processes take turns.
        self.shorten(LOOK_SHARE * budget.left_ns / 2)
        rest_ns = rest() * self.least_trial_ns
        self._run_again(base, budget.left_ns - rest_ns)
        self._use(self._turns)
        self.question_page(base, self.first)
        self.question_rows(budget.left_ns - rest_ns)
        left_ns = budget.left_ns
        # At least some seconds, but never of what the search needs.
        self.question_values(base, min(max(1e9 * LEAST_LOOK_S, LOOK_SHARE * left_ns), left_ns - rest_ns))
        self._field.limits.expect(self.trial_ns)
        return True

    def _run_again(self, base: Arm, most_ns: float) -> None:
        """The baseline beside itself: what that costs, and whether it answers the same.

        Without time for it, a model that draws no numbers is taken to be its own equal.
        """
        self._field.executor.arms = {BASE: base, IDENTICAL: self._field.arm(IDENTICAL)}
        names = [BASE, IDENTICAL][: self._field.executor.most_alive]
        if most_ns < len(names) * self.trial_ns and not outputs.random_ops(self._field.side.model.ir):
            return
        outcomes = self._field.executor(names, lambda: False, keep=[BASE])
        assert outcomes is not None
        second, *_ = (self._field.require_measured(base, outcome) for outcome in outcomes)
        # Of the two the one that no stall made longer: what a budget holds is told from it.
        elapsed_ns = min(outcome.elapsed_ns for outcome in outcomes)
        self.time_by(second, timing.turns_ns(self._field.executor.timing.turns, run_ns(second)), elapsed_ns)
        self._check.notice_randomness(second)

    def runs_to_look(self, most_ns: float) -> int:
        """Timed runs of the first timed trial, as the run before it says: one at least."""
        last = self._field.executor.last
        if not isinstance(last, Measured):
            return PILOT_RUNS
        run_ns = sum(case.first_ns for case in last.done.cases)
        # The trial before this one loaded and ran once: that is the price of a trial without timed runs.
        return max(1, int(min(PILOT_RUNS, (most_ns - last.elapsed_ns) / max(1, run_ns))))

    def time_by(self, trial: Measured, turns_ns: float, elapsed_ns: float) -> None:
        """Takes what a start and a run cost from a trial that took so long, of which its turns took so much."""
        self._run_ns = run_ns(trial)
        # A difference of two noisy times may fall below 0; no process starts within 1 ms.
        self.start_ns = max(1e6, elapsed_ns - turns_ns)

    def _least_turns(self) -> Turns:
        return timing.shortened(self._turns, self.start_ns, self._run_ns, 0.0, self._least_runs)

    @property
    def least_trial_ns(self) -> float:
        """What the shortest trial takes that makes sense."""
        return self.start_ns + timing.turns_ns(self._least_turns(), self._run_ns)

    @property
    def input_ns(self) -> float:
        """What one run of one input takes, on the average of all cases."""
        return run_ns(self.first) / len(self._field.work.cases)

    @property
    def functional_only(self) -> bool:
        """Returns whether the times are those of no hardware that anybody has."""
        return any(finding.code == emulated_device.CODE for finding in self._field.findings)

    def question_page(self, base: Arm, first: Measured) -> None:
        """Holds what a browser answers against the CPU outside of it, and asks whose times these are.

        Args:
            base: What runs in the browser.
            first: A trial of it; one that kept its outputs saves another.
        """
        emulated = targets.of(base.plan).emulated(first)
        facts = replace(self._field.facts(), emulated=emulated)
        self._field.findings += rule_of(emulated_device).findings(facts)
        if first.done.page is None:
            return
        self.answer_natively()
        native, difference = self._native, None
        ours = first if Path(first.outputs_path or "-").is_dir() else self._answered(base)
        if isinstance(ours, Measured):
            self._question_numbers(Path(ours.outputs_path))
        if isinstance(native, Measured) and isinstance(ours, Measured) and not self._check.moments:
            difference = self._check.compared(
                Path(native.outputs_path), Path(ours.outputs_path), self._field.refs, None
            )
        facts = replace(self._field.facts(), page=first.done.page, native=difference)
        for rule in (emulated_device, wrong_outputs_in_browser):
            self._field.findings += rule_of(rule).findings(facts)

    def _question_numbers(self, outputs: Path) -> None:
        """Says first of all that a page gave no numbers, be a process there to hold them against or not."""
        check, field = self._check, self._field
        check.nonfinite = check.not_finite(outputs)
        for alert in rule_of(non_finite_outputs).findings(replace(field.facts(), nonfinite=check.nonfinite)):
            field.alerts.append(alert)
            field.say(alert.sentence(evidence=False))

    def answer_natively(self) -> None:
        """What the CPU outside of a browser answers, before any page does: that tells how much a page may send."""
        if self._native is None and self._field.side.plan.is_web:
            self._native = self._answered(self._field.arm("native", plan=Plan()))
            if isinstance(self._native, Measured):
                self._field.executor.reference = Path(self._native.outputs_path)

    def _answered(self, arm: Arm) -> Outcome:
        return self._field.executor.trial(arm, runs=0, keep_outputs=True, fresh=True)

    def require_real_times(self) -> None:
        """Raises where nothing may be raced.

        Raises:
            MeasurementError: The GPU or NPU is software.
        """
        if self.functional_only:
            raise self.emulated(targets.of(self._field.side.plan).provider)

    def emulated(self, provider: Provider) -> MeasurementError:
        """Says that the provider's GPU or NPU is software."""
        in_page, device = provider.in_page, "an NPU" if provider.hardware == "npu" else "a GPU"
        what = "the browser emulates its GPU in software" if in_page else "the CPU emulates the device"
        do = f"use {'--headful on ' if in_page else ''}a machine with {device}; "
        return MeasurementError(
            f"{what}, so nothing is measured",
            where=self._field.side.label,
            do=f"{do}ortune compare --b-target {WEBGPU.target if in_page else provider.target} compares outputs here",
            code="functional-only",
        )

    def question_values(self, base: Arm, most_ns: float = math.inf) -> None:
        """Times the baseline on several kinds of invented feed, and keeps what that tells.

        Of a model whose runs take longer than ``most_ns`` for that, it is not asked, which is noted.

        What differs is timed once more in a process of its own, in the other order: a neighbour that stays for some
        seconds makes one kind of feed look expensive, and not the same one twice in all of its runs.
        """
        kinds_ns = feed_kinds.kinds_ns(self._field.executor.timing.runs, self.start_ns, self._run_ns)
        if kinds_ns > most_ns and not self._field.work.inputs_path:
            self._field.note("not tested whether latency depends on input values: no time left in the budget")
            return

        def timed(*, again: bool) -> tuple[CaseTimes, ...]:
            model, work = self._field.side.model.ir, self._field.work
            return feed_kinds.kinds_of_feed(
                self._field.executor, base, model, work, self._field.scratch, again=again
            )

        def seen(kinds: tuple[CaseTimes, ...]) -> tuple[Finding, ...]:
            return tuple(rule_of(data_dependent_latency).findings(replace(self._field.facts(), kinds=kinds)))

        kinds = timed(again=False)
        if seen(kinds):
            for finding in seen(feed_kinds.pooled(kinds, timed(again=True))):
                self._field.findings.append(finding)
                self._field.say(f"{finding.code} {finding.what}; {finding.fix}")

    def question_rows(self, left_ns: float = math.inf) -> None:
        """Asks of a batch whether its rows depend on each other, before anything is said of how fast it is."""
        field = self._field
        if field.side.plan.is_web or not row_check.has_batch(field.side.model.ir, field.work):
            return
        if row_check.needed_ns(field) > left_ns:
            field.note(
                "not tested whether the rows of a batch depend on each other: no time left in the budget"
            )
            return
        found = row_check.check_base(field, self._check, left_ns)
        for alert in rule_of(rows_depend_on_neighbours).findings(replace(field.facts(), row_check=found)):
            field.alerts.append(alert)
            field.say(alert.sentence(evidence=False))

    def shorten(self, most_ns: float, better_ns: float = math.inf) -> None:
        """Makes trials of a group as long as they should be, or as short as is asked and makes sense.

        Args:
            most_ns: What a trial may take; rounds are cut for it, then runs.
            better_ns: What it had better not exceed; rounds alone are cut for it.
        """
        turns = timing.shortened(self._turns, self.start_ns, self._run_ns, most_ns, self._least_runs)
        fewer = timing.shortened(turns, self.start_ns, self._run_ns, better_ns, self._least_runs)
        # ``better_ns`` cuts rounds only, and no lower than the fewest that a statistic over rounds makes
        # sense of.
        rounds = max(fewer.rounds, min(turns.rounds, timing.LEAST_SHORT))
        self._use(turns if fewer.rounds == turns.rounds else replace(turns, rounds=rounds))

    def _use(self, turns: Turns) -> None:
        # A p95 needs 130 requests a trial: with 8 runs a turn these are 17 rounds.
        turns = replace(turns, rounds=max(turns.rounds, -(-self._least_runs // turns.runs)))
        self._field.executor.timing = replace(self._field.executor.timing, turns=turns)
        self.trial_ns = self.start_ns + timing.turns_ns(turns, self._run_ns)

    def retime(self, judgement: Judgement, trials: Sequence[Measured]) -> None:
        """Chooses the rounds of further groups from the noise that was seen (Kalibera and Jones 2013)."""
        turns = self._field.executor.timing.turns
        if judgement.statistic not in PAIRED or judgement.within <= 0 or self._field.executor.most_alive < 2:
            return
        elapsed = float(np.median([t.elapsed_ns for t in trials]))
        # The formula is for runs within a process. Here the unit within is a round, with its cost and its
        # variance.
        rounds = runs_per_trial(
            cost_process_ns=max(1e6, elapsed - timing.turns_ns(turns, self._run_ns)),
            cost_run_ns=timing.turns_ns(replace(turns, rounds=1), self._run_ns),
            var_within=judgement.within,
            var_between=judgement.between,
            low=min(turns.rounds, timing.LEAST_ROUNDS),
            high=2 * timing.MOST_ROUNDS,
        )
        self._turns = replace(self._turns, rounds=rounds)
