"""``ortune doctor``: what this machine can run, and the smallest effect that it can show."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ortune import __version__, platform
from ortune.errors import MeasurementError
from ortune.fleet import facts, runtimes
from ortune.flows.compare_options import Watcher
from ortune.model import workload
from ortune.model.open import OpenModel, open_model
from ortune.records import (
    DoctorResult,
    EffectRow,
    Envelope,
    Failed,
    ModelRef,
    NoiseReport,
    Plan,
    Runtime,
    Workload,
)
from ortune.search import duel
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE, log_ratios, measured
from ortune.search.figures import figure
from ortune.stats import detect, intervals
from ortune.store.db import SessionLog
from ortune.store.lock import measuring
from ortune.trials import pilot, probe_model
from ortune.trials.executor import Arm, Executor, Timing
from ortune.trials.scratch import scratch_folder

MINUTES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
BLOCKS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``doctor`` can be asked.

    Attributes:
        python: Look at this runtime only.
        model: Measure the noise with this model instead of a small one of ours.
        measure: Run the controls and the table of effects.
        wait: Wait while another ortune measures.
    """

    python: str | None = None
    model: str | None = None
    measure: bool = True
    wait: bool = True
    settings: Sequence[str] = ()


def doctor(options: Options | None = None, watcher: Watcher | None = None) -> Envelope:
    """Looks at the machine and its runtimes, then measures what can be seen here.

    Raises:
        RuntimeNotFound: ``python`` names an interpreter that has no usable onnxruntime.
    """
    o, watch = options or Options(), watcher or Watcher()
    host = platform.host()
    found = [runtimes.find_runtime(o.python)] if o.python else runtimes.all_runtimes()
    reports = tuple(runtimes.report(r) for r in found)
    findings = facts.findings(
        host, reports, os.environ, topology=platform.topology(), now=platform.read_sensors()
    )
    noise = None
    model: OpenModel | None = None
    usable = next((r for r in found if not r.error), None)
    if o.measure and usable is not None:
        with scratch_folder() as scratch:
            model = open_model(o.model) if o.model else probe_model.write(scratch)
            with measuring("doctor", wait=o.wait, say=watch.say):
                noise = _noise(usable, model, scratch, watch, named=bool(o.model))
    elif o.measure and not o.python:
        watch.say("no usable onnxruntime was found, so nothing could be measured")
    return Envelope(
        schema="ortune/doctor/1",
        ortune=__version__,
        host=host,
        model=ModelRef(path=str(model.path), sha256=model.info.sha256) if model and o.model else None,
        status="ok",
        verdict=noise.status if noise else None,
        result=DoctorResult(
            runtimes=reports, allocators=platform.allocators(), findings=tuple(findings), noise=noise
        ),
    )


def _noise(runtime: Runtime, model: OpenModel, scratch: Path, watch: Watcher, *, named: bool) -> NoiseReport:
    """The controls on this machine now, and what they mean for longer runs."""
    work = workload.propose(model.ir)
    executor = Executor({}, work, scratch, SessionLog(None, ""))
    work = pilot.settle_workload(
        executor,
        lambda refs: Arm(name=BASE, plan=Plan(), model=model.path, runtime=runtime, feeds=refs),
        model.ir,
        work,
        scratch,
        watch.say,
    )
    trial_ns = _set_up(executor, runtime, model, work, scratch)
    rules = duel.Rules(budget_ns=int(300e9))
    watch.say(f"measuring the noise: {BLOCKS} blocks of four trials of {trial_ns / 1e9:.2f} s")
    try:
        # A' races as "new" too: its evidence is what an equal plan would give.
        state = duel.run(
            executor,
            rules,
            duel.Design(sequential=False, n_blocks=BLOCKS),
            rng=random.Random(),
            clock=time.monotonic_ns,
            stop=watch.stop,
            on_block=lambda d, block: watch.block(d, duel.Design(sequential=False, n_blocks=BLOCKS), block),
        )
    except MeasurementError as error:
        watch.say(str(error))
        return NoiseReport(
            model=model.path.name if named else "a small convolution network",
            latency_ns=0.0,
            trial_s=trial_ns / 1e9,
            block_scale=0.0,
            controls=(),
            table=(),
            status="invalid",
        )
    d = log_ratios(state.blocks, NEW, state.estimand)
    scale = intervals.robust_scale(d)
    latencies = [figure(t, state.estimand) or 0.0 for t in measured(state.blocks, BASE)]
    return NoiseReport(
        model=model.path.name if named else "a small convolution network",
        latency_ns=sorted(latencies)[len(latencies) // 2],
        trial_s=trial_ns / 1e9,
        block_scale=scale,
        controls=tuple(state.controls),
        table=tuple(_row(m, scale, trial_ns, state.prior_scale) for m in MINUTES),
        status="ok",
    )


def _set_up(executor: Executor, runtime: Runtime, model: OpenModel, work: Workload, scratch: Path) -> float:
    """Makes the arms and the timing; returns what a trial costs, nanoseconds."""
    refs = pilot.write_case_feeds(model.ir, work, scratch / "feeds")

    def arm(name: str, wait: float = 0.0) -> Arm:
        return Arm(name=name, plan=Plan(), model=model.path, runtime=runtime, feeds=refs, wait_ratio=wait)

    executor.arms = {BASE: arm(BASE), NEW: arm(NEW), IDENTICAL: arm(IDENTICAL), SPIKE: arm(SPIKE, 0.05)}
    executor.timing = Timing(runs=5, warmup_runs=1, warmup_ns=0)
    for _ in range(2):
        outcome = executor(BASE)
        if isinstance(outcome, Failed):
            pilot.raise_if_unrunnable(outcome, executor.arms[BASE])
            raise MeasurementError(f"the model does not run: {outcome.what}", code=outcome.reason)
        executor.timing = pilot.timing_for(outcome)
        elapsed = float(outcome.elapsed_ns)
    return elapsed


def _row(minutes: float, scale: float, trial_ns: float, prior: float | None) -> EffectRow:
    """What a comparison of that length sees: nine blocks of four trials, then blocks of two."""
    budget = minutes * 60e9
    blocks = int(min(budget / (4 * trial_ns), 9) + max(0.0, budget - 36 * trial_ns) / (2.1 * trial_ns))
    effect = detect.smallest_effect(scale, max(blocks, 1), prior_scale=prior)
    return EffectRow(minutes=minutes, n_blocks=blocks, smallest_effect_ratio=effect if effect < 10 else None)
