"""``ortune compare``: is B faster than A, here?"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ortune import __version__, knobs, platform
from ortune.errors import MeasurementError, StoreError, UsageError
from ortune.fleet import runtimes
from ortune.fleet.environment import clean_environment, recorded
from ortune.profiling.why import attempt, why
from ortune.records import (
    Block,
    CompareResult,
    Comparison,
    Envelope,
    Failed,
    Gate,
    Measured,
    ModelRef,
    OutputDifference,
    Plan,
    Side,
)
from ortune.report.compare_words import compared_ns, outputs, setting
from ortune.search import controls, duel
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE, failures, measured, restless
from ortune.search.figures import OBJECTIVES, TIMES, describe
from ortune.search.guards import case_results, guards
from ortune.search.plan_edits import merge
from ortune.store.db import SessionLog, Store
from ortune.store.lock import measuring
from ortune.trials import pairing
from ortune.trials.baseline import PILOT_RUNS, Ground
from ortune.trials.executor import Arm
from ortune.trials.scratch import scratch_folder
from ortune.trials.sides import Resolved, SideText, read_plan, require_unchanged, resolve, target_providers
from ortune.trials.watcher import Watcher
from ortune.verbs.compare_options import Options
from ortune.verbs.tune_result import awake


def compare(options: Options, watcher: Watcher | None = None) -> Envelope:
    """Compares two sides and returns the whole document; ``result`` is a CompareResult.

    Raises:
        OrtuneError: Nothing could be compared; the exit code is the error's.
    """
    watch = watcher or Watcher()
    if options.objective not in OBJECTIVES:
        raise UsageError(
            f"no objective is called {options.objective!r}", do=f"one of {', '.join(OBJECTIVES)}"
        )
    with scratch_folder() as scratch:
        a, b = _sides(options, scratch)
        watch.say(_measuring_with(a, b))
        store, trouble = open_store(options.store)
        if trouble:
            watch.say(trouble)
        try:
            key = f"compare {a.model.info.sha256} {b.model.info.sha256} {a.plan.id} {b.plan.id}"
            log = (
                store.begin("compare", key, session_header(a=a.label, b=b.label))
                if store
                else SessionLog(None, "")
            )
            with measuring(f"compare {a.label}", wait=options.wait, say=watch.say):
                run = _Run(options, watch, a, b, scratch, log)
                try:
                    envelope = run.go()
                finally:
                    run.ground.close()
            log.add("result", envelope)
            if log.trouble:
                watch.say(log.trouble)
        finally:
            if store:
                store.close()
    return envelope


def _sides(options: Options, scratch: Path) -> tuple[Resolved, Resolved]:
    common = Plan(
        settings=knobs.parse_settings(list(options.settings)), providers=target_providers(options.target)
    )
    if options.plan:
        common = merge(read_plan(options.plan), common)
    bundle = options.b is None and options.a.rstrip("/").endswith(".ortune")
    # A bundle alone is proven again, against its own untouched model; what alters B makes B the bundle as altered.
    alone = bundle and not (options.b_set or options.b_python or options.a_python or options.b_rewrites)
    first = SideText(
        text=options.a,
        settings=options.a_set,
        rewrites=options.rewrites,
        python=options.a_python or options.python,
    )
    a = resolve(first, common=common, base_model=None, scratch=scratch, plain=alone)
    second = SideText(
        text=options.a if bundle else options.b,
        settings=options.b_set,
        rewrites=[*options.rewrites, *options.b_rewrites],
        python=options.b_python or options.python,
    )
    b = resolve(second, common=common, base_model=a.model, scratch=scratch)
    return a, b


def _measuring_with(a: Resolved, b: Resolved) -> str:
    if a.runtime == b.runtime:
        return f"measuring with {runtimes.describe(a.runtime)}"
    return f"measuring A with {runtimes.describe(a.runtime)}, B with {runtimes.describe(b.runtime)}"


def session_header(**names: str) -> dict[str, object]:
    """What a stored session says of itself: what it is about, the machine, and the workers' environment."""
    return {**names, "host": platform.host(), "environment": recorded(clean_environment())}


def open_store(folder: Path | None) -> tuple[Store | None, str]:
    """The store; where the user's own place cannot be written, none, with a sentence."""
    try:
        return Store(folder), ""
    except StoreError as error:
        if folder is not None:
            raise
        return None, f"nothing will be kept: {error.where} {error.what}"


class _Run:
    """One comparison while it runs."""

    def __init__(
        self, options: Options, watch: Watcher, a: Resolved, b: Resolved, scratch: Path, log: SessionLog
    ) -> None:
        self.o, self.watch, self.a, self.b, self.scratch, self.log = options, watch, a, b, scratch, log
        self.start = time.monotonic_ns()
        self.starts: list[list[Measured]] = [[], []]  # of A and B alone
        self.pairs = pairing.pair_inputs(a.model.ir, b.model.ir, options.map_inputs)
        self.ground = Ground(a, options.inputs, scratch, log, watch.say)
        self.rules = duel.Rules(
            budget_ns=int(options.budget_s * 1e9),
            max_blocks=options.most_blocks,
            threshold_ratio=options.threshold,
            estimand=OBJECTIVES[options.objective],
            wait_ratio=controls.SPIKE_RATIO,
        )

    def go(self) -> Envelope:
        ground, executor = self.ground, self.ground.executor
        ground.settle(self.o.budget_s)
        refs = pairing.feeds_for(ground.refs, self.b.model.ir, self.pairs, self.scratch / "feeds")
        renamed = {b: a for b, a in self.pairs.items() if a != b}
        if renamed:
            self.watch.say("inputs paired: " + ", ".join(f"{a} -> {b}" for b, a in renamed.items()))
        ground.pilot(self.o.objective)
        new = ground.arm(NEW, side=self.b, refs=refs, wait=self.o.inject_wait)
        trial = ground.must(new, executor.trial(new, runs=PILOT_RUNS, keep_outputs=True))
        renames = pairing.pair_outputs(self.a.model.ir, self.b.model.ir)
        for case in ground.work.cases:
            pairing.rename_outputs(Path(trial.outputs_path) / case.name, renames)
        ground.live_with(trial)
        difference = ground.difference(trial)
        if not difference.ok:
            return self._envelope(None, difference, None)
        told = [*(setting(r, self.b.plan) for r in trial.done.read_back), outputs(difference)]
        self.watch.say(f"B ran: {'; '.join(told)}")
        ground.expect(max(ground.trial_ns, trial.elapsed_ns))
        alone_ns = (ground.first.elapsed_ns + trial.elapsed_ns) / 2
        trial_ns = ground.trial_ns * max(1.0, alone_ns / ground.first.elapsed_ns)
        design = self._design(trial_ns)
        executor.arms = {
            BASE: ground.arm(BASE),
            NEW: new,
            IDENTICAL: ground.arm(IDENTICAL),
            SPIKE: ground.arm(SPIKE, wait=self.rules.wait_ratio),
        }
        state = duel.run(
            executor,
            self.rules,
            design,
            rng=random.Random(f"{self.o.seed}-{self.start}"),
            clock=time.monotonic_ns,
            stop=self.watch.stop,
            on_block=lambda d, block: self._on_block(d, design, block),
            calibrated=lambda judgement, blocks: self._retime(judgement, blocks, design),
            started_ns=self.start,
        )
        starts = (
            ground.starts(ground.arm(BASE), new) if state.ended not in ("stopped", "failed") else [[], []]
        )
        self.starts = [[ground.first, *starts[0]], [trial, *starts[1]]]
        require_unchanged(self.a, self.b)
        return self._with_why(self._envelope(state, difference, design), new)

    def _retime(self, judgement: controls.Judgement, blocks: Sequence[Block], design: duel.Design) -> None:
        """Blocks after the calibration are as long as its noise says, and the budget allows for all of them."""
        self.ground.retime(judgement, measured(blocks, BASE))
        left_ns = self.rules.budget_ns - (time.monotonic_ns() - self.start)
        self.ground.shorten(left_ns / (2.2 * max(1, design.n_blocks - controls.CALIBRATION_BLOCKS)))

    def _with_why(self, envelope: Envelope, new: Arm) -> Envelope:
        """Where a proven difference lies: profiles tell it of the time of runs, not of memory, CPU time or a start."""
        result = envelope.result
        assert isinstance(result, CompareResult)
        proven = envelope.status == "ok" and envelope.verdict in ("faster", "slower")
        told = self.o.why and self.o.objective in TIMES
        if not (told and proven and result.base_figures and result.new_figures):
            return envelope
        a, b = result.base_figures, result.new_figures
        latencies = (a.latency_ns, b.latency_ns)
        # The profiles are of typical runs: against a p95 or a throughput they cannot be held.
        plain = compared_ns(b) - compared_ns(a) if self.o.objective == "latency" else None
        sides, arms = (self.a, self.b), (self.ground.arm(BASE), new)
        found, trouble = attempt(lambda: why(self.ground, sides, arms, latencies, plain, self.watch.line))
        notes = (*result.notes, trouble) if trouble else result.notes
        return msgspec.structs.replace(
            envelope, result=msgspec.structs.replace(result, why=found, notes=notes)
        )

    def _design(self, trial_ns: float) -> duel.Design:
        left_ns = self.rules.budget_ns - (time.monotonic_ns() - self.start)
        before = self.ground.trial_ns
        self.ground.shorten(left_ns / (controls.CALIBRATION_BLOCKS * 4) * before / trial_ns)
        trial_ns *= self.ground.trial_ns / before
        design = duel.design(trial_ns, self.rules, spent_ns=time.monotonic_ns() - self.start)
        if design is None:
            need = int(duel.DEAR_BLOCKS * 4 * trial_ns / 1e9) + 30
            raise UsageError(
                f"one trial takes {trial_ns / 1e9:.1f} s: the {self.o.budget_s:.0f} s budget holds not even "
                f"{duel.DEAR_BLOCKS} blocks",
                do=f"--budget {need}s",
                code="budget",
            )
        self.watch.say(
            f"one trial {trial_ns / 1e9:.2f} s, {self.ground.executor.timing.turns.describe()}; "
            f"up to {design.n_blocks} blocks in {self.o.budget_s:.0f} s"
        )
        return design

    def _on_block(self, state: duel.Duel, design: duel.Design, block: Block) -> None:
        self.log.add(
            "block", {"index": block.index, "phase": block.phase, "order": [t.arm for t in block.trials]}
        )
        self.watch.block(state, design, block)

    def _envelope(
        self, state: duel.Duel | None, difference: OutputDifference, design: duel.Design | None
    ) -> Envelope:
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
                duel.conclude(state, self.rules, design), guards=guards(state.blocks, self.o.objective)
            )
            if self.rules.threshold_ratio is not None:
                gate = duel.gate(state, self.rules, design, self.o.undecided)
        elif self.rules.threshold_ratio is not None:
            gate = Gate(
                threshold_ratio=self.rules.threshold_ratio,
                answer="fail",
                undecided_counts_as=self.o.undecided,
            )
        blocks = state.blocks if state else []
        estimand = state.estimand if state else "median"
        base, new = measured(blocks, BASE), measured(blocks, NEW)
        result = CompareResult(
            base=_side(self.a),
            new=_side(self.b),
            comparison=comparison,
            outputs=difference,
            base_figures=describe(base, estimand, self.starts[0]) if base else None,
            new_figures=describe(new, estimand, self.starts[1]) if new else None,
            cases=case_results(blocks, self.ground.work, estimand, state.prior_scale) if state else (),
            controls=tuple(state.controls) if state else (),
            findings=tuple(self.ground.findings),
            read_back=new[-1].done.read_back if new else (),
            mapped_inputs={a: b for b, a in self.pairs.items()},
            notes=(*self.ground.work.notes, *self.ground.notes, *awake(restless(blocks))),
            failures=failed,
            gate=gate,
            session=self.log.id,
            elapsed_s=(time.monotonic_ns() - self.start) / 1e9,
        )
        interrupted = state is not None and state.ended == "stopped"
        return Envelope(
            schema="ortune/compare/1",
            ortune=__version__,
            host=self.ground.host,
            model=ModelRef(path=self.a.model.info.path, sha256=self.a.model.info.sha256),
            workload=self.ground.work,
            status="interrupted" if interrupted else "ok",
            verdict=comparison.verdict if comparison else "wrong-output",
            result=result,
        )


def _side(side: Resolved) -> Side:
    return Side(label=side.label, model=side.model.info, plan=side.plan, runtime=side.runtime)
