"""``ortune compare``: is B faster than A, here?"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ortune import __version__
from ortune.errors import MeasurementError, OrtuneError, UsageError
from ortune.fleet import runtimes
from ortune.profiling.why import why
from ortune.records import (
    Block,
    CompareResult,
    Comparison,
    Envelope,
    Failed,
    Gate,
    Measured,
    OutputDifference,
)
from ortune.report.compare_words import compared_ns, outputs, setting
from ortune.report.difference_words import worded
from ortune.search import controls, duel
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE, awake, failures, measured
from ortune.search.figures import OBJECTIVES, TIMES, describe, require_objective
from ortune.search.guards import case_results, guards
from ortune.stats import evidence
from ortune.trials import pairing
from ortune.trials.baseline import PILOT_RUNS, Baseline
from ortune.trials.executor import Arm
from ortune.trials.scratch import scratch_folder
from ortune.trials.sides import Resolved, SideText, require_unchanged
from ortune.trials.watcher import Watcher
from ortune.verbs._options import (
    GATE,
    MODEL,
    RUN,
    AnyPath,
    Argument,
    Kept,
    Load,
    Objective,
    OnePlan,
    Option,
    Rewrites,
    Tolerance,
    named,
    pairs,
    share,
)
from ortune.verbs._session import Session, resolver, session

FORMATS = ("text", "json", "github", "markdown")
STOPPING = "stopping after this trial, then telling what is known; Ctrl-C again stops at once"


@dataclass(frozen=True, kw_only=True)
class Options(Kept, Load, OnePlan):
    """Is B faster than A on this machine?

    Runs both sides in fresh processes, in random order, block by block, until the evidence answers or the time is
    up (2 minutes). Says "no difference" when that is so, and what it could have seen.
    """

    a: Annotated[
        AnyPath, Argument("A", "The base: model.onnx, model.ort, NAME.ortune or model.onnx@git-revision.")
    ]
    b: Annotated[AnyPath | None, Argument("[B]", "The new side; also a plan.json. Omitted: A's model.")] = (
        None
    )
    a_set: Annotated[Sequence[str], Option("--a-set", "KNOB=VALUE", "A setting of A alone.", MODEL)] = ()
    b_set: Annotated[Sequence[str], Option("--b-set", "KNOB=VALUE", "A setting of B alone.", MODEL)] = ()
    rewrite: Rewrites = ()
    b_rewrite: Annotated[
        Sequence[str], Option("--b-rewrite", "NAME[:k=v]", "A rewrite of B alone.", MODEL)
    ] = ()
    a_runtime: Annotated[
        AnyPath | None,
        Option("--a-runtime", "PATH|NAME", "The onnxruntime of A alone.", MODEL, also="--a-python"),
    ] = None
    b_runtime: Annotated[
        AnyPath | None,
        Option("--b-runtime", "PATH|NAME", "The onnxruntime of B alone.", MODEL, also="--b-python"),
    ] = None
    map: Annotated[
        Sequence[str], Option("--map", "a=b", "Input a of A is input b of B. Repeatable.", MODEL)
    ] = ()
    objective: Objective = "latency"
    tolerance: Tolerance = None
    max_blocks: Annotated[
        int | None,
        Option("--max-blocks", "N", "Blocks at most (100, more with a longer --budget).", RUN, least=6),
    ] = None
    inject_wait: Annotated[
        str | float | None, Option("--inject-wait", "5%", "For testing: a busy wait in each run of B.", RUN)
    ] = None
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

    @cached_property
    def mapped(self) -> dict[str, str]:
        """Inputs of A by those of B that take them."""
        return pairs(self.map, "--map")


def run(options: Options, watcher: Watcher | None = None) -> Envelope[CompareResult]:
    """Compares two sides and returns the whole document.

    Raises:
        OrtuneError: Nothing could be compared; the exit code is the error's.
    """
    watch = watcher or Watcher()
    require_objective(options.objective)
    with scratch_folder() as scratch:
        a, b = _sides(options, scratch, watch)
        watch.say(_measuring_with(a, b))
        with session("compare", options, watch) as kept:
            with kept.measuring(a.label):
                key = f"{a.model.info.sha256} {b.model.info.sha256} {a.plan.id} {b.plan.id}"
                kept.begin(key, a=a.label, b=b.label)
                envelope = _Run(options, watch, a, b, scratch, kept).go()
            return kept.keep(envelope)


def _sides(options: Options, scratch: Path, watch: Watcher) -> tuple[Resolved, Resolved]:
    runtime = named(options.runtime)
    a, b = (None if side is None else str(side) for side in (options.a, options.b))
    assert a is not None
    bundle = b is None and a.rstrip("/").endswith(".ortune")
    # A bundle alone is proven again, against its own untouched model; what alters B makes B the bundle as altered.
    alone = bundle and not (options.b_set or options.b_runtime or options.a_runtime or options.b_rewrite)
    first = SideText(
        text=a,
        settings=options.a_set,
        rewrites=options.rewrite,
        runtime=named(options.a_runtime) or runtime,
    )
    resolved = resolver(options, scratch, watch)
    base = resolved(first, plain=alone)
    second = SideText(
        text=a if bundle else b,
        settings=options.b_set,
        rewrites=[*options.rewrite, *options.b_rewrite],
        runtime=named(options.b_runtime) or runtime,
    )
    return base, resolved(second, base_model=base.model)


def _measuring_with(a: Resolved, b: Resolved) -> str:
    if a.runtime == b.runtime:
        return f"measuring with {runtimes.describe(a.runtime)}"
    return f"measuring A with {runtimes.describe(a.runtime)}, B with {runtimes.describe(b.runtime)}"


class _Run:
    """One comparison while it runs."""

    def __init__(
        self, options: Options, watch: Watcher, a: Resolved, b: Resolved, scratch: Path, kept: Session
    ) -> None:
        self.options, self.watch, self.a, self.b, self.scratch, self.log = (
            options,
            watch,
            a,
            b,
            scratch,
            kept.log,
        )
        self.start = time.monotonic_ns()
        self.starts: list[list[Measured]] = [[], []]  # of A and B alone
        self.pairs = pairing.pair_inputs(a.model.ir, b.model.ir, options.mapped)
        self.baseline = Baseline(a, options.feeds, scratch, kept.log, watch.say, kept.machine)
        self.rules = duel.Rules(
            budget_ns=int(options.budget_s * 1e9),
            max_blocks=options.most_blocks,
            threshold_ratio=options.threshold_ratio,
            estimand=OBJECTIVES[options.objective],
            wait_ratio=controls.SPIKE_RATIO,
        )

    def go(self) -> Envelope[CompareResult]:
        baseline, executor = self.baseline, self.baseline.executor
        baseline.settle(self.options.budget_s)
        refs = pairing.feeds_for(baseline.refs, self.b.model.ir, self.pairs, self.scratch / "feeds")
        renamed = {b: a for b, a in self.pairs.items() if a != b}
        if renamed:
            self.watch.say("inputs paired: " + ", ".join(f"{a} -> {b}" for b, a in renamed.items()))
        baseline.pilot(self.options.objective)
        new = baseline.arm(NEW, side=self.b, refs=refs, wait=self.options.wait_ratio)
        trial = baseline.require_measured(new, executor.trial(new, runs=PILOT_RUNS, keep_outputs=True))
        renames = pairing.pair_outputs(self.a.model.ir, self.b.model.ir)
        for case in baseline.work.cases:
            pairing.rename_outputs(Path(trial.outputs_path) / case.name, renames)
        baseline.live_with(trial)
        difference = baseline.difference(trial)
        if not difference.ok:
            return self._envelope(None, difference, None)
        told = [*(setting(r, self.b.plan) for r in trial.done.read_back), outputs(difference)]
        self.watch.say(f"B ran: {'; '.join(told)}")
        baseline.expect(max(baseline.trial_ns, trial.elapsed_ns))
        alone_ns = (baseline.first.elapsed_ns + trial.elapsed_ns) / 2
        trial_ns = baseline.trial_ns * max(1.0, alone_ns / baseline.first.elapsed_ns)
        design = self._design(trial_ns)
        executor.arms = {
            BASE: baseline.arm(BASE),
            NEW: new,
            IDENTICAL: baseline.arm(IDENTICAL),
            SPIKE: baseline.arm(SPIKE, wait=self.rules.wait_ratio),
        }
        state = duel.run(
            executor,
            self.rules,
            design,
            rng=random.Random(f"{self.options.seed}-{self.start}"),
            clock=time.monotonic_ns,
            stop=self.watch.stop,
            on_block=lambda d, block: self._on_block(d, design, block),
            calibrated=lambda judgement, blocks: self._retime(judgement, blocks, design),
            started_ns=self.start,
        )
        starts = (
            baseline.starts(baseline.arm(BASE), new) if state.ended not in ("stopped", "failed") else [[], []]
        )
        self.starts = [[baseline.first, *starts[0]], [trial, *starts[1]]]
        require_unchanged(self.a, self.b)
        return self._with_why(self._envelope(state, difference, design), new)

    def _retime(self, judgement: controls.Judgement, blocks: Sequence[Block], design: duel.Design) -> None:
        """Blocks after the calibration are as long as its noise says, and the budget allows for all of them."""
        self.baseline.retime(judgement, measured(blocks, BASE))
        left_ns = self.rules.budget_ns - (time.monotonic_ns() - self.start)
        self.baseline.shorten(left_ns / (2.2 * max(1, design.n_blocks - controls.CALIBRATION_BLOCKS)))

    def _with_why(self, envelope: Envelope[CompareResult], new: Arm) -> Envelope[CompareResult]:
        """Where a proven difference lies: profiles tell it of the time of runs, not of memory, CPU time or a start."""
        result = envelope.result
        proven = envelope.status == "ok" and envelope.verdict in ("faster", "slower")
        told = not self.options.no_why and self.options.objective in TIMES
        if not (told and proven and result.base_figures and result.new_figures):
            return envelope
        a, b = result.base_figures, result.new_figures
        latencies = (a.latency_ns, b.latency_ns)
        # The profiles are of typical runs: against a p95 or a throughput they cannot be held.
        plain = compared_ns(b) - compared_ns(a) if self.options.objective == "latency" else None
        sides, arms = (self.a, self.b), (self.baseline.arm(BASE), new)
        try:
            found = worded(why(self.baseline, sides, arms, latencies, plain, self.watch.line))
            result = msgspec.structs.replace(result, why=found)
        except OrtuneError as error:
            # An answer is not lost because its reason is.
            note = f"where the difference lies is not known: {error.what}"
            result = msgspec.structs.replace(result, notes=(*result.notes, note))
        return msgspec.structs.replace(envelope, result=result)

    def _design(self, trial_ns: float) -> duel.Design:
        left_ns = self.rules.budget_ns - (time.monotonic_ns() - self.start)
        before = self.baseline.trial_ns
        self.baseline.shorten(left_ns / (controls.CALIBRATION_BLOCKS * 4) * before / trial_ns)
        trial_ns *= self.baseline.trial_ns / before
        design = duel.design(trial_ns, self.rules, spent_ns=time.monotonic_ns() - self.start)
        if design is None:
            need = int(duel.DEAR_BLOCKS * 4 * trial_ns / 1e9) + 30
            raise UsageError(
                f"one trial takes {trial_ns / 1e9:.1f} s: the {self.options.budget_s:.0f} s budget holds not even "
                f"{duel.DEAR_BLOCKS} blocks",
                do=f"--budget {need}s",
                code="budget",
            )
        self.watch.say(
            f"one trial {trial_ns / 1e9:.2f} s, {self.baseline.executor.timing.turns.describe()}; "
            f"up to {design.n_blocks} blocks in {self.options.budget_s:.0f} s"
        )
        return design

    def _on_block(self, state: duel.Duel, design: duel.Design, block: Block) -> None:
        self.log.add(
            "block", {"index": block.index, "phase": block.phase, "order": [t.arm for t in block.trials]}
        )
        self.watch.block(state, design, block)
        self.watch.line(progress_line(state, design, block))

    def _envelope(
        self, state: duel.Duel | None, difference: OutputDifference, design: duel.Design | None
    ) -> Envelope[CompareResult]:
        comparison: Comparison | None = None
        gate: Gate | None = None
        failed: tuple[Failed, ...] = ()
        if state is not None and design is not None:
            failed = tuple(failures(state.blocks, BASE) + failures(state.blocks, NEW))
            if state.failed:
                raise MeasurementError(
                    f"B failed again and again: {state.failed.what}",
                    where=self.b.label,
                    code=state.failed.reason,
                )
            comparison = msgspec.structs.replace(
                duel.conclude(state, self.rules, design), guards=guards(state.blocks, self.options.objective)
            )
            if self.rules.threshold_ratio is not None:
                gate = duel.gate(state, self.rules, design, self.options.counts_as)
        elif self.rules.threshold_ratio is not None:
            gate = Gate(
                threshold_ratio=self.rules.threshold_ratio,
                answer="fail",
                undecided_counts_as=self.options.counts_as,
            )
        blocks = state.blocks if state else []
        estimand = state.estimand if state else "median"
        base, new = measured(blocks, BASE), measured(blocks, NEW)
        result = CompareResult(
            base=self.a.seen(base),
            new=self.b.seen(new),
            comparison=comparison,
            outputs=difference,
            base_figures=describe(base, estimand, self.starts[0]) if base else None,
            new_figures=describe(new, estimand, self.starts[1]) if new else None,
            cases=case_results(blocks, self.baseline.work, estimand, state.prior_scale) if state else (),
            controls=tuple(state.controls) if state else (),
            findings=tuple(self.baseline.findings),
            read_back=new[-1].done.read_back if new else (),
            mapped_inputs={a: b for b, a in self.pairs.items()},
            notes=(*self.baseline.work.notes, *self.baseline.notes, *awake(blocks)),
            failures=failed,
            gate=gate,
            session=self.log.id,
            elapsed_s=(time.monotonic_ns() - self.start) / 1e9,
        )
        interrupted = state is not None and state.ended == "stopped"
        return Envelope(
            schema="ortune/compare/1",
            ortune=__version__,
            host=self.baseline.host,
            model=self.a.model.ref,
            workload=self.baseline.work,
            status="interrupted" if interrupted else "ok",
            verdict=comparison.verdict if comparison else "wrong-output",
            result=result,
        )


def progress_line(state: duel.Duel, design: duel.Design, block: Block) -> str:
    """Where the comparison stands, for a progress line."""
    n = len(state.blocks)
    if block.phase == "calibration":
        return f"block {n}: calibrating (an identical plan and a known wait)"
    interval = evidence.confidence_sequence(state.ratios(NEW), prior_scale=state.prior_scale)
    return (
        f"block {n} of at most {design.n_blocks}: B takes {100 * (interval.ratio - 1):+.1f} % of A's time "
        f"({100 * (interval.ratio_low - 1):+.1f} to {100 * (interval.ratio_high - 1):+.1f})"
    )


def exit_code(envelope: Envelope[CompareResult]) -> int:
    """0 done; 1 the gate failed."""
    gate = envelope.result.gate
    if gate is None:
        return 0
    answer = gate.undecided_counts_as if gate.answer == "undecided" else gate.answer
    return 1 if answer == "fail" else 0
