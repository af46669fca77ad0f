"""``ortune compare``: is B faster than A, here?"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ortune import __version__, knobs, platform
from ortune.errors import MeasurementError, StoreError, UsageError
from ortune.fleet import runtimes
from ortune.flows.compare_options import Options, Watcher
from ortune.flows.sides import Resolved, SideText, merge, read_plan, resolve, target_providers
from ortune.model import outputs, workload
from ortune.records import (
    Block,
    CompareResult,
    Comparison,
    Envelope,
    Failed,
    FeedRef,
    Finding,
    Gate,
    Measured,
    ModelRef,
    Outcome,
    OutputDifference,
    Plan,
    Side,
    Workload,
)
from ortune.search import duel
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE, failures, measured
from ortune.search.figures import OBJECTIVES, describe
from ortune.search.guards import case_results, guards
from ortune.store.db import SessionLog, Store
from ortune.store.lock import measuring
from ortune.trials import pairing, pilot
from ortune.trials.executor import Arm, Executor, Timing
from ortune.trials.launch import Limits
from ortune.trials.outputs import compare_outputs

SPIKE_RATIO = 0.05


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
    with tempfile.TemporaryDirectory(prefix="ortune-", ignore_cleanup_errors=True) as scratch:
        a, b = _sides(options, Path(scratch))
        watch.say(_measuring_with(a, b))
        store, trouble = _open_store(options.store)
        if trouble:
            watch.say(trouble)
        try:
            key = f"compare {a.model.info.sha256} {b.model.info.sha256} {a.plan.id} {b.plan.id}"
            log = (
                store.begin("compare", key, {"a": a.label, "b": b.label, "host": platform.host()})
                if store
                else SessionLog(None, "")
            )
            with measuring(f"compare {a.label}", wait=options.wait, say=watch.say):
                run = _Run(options, watch, a, b, Path(scratch), log)
                envelope = run.go()
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
    lone_bundle = options.b is None and options.a.rstrip("/").endswith(".ortune") and not options.b_set
    first = SideText(text=options.a, settings=options.a_set, python=options.a_python or options.python)
    a = resolve(first, common=common, base_model=None, scratch=scratch, plain=lone_bundle)
    second = SideText(
        text=options.a if lone_bundle else options.b,
        settings=options.b_set,
        python=options.b_python or options.python,
    )
    b = resolve(second, common=common, base_model=a.model, scratch=scratch)
    return a, b


def _measuring_with(a: Resolved, b: Resolved) -> str:
    if a.runtime == b.runtime:
        return f"measuring with {runtimes.describe(a.runtime)}"
    return f"measuring A with {runtimes.describe(a.runtime)}, B with {runtimes.describe(b.runtime)}"


def _open_store(folder: Path | None) -> tuple[Store | None, str]:
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
        self.notes: list[str] = []
        self.findings: list[Finding] = []
        self.pairs = pairing.pair_inputs(a.model.ir, b.model.ir, options.map_inputs)
        self.rules = duel.Rules(
            budget_ns=int(options.budget_s * 1e9),
            max_blocks=options.max_blocks,
            threshold_ratio=options.threshold,
            estimand=OBJECTIVES[options.objective],
            wait_ratio=SPIKE_RATIO,
        )

    def go(self) -> Envelope:
        self.work = self._workload()
        self.executor = Executor({}, self.work, self.scratch, self.log)
        self.executor.limits = Limits(load_s=max(60.0, self.o.budget_s), run_s=max(60.0, self.o.budget_s))
        self.work = pilot.settle_workload(
            self.executor,
            lambda refs: self._arm(BASE, self.a, refs),
            self.a.model.ir,
            self.work,
            self.scratch,
            self.watch.say,
        )
        self.watch.say(workload.describe(self.work))
        if self.o.save_workload:
            workload.save(self.o.save_workload, self.work)
        refs = pilot.write_case_feeds(self.a.model.ir, self.work, self.scratch / "feeds")
        b_refs = pairing.feeds_for(refs, self.b.model.ir, self.pairs, self.scratch / "feeds")
        renamed = {b: a for b, a in self.pairs.items() if a != b}
        if renamed:
            self.watch.say("inputs paired: " + ", ".join(f"{a} -> {b}" for b, a in renamed.items()))
        base, new = self._arm(BASE, self.a, refs), self._arm(NEW, self.b, b_refs, self.o.inject_wait)
        trial_ns, difference = self._pilot(base, new)
        if not difference.ok:
            return self._envelope(None, difference, None)
        design = duel.design(trial_ns, self.rules)
        if design is None:
            need = int(duel.DEAR_BLOCKS * 4 * trial_ns / 1e9) + 30
            raise UsageError(
                f"one trial takes {trial_ns / 1e9:.1f} s: the {self.o.budget_s:.0f} s budget holds not even "
                f"{duel.DEAR_BLOCKS} blocks",
                do=f"--budget {need}s",
                code="budget",
            )
        self.watch.say(
            f"one trial {trial_ns / 1e9:.2f} s of {self.executor.timing.runs} runs; "
            f"up to {design.n_blocks} blocks in {self.o.budget_s:.0f} s"
        )
        self.executor.arms = {
            BASE: base,
            NEW: new,
            IDENTICAL: self._arm(IDENTICAL, self.a, refs),
            SPIKE: self._arm(SPIKE, self.a, refs, self.rules.wait_ratio),
        }
        state = duel.run(
            self.executor,
            self.rules,
            design,
            rng=random.Random(f"{self.o.seed}-{self.start}"),
            clock=time.monotonic_ns,
            stop=self.watch.stop,
            on_block=lambda d, block: self._on_block(d, design, block),
            started_ns=self.start,
        )
        return self._envelope(state, difference, design)

    def _workload(self) -> Workload:
        o = self.o
        if o.workload:
            return workload.load(o.workload)
        return workload.propose(
            self.a.model.ir,
            shapes=o.shapes,
            dims=o.dims,
            inputs_path=o.inputs,
            seed=o.seed,
            gap_ns=o.gap_ns,
            custom_ops=tuple(o.custom_ops),
        )

    def _arm(self, name: str, side: Resolved, refs: tuple[FeedRef, ...], wait: float = 0.0) -> Arm:
        return Arm(
            name=name,
            plan=side.plan,
            model=side.model.path,
            runtime=side.runtime,
            feeds=refs,
            wait_ratio=wait,
        )

    def _pilot(self, base: Arm, new: Arm) -> tuple[float, OutputDifference]:
        """Cost of a trial in nanoseconds, and how far apart the outputs are. Sets the timing of all trials."""
        p95 = 130 if self.o.objective == "p95" else 0
        self.executor.timing = Timing(runs=5, warmup_runs=1, warmup_ns=0, warmup_cap_ns=2_000_000_000)
        first = self._must(base, self.executor.trial(base, keep_outputs=True))
        self.executor.timing = pilot.timing_for(first, at_least_runs=p95)
        second = self._must(base, self.executor.trial(base, keep_outputs=True))
        self.executor.timing = pilot.timing_for(second, at_least_runs=p95)
        third = self._must(new, self.executor.trial(new, keep_outputs=True))
        finding = pilot.value_dependence(self.executor, base, self.a.model.ir, self.work, self.scratch)
        if finding:
            self.findings.append(finding)
            self.watch.say(f"{finding.code} {finding.what}; {finding.fix}")
        elapsed = max(second.elapsed_ns, third.elapsed_ns)
        self.executor.limits = Limits(load_s=max(20.0, 30e-9 * elapsed), run_s=max(20.0, 30e-9 * elapsed))
        return (second.elapsed_ns + third.elapsed_ns) / 2, self._outputs(first, second, third)

    def _must(self, arm: Arm, outcome: Outcome) -> Measured:
        if isinstance(outcome, Measured):
            return outcome
        pilot.raise_if_unrunnable(outcome, arm)
        side = "A" if arm.name == BASE else "B"
        raise MeasurementError(
            f"{side} does not run: {outcome.what}", where=str(arm.model), code=outcome.reason
        )

    def _outputs(self, first: Measured, second: Measured, new: Measured) -> OutputDifference:
        """Baseline against itself first: a model that differs from itself is compared by its moments."""
        kinds = outputs.output_kinds(self.a.model.ir)
        renames = pairing.pair_outputs(self.a.model.ir, self.b.model.ir)
        own = self._over_cases(first, second, kinds, as_moments=False)
        moments = not own.ok
        if moments:
            random_ops = outputs.random_ops(self.a.model.ir)
            cause = f" ({', '.join(sorted({op for _, op in random_ops}))})" if random_ops else ""
            self.notes.append(
                f"A differs from itself from run to run{cause}: outputs are compared by shape, finiteness and moments"
            )
            self.watch.say(self.notes[-1])
        for case in self.work.cases:
            pairing.rename_outputs(Path(new.outputs_path) / case.name, renames)
        return self._over_cases(first, new, kinds, as_moments=moments)

    def _over_cases(
        self, left: Measured, right: Measured, kinds: Mapping[str, str], *, as_moments: bool
    ) -> OutputDifference:
        found = [
            compare_outputs(
                Path(left.outputs_path) / case.name,
                Path(right.outputs_path) / case.name,
                kinds=kinds,
                tolerance=self.o.tolerance,
                as_moments=as_moments,
            )
            for case in self.work.cases
        ]
        return max(found, key=lambda d: (not d.ok, d.relative_l2))

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
            base_figures=describe(base, estimand) if base else None,
            new_figures=describe(new, estimand) if new else None,
            cases=case_results(blocks, self.work, estimand, state.prior_scale) if state else (),
            controls=tuple(state.controls) if state else (),
            findings=tuple(self.findings),
            read_back=new[-1].done.read_back if new else (),
            mapped_inputs={a: b for b, a in self.pairs.items()},
            notes=(*self.work.notes, *self.notes),
            failures=failed,
            gate=gate,
            session=self.log.id,
            elapsed_s=(time.monotonic_ns() - self.start) / 1e9,
        )
        interrupted = state is not None and state.ended == "stopped"
        return Envelope(
            schema="ortune/compare/1",
            ortune=__version__,
            host=platform.host(),
            model=ModelRef(path=self.a.model.info.path, sha256=self.a.model.info.sha256),
            workload=self.work,
            status="interrupted" if interrupted else "ok",
            verdict=comparison.verdict if comparison else "wrong-output",
            result=result,
        )


def _side(side: Resolved) -> Side:
    return Side(label=side.label, model=side.model.info, plan=side.plan, runtime=side.runtime)
