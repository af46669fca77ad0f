"""``ortune compare``: is B faster than A, here? And of several, which is the fastest?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from ortune import rules, targets
from ortune.errors import MeasurementError, OrtuneError, UsageError
from ortune.experiment.compare_result import New, Raced, rank, wrong_sides
from ortune.experiment.driver import drive
from ortune.experiment.field import STARTS
from ortune.experiment.opening import Experiment
from ortune.experiment.pilot import require_page
from ortune.experiment.watcher import Watcher
from ortune.fleet import runtimes
from ortune.model.open import open_model
from ortune.profiling.kernels import kernels_a_run
from ortune.profiling.processes import LEAST_OF_TURN, profile, profiled_arm
from ortune.profiling.why import why
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU
from ortune.records import (
    Block,
    CompareResult,
    Envelope,
    Failed,
    Finding,
    Measured,
    OutputDifference,
    Runtime,
    VerdictName,
)
from ortune.report.compare_outputs import outputs
from ortune.report.compare_words import setting
from ortune.report.difference_words import no_reason, worded
from ortune.report.numbers import change, span
from ortune.report.placement_words import frames_lost, in_browser, kernels_not_counted, kernels_there
from ortune.report.sides import compared_ns
from ortune.rules.measurement import software_adapter
from ortune.search import controls, duel
from ortune.search.blocks import BASE, LETTERS, NEW, awake, failures, measured
from ortune.search.figures import OBJECTIVES, TIMES, describe, require_objective
from ortune.search.phases import AFTER_SHARE, DELIVERY_SHARE, PROFILED_TRIALS
from ortune.search.sequential import Sequential
from ortune.stats import evidence
from ortune.trials import pairing
from ortune.trials.failures import describe as failure
from ortune.trials.sides import Resolved, require_unchanged
from ortune.verbs._elsewhere import Elsewhere, browser_elsewhere
from ortune.verbs._first_run import SIDE_RUNS, question_side, settle
from ortune.verbs._options import (
    GATE,
    NON_FINITE,
    RUN,
    Downloaded,
    Load,
    Metric,
    Objective,
    Option,
    Resumable,
    Tolerance,
    share,
)
from ortune.verbs._session import experiment, go_on, keep
from ortune.verbs._sides import Sides

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = "stopping after this trial, then telling what is known; Ctrl-C again stops at once"


@dataclass(frozen=True, kw_only=True)
class Options(Elsewhere, Resumable, Load, Downloaded, Sides):
    """Is B faster than A on this machine?

    Runs all sides in fresh processes, in random order, block by block, until the evidence answers or the time is
    up (2 minutes). Says "no difference" when that is so, and what it could have seen. Of several sides, B, C, ..., each
    is held against A in the same blocks, and all are ranked.
    """

    objective: Objective = "latency"
    tolerance: Tolerance = None
    metric: Metric = None
    max_blocks: Annotated[
        int | None,
        Option("--max-blocks", "N", "Blocks at most (100, more with a longer --budget).", RUN, least=6),
    ] = None
    inject_wait: Annotated[
        str | float | None, Option("--inject-wait", "5%", "For testing: a busy wait in each run of B.", RUN)
    ] = None
    allow: Annotated[
        Sequence[str],
        Option("--allow", "WHAT", "non-finite: measure outputs that are NaN or infinite too.", RUN),
    ] = ()
    no_why: Annotated[
        bool, Option("--no-why", "", "Do not profile both sides after a proven difference.", RUN)
    ] = False
    threshold: Annotated[
        str | float | None, Option("--threshold", "5%", "Exit 1 if a regression beyond this is proven.", GATE)
    ] = None
    undecided: Annotated[
        str, Option("--undecided", "pass|fail", "What an undecided gate counts as.", GATE)
    ] = "pass"

    @property
    def most_blocks(self) -> int:
        """100 in two minutes; a longer budget was given to be used."""
        return self.max_blocks or max(100, int(self.budget_s / 1.2))

    @cached_property
    def threshold_ratio(self) -> float | None:
        """The regression that fails the gate, as a share; None without a gate."""
        return share(self.threshold, "--threshold")

    @cached_property
    def wait_ratio(self) -> float:
        """The busy wait added to B's runs, as a share of each."""
        return share(self.inject_wait, "--inject-wait") or 0.0

    @cached_property
    def counts_as(self) -> Literal["pass", "fail"]:
        """What an undecided gate counts as."""
        if self.undecided not in ("pass", "fail"):
            raise UsageError(f"{self.undecided!r} is neither pass nor fail", where="--undecided")
        return "fail" if self.undecided == "fail" else "pass"


def run(options: Options, watcher: Watcher | None = None) -> Envelope[CompareResult]:
    """Compares two sides and returns the whole document.

    Raises:
        OrtuneError: Nothing could be compared; the exit code is the error's.
    """
    watch = watcher or Watcher()
    require_objective(options.objective)
    for name in options.allow:
        if name != NON_FINITE:
            raise UsageError(f"{name!r} is nothing that can be allowed", where="--allow", do=NON_FINITE)
    with experiment("compare", options, watch) as opened:
        base, news = _sides(options, opened)
        watch.say(_measuring_with(base, news))
        names = [targets.of(side.plan).name for side in (base, *(new.side for new in news))]
        options.require_there(names, options.objective, pod=options.feeds.pod is not None)
        sides = [base, *(new.side for new in news)]
        labels = {"a": base.label, **{new.name.lower(): new.side.label for new in news}}
        there = browser_elsewhere(options, names, opened.scratch, watch) if options.serve else None
        with opened.measuring(base.label, machine=there):
            go_on(opened, options, sides, **labels)
            envelope = _Run(options, opened, base, news).go()
        return keep(opened, options, envelope)


def _sides(options: Options, opened: Experiment) -> tuple[Resolved, list[New]]:
    base = opened.resolve(options.side("a"), plain=options.proves_bundle)
    arms = [arm for arm in LETTERS if arm != BASE]
    return base, [
        New(arm=arm, side=opened.resolve(options.side(letter), base_model=base.model))
        for arm, letter in zip(arms, options.new_letters, strict=False)
    ]


def _measuring_with(a: Resolved, news: Sequence[New]) -> str:
    with_a = runtimes.describe(a.runtime)
    others = [f"{n.name} with {_described(n.side.runtime, a)}" for n in news if n.side.runtime != a.runtime]
    return ", ".join([f"measuring A with {with_a}", *others]) if others else f"measuring with {with_a}"


def _described(runtime: Runtime, a: Resolved) -> str:
    """What is not A's of a runtime: of pages that another onnxruntime-web runs, that one alone."""
    pages = runtime.ort_web_dist and runtime.python == a.runtime.python
    return runtime.build if pages else runtimes.describe(runtime)


class _Run:
    """One comparison while it runs."""

    def __init__(self, options: Options, opened: Experiment, a: Resolved, news: list[New]) -> None:
        self.options, self.experiment, self.a, self.news = options, opened, a, news
        self.watch, self.clock = opened.watch, opened.clock
        self.scratch, self.log = opened.scratch, opened.log
        self.delivery_s = self.after_s = DELIVERY_SHARE * self.clock.spent_s
        self.tells_why = not options.no_why and options.objective in TIMES
        self.starts: list[Measured] = []  # of A alone
        self.before_ns = 0  # until the first block
        for new in news:
            new.pairs = pairing.pair_inputs(a.model.ir, new.side.model.ir, options.mapped, new.name)
        self.baseline = opened.base(a)
        self.rules = duel.Rules(
            budget_ns=int(options.budget_s * 1e9),
            max_blocks=options.most_blocks,
            threshold_ratio=options.threshold_ratio,
            estimand=OBJECTIVES[options.objective],
        )

    def go(self) -> Envelope[CompareResult]:
        baseline, executor = self.baseline, self.baseline.executor
        settle(baseline, self.options.budget_s, lambda: self._left_ns() / 1e9, self.watch.line, "A")
        for new in self.news:
            folder, model = self.scratch / "feeds", new.side.model.ir
            refs = pairing.feeds_for(baseline.refs, model, new.pairs, folder, new.name)
            wait = self.options.wait_ratio if new.arm == NEW else 0.0
            new.contestant = baseline.arm(new.arm, side=new.side, refs=refs, wait=wait)
            renamed = ", ".join(f"{a} -> {b}" for b, a in new.pairs.items() if a != b)
            if renamed:
                self.watch.say(f"inputs paired: {renamed}")
        baseline.pilot.run(
            self.options.objective,
            lambda: self.clock.left_s,
            # Each new side is run once by itself, and where it differs questioned; then a block of all.
            rest=lambda: (2 + SIDE_RUNS) * len(self.news) + 1,
        )
        baseline.notes += in_browser("A", baseline.pilot.first.done)
        for new in self.news:
            self._try(new)
        timed = [new for new in self.news if new.comparable and baseline.check.claims]
        if not timed or self._functional_only(timed):
            return self._envelope(None, None)
        alone_ns = float(
            np.mean([baseline.pilot.first.elapsed_ns, *(new.trials[0].elapsed_ns for new in timed)])
        )
        baseline.limits.expect(max(baseline.pilot.trial_ns, *(new.trials[0].elapsed_ns for new in timed)))
        trial_ns = baseline.pilot.trial_ns * max(1.0, alone_ns / baseline.pilot.first.elapsed_ns)
        self._keep_time(trial_ns, len(timed))
        design = self._design(trial_ns, len(timed))
        executor.arms = {
            **baseline.controls(),
            **{new.arm: new.contestant for new in timed if new.contestant},
        }
        self.experiment.replay.whole()
        order = self.experiment.replay.once("order", int, lambda: int(1e9 * self.watch.clock.now_s()))
        schedule = Sequential(self.rules, design, [new.arm for new in timed])
        drive(
            schedule,
            executor,
            rng=random.Random(f"{self.options.seed}-{order}"),
            clock=lambda: int(1e9 * self.clock.spent_s),
            end_ns=self.rules.budget_ns,
            stop=self.watch.stop,
            on_block=lambda block: self._on_block(schedule, block),
            calibrated=lambda judgement: self._retime(judgement, schedule),
        )
        state = schedule.state
        self._starts(state, design)
        require_unchanged(self.a, *(new.side for new in self.news))
        return self._with_why(self._envelope(state, design))

    def _functional_only(self, timed: Sequence[New]) -> bool:
        """Whether a side ran on a GPU that is software: outputs and placement tell something, times nothing."""
        for new in timed:
            first = new.trials[0]
            found = rules.Facts(page=first.done.page, emulated=targets.of(new.side.plan).emulated(first))
            if not self.baseline.pilot.functional_only:
                self.baseline.findings += rules.rule_of(software_adapter).findings(found)
        if self.baseline.pilot.functional_only:
            self.baseline.notes += kernels_there(self._kernels(timed))
        return self.baseline.pilot.functional_only

    def _kernels(self, timed: Sequence[New]) -> dict[str, int]:
        """Kernels of a run by side, where a profile tells them: they need no clock."""
        arms = {"A": self.baseline.arm(BASE), **{n.name: n.contestant for n in timed if n.contestant}}
        found = {}
        for name, arm in arms.items():
            if targets.of(arm.plan).provider != WEB_WEBGPU:
                continue
            self.watch.line(f"counting the kernels of {name}")
            kept = self.scratch / f"kernels-{arm.name}"
            try:
                (seen,) = profile(self.baseline, [profiled_arm(self.baseline, arm)], LEAST_OF_TURN, [kept])
            except OrtuneError as error:  # without them outputs and placement are an answer
                self.baseline.notes.append(kernels_not_counted(name, error.what))
                continue
            if (count := kernels_a_run(seen.trace)) is not None:
                found[name] = count
        return found

    def _try(self, new: New) -> None:
        """Runs a new side alone: whether it runs, what that costs, and how far its outputs are from the base's."""
        baseline = self.baseline
        assert new.contestant is not None
        outcome = baseline.executor.trial(new.contestant, runs=baseline.pilot.look_runs, keep_outputs=True)
        if isinstance(outcome, Failed) and len(self.news) > 1 and outcome.reason != "no-runtime":
            new.failed = outcome
            self.watch.say(f"{new.name} does not run: {failure(outcome)}")
            if all(other.failed for other in self.news):
                baseline.require_measured(new.contestant, outcome)
            return
        trial = baseline.require_measured(new.contestant, outcome)
        trial = baseline.with_outputs(new.contestant, trial)
        require_page(self.options.objective, trial, new.name)
        renames = pairing.pair_outputs(self.a.model.ir, new.side.model.ir)
        for case in baseline.work.cases:
            pairing.rename_outputs(Path(trial.outputs_path) / case.name, renames)
        baseline.check.labels = pairing.joint_labels(baseline.check.labels, new.side.model.ir, renames)
        baseline.live_with(trial)
        baseline.notes += in_browser(new.name, trial.done)
        new.trials = [trial]
        new.difference = baseline.check.difference(trial, rewritten=new.side.plan.rewrites)
        if not new.difference.ok:
            new.wrong = question_side(
                baseline,
                new.side,
                new.contestant.feeds,
                self.watch.line,
                new.name,
                lambda: self._left_ns() / 1e9,
            )
        if new.comparable:
            told = [*(setting(r, new.side.plan) for r in trial.done.read_back), outputs(new.difference)]
            self.watch.say(f"{new.name} ran: {'; '.join(told)}")

    def _starts(self, state: duel.Duel, design: duel.Design) -> None:
        """How long each side takes to load and to run first, alone."""
        raced = [new for new in self.news if new.arm in state.arms and new.arm not in state.failed]
        for new in raced:
            new.first_load_ns = self.baseline.executor.first_load_ns(new.arm)
        # A side that keeps something on disk has been seen to write it, and not yet, alone, to load with it.
        wrote = self.baseline.executor.first_load_ns(BASE) or any(new.first_load_ns for new in raced)
        held = self.clock.left_s * 1e9 > STARTS * (1 + len(raced)) * self.baseline.pilot.start_ns
        more = held and state.ended != "stopped" and (design.controlled or wrote) and raced
        arms = [new.contestant for new in raced if new.contestant]
        base, *others = self.baseline.starts(self.baseline.arm(BASE), *arms) if more else [[]]
        self.starts = [self.baseline.pilot.first, *base]
        for new, found in zip(raced, others, strict=False):
            new.trials += found

    def _retime(self, judgement: controls.Judgement, schedule: Sequential) -> None:
        """Blocks after the calibration are as long as its noise says, and the budget allows for all of them."""
        self.baseline.pilot.retime(judgement, measured(schedule.calibration, BASE))
        left_ns = self._left_ns()
        n_blocks = max(1, schedule.design.n_blocks - controls.CALIBRATION_BLOCKS)
        self.baseline.pilot.shorten(left_ns / (1.1 * (1 + len(schedule.state.arms)) * n_blocks))

    def _with_why(self, envelope: Envelope[CompareResult]) -> Envelope[CompareResult]:
        """Where a proven difference lies: profiles tell it of the time of runs, not of memory, CPU time or a start."""
        result = envelope.result
        # Another side that is wrong takes nothing from what these two show.
        proven = envelope.status != "interrupted" and envelope.verdict in ("faster", "slower")
        if not (self.tells_why and proven and result.base_figures and result.new_figures):
            return envelope
        a, b = result.base_figures, result.new_figures
        latencies = (a.latency_ns, b.latency_ns)
        # The profiles are of typical runs: against a p95 or a throughput they cannot be held.
        plain = compared_ns(b) - compared_ns(a) if self.options.objective == "latency" else None
        new = next(each for each in self.news if each.name == result.name)
        assert new.contestant is not None
        sides, arms = (self.a, new.side), (self.baseline.arm(BASE), new.contestant)
        ordered = sides if envelope.verdict == "faster" else sides[::-1]
        result = msgspec.structs.replace(result, causes=self._causes(*ordered))
        try:
            found = why(
                self.baseline,
                sides,
                arms,
                latencies,
                plain,
                self.watch.line,
                each_s=self._why_s(self.baseline.pilot.trial_ns),
                left_s=lambda: self.clock.left_s - self.delivery_s,
            )
            result = msgspec.structs.replace(result, why=worded(found, result.name))
        except (OrtuneError, OSError) as error:
            # An answer is not lost because its reason is: by a disk that fills up, say.
            said = error.what if isinstance(error, OrtuneError) else str(error)
            result = msgspec.structs.replace(result, notes=(*result.notes, no_reason(said)))
        return msgspec.structs.replace(envelope, result=result)

    def _causes(self, slower: Resolved, faster: Resolved) -> tuple[Finding, ...]:
        """What rules find on the slower side alone."""
        asked = [rule for rule in rules.Selection().rules() if rule.family in rules.ABOUT_MODELS]
        found, healthy = (
            rules.found_by(
                asked,
                rules.Facts(
                    model=open_model(side.runs) if side.plan.rewrites else side.model,
                    plan=side.plan,
                    target=targets.of(side.plan).name,
                    host=self.baseline.host,
                ),
            )
            for side in (slower, faster)
        )
        known = {finding.code for finding in healthy}
        return tuple(finding for finding in found if finding.code not in known)

    def _why_s(self, trial_ns: float) -> float:
        """What a profiled process of each side takes."""
        return PROFILED_TRIALS * trial_ns / 1e9

    def _keep_time(self, trial_ns: float, n_new: int) -> None:
        """Takes from the budget of the blocks what comes after them: starts alone, a look at why, the answer."""
        self.after_s = self.delivery_s + STARTS * (1 + n_new) * self.baseline.pilot.start_ns / 1e9
        self.after_s += self._why_s(trial_ns) if self.tells_why else 0.0
        budget_s = self.options.budget_s - min(self.after_s, AFTER_SHARE * self.options.budget_s)
        self.rules = replace(self.rules, budget_ns=int(budget_s * 1e9))

    def _left_ns(self) -> int:
        return int(self.rules.budget_ns - 1e9 * self.clock.spent_s)

    def _design(self, trial_ns: float, n_new: int) -> duel.Design:
        left_ns = self._left_ns()
        before = self.baseline.pilot.trial_ns
        self.before_ns = int(1e9 * self.clock.spent_s)
        n_arms = 1 + n_new + len(duel.CONTROLS)
        self.baseline.pilot.shorten(left_ns / (controls.CALIBRATION_BLOCKS * n_arms) * before / trial_ns)
        trial_ns *= self.baseline.pilot.trial_ns / before
        design = duel.design(trial_ns, self.rules, 1e9 * self.clock.spent_s, n_new)
        blocks = f"up to {design.n_blocks} blocks"
        if not design.controlled:
            n = "one block" if design.n_blocks == 1 else f"{design.n_blocks} blocks"
            least = duel.least_blocks(self.rules.share(n_new))
            what = "controls not run" if design.n_blocks >= least else f"too few for a claim ({least} needed)"
            blocks = f"{n}, {what},"
        self.watch.say(
            f"one trial {trial_ns / 1e9:.2f} s, {self.baseline.executor.timing.turns.describe()}; "
            f"{blocks} in {self.options.budget_s:.0f} s"
        )
        return design

    def _enough_s(self, state: duel.Duel | None, design: duel.Design | None) -> float | None:
        """A budget that holds the fewest blocks of a claim with their controls; None where none is needed, or helps."""
        if state is None or design is None or not state.block_ns:
            return None
        least = duel.least_blocks(self.rules.share(len(state.arms)))
        if self.rules.max_blocks < least:
            return None
        fewest = min((len(state.ratios(arm)) for arm in state.arms if arm not in state.failed), default=0)
        if design.controlled and fewest >= least:
            return None
        trial_ns = float(np.median(state.block_ns)) / 2
        arms = 1 + len(state.arms) + len(duel.CONTROLS)
        return 1e-9 * (self.before_ns + least * arms * trial_ns) + self.after_s

    def _on_block(self, schedule: Sequential, block: Block) -> None:
        self.experiment.replay.block(block)
        line = progress_line(schedule.state, schedule.design, block)
        self.watch.progress(line, self.clock.spent_s, self.options.budget_s)

    def _frames(self, blocks: Sequence[Block]) -> list[str]:
        """What the main thread's figure is to who looks at the page."""
        if self.options.objective != "main-thread":
            return []
        arms = {"A": BASE, **{new.name: new.arm for new in self.news}}
        return frames_lost({name: [t.done for t in measured(blocks, arm)] for name, arm in arms.items()})

    def _envelope(self, state: duel.Duel | None, design: duel.Design | None) -> Envelope[CompareResult]:
        blocks = state.blocks if state else []
        estimand = state.estimand if state else "median"
        raced = Raced(
            work=self.baseline.work,
            objective=self.options.objective,
            rules=self.rules,
            counts_as=self.options.counts_as,
            state=state,
            design=design,
        )
        ranked = rank(raced, self.news)
        first, base = ranked[0], measured(blocks, BASE)
        assert first.outputs is not None
        result = CompareResult(
            base=self.a.seen(base),
            new=first.side,
            comparison=first.comparison,
            outputs=first.outputs,
            base_figures=describe(base, estimand, self.starts, self.baseline.executor.first_load_ns(BASE))
            if base
            else None,
            new_figures=first.figures,
            cases=first.cases,
            controls=tuple(state.controls) if state else (),
            findings=tuple(self.baseline.findings),
            read_back=first.read_back,
            mapped_inputs=first.mapped_inputs,
            notes=(
                *self.baseline.work.notes,
                *self.baseline.notes,
                *self._frames(blocks),
                *awake(blocks),
                *self.experiment.played_notes,
            ),
            failures=(*failures(blocks, BASE), *first.failures),
            gate=first.gate,
            name=first.name,
            wrong_sides=tuple(
                wrong_sides(
                    self.news,
                    base_wrong=self.baseline.check.wrong or not self.baseline.check.claims,
                    allow_nonfinite=self.options.feeds.allow_nonfinite,
                )
            ),
            candidates=tuple(ranked) if len(ranked) > 1 else (),
            session=self.log.id,
            elapsed_s=self.experiment.elapsed_s,
            enough_s=self._enough_s(state, design),
        )
        interrupted = state is not None and state.ended == "stopped"
        return self.experiment.document(
            result,
            status="interrupted" if interrupted else "ok",
            verdict="wrong-output"
            if {"A", result.name} & {*result.wrong_sides}
            else first.comparison.verdict
            if first.comparison
            else _untimed(first.outputs),
        )


def _untimed(outputs: OutputDifference) -> VerdictName:
    return "functional-only" if outputs.comparable else "wrong-output"


def progress_line(state: duel.Duel, design: duel.Design, block: Block) -> str:
    """Where the comparison stands, for a progress line."""
    n = len(state.blocks)
    if block.phase == "calibration":
        what = "calibrating (A/A check and positive control)" if design.controlled else "controls not run"
        return f"block {n}: {what}"
    parts = []
    for arm in state.arms if len(state.arms) == 1 else state.live:
        interval = evidence.confidence_sequence(state.ratios(arm), prior_scale=state.prior_scale)
        parts.append(
            f"{LETTERS[arm]} against A {change(interval.ratio)} "
            f"({span(interval.ratio_low, interval.ratio_high)})"
        )
    return f"block {n}: {', '.join(parts)}"


def exit_code(envelope: Envelope[CompareResult]) -> int:
    """0 done; 1 a gate failed, or outputs cannot be compared; 3 a gate whose budget can decide nothing."""
    result = envelope.result
    sides = [(c.outputs, c.gate) for c in result.candidates] or [(result.outputs, result.gate)]
    if any(outputs is not None and not outputs.comparable for outputs, _ in sides):
        return 1
    if result.wrong_sides:
        return 1
    answers = [g.undecided_counts_as if g.answer == "undecided" else g.answer for _, g in sides if g]
    if "fail" in answers:
        return 1
    return MeasurementError.exit_code if "no-answer" in answers else 0
