"""``ortune doctor``: lists the runtimes and providers of this machine, and measures the smallest detectable effect."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from pathlib import Path

from ortune import monotonic, rules
from ortune.engines.profiling.peaks import duration_s, measure_peak
from ortune.engines.profiling.stored_peaks import load_peak
from ortune.errors import BusyError, Interrupted, MeasurementError, Stopped, UsageError
from ortune.graph.model.open import open_model
from ortune.measuring import probe_model
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.document import document
from ortune.measuring.driver import drive
from ortune.measuring.exclusive import exclusive
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import ResolvedSide
from ortune.measuring.watcher import Watcher
from ortune.records import Block, Comparison, Control, Envelope, MachinePeak, Plan, Runtime, RuntimeReport
from ortune.rules import Facts
from ortune.runtimes import made, runtimes
from ortune.search import controls, duel
from ortune.search.blocks import BASE, NEW, log_ratios, measured
from ortune.search.figures import figure
from ortune.search.phases import AFTER_SHARE
from ortune.search.sequential import Sequential
from ortune.search.waiting import quiet_cpus, waiting_of
from ortune.stats import detect, intervals
from ortune.targets import named_runtimes
from ortune.targets.inventory import report
from ortune.targets.machine import Machine
from ortune.targets.tool import ToolFailed
from ortune.verbs._shared.session import begin_or_resume, experiment
from ortune.verbs._shared.spelling import named
from ortune.verbs._shared.watching import with_words
from ortune.verbs.doctor import words as doctor_words
from ortune.verbs.doctor.options import Options
from ortune.verbs.doctor.result import DoctorResult, EffectRow, NoiseReport

MINUTES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
BLOCKS = 12
BLOCKS_A_MINUTE = 30  # as in compare, which runs 60 in its two minutes


def run(options: Options | None = None, watcher: Watcher | None = None) -> Envelope[DoctorResult]:
    """Inspect the machine and its runtimes, then measure its noise and peaks.

    Raises:
        UsageError: A model or ``--resume`` was passed with ``--no-measure``.
        RuntimeNotFound: ``runtime`` has no usable onnxruntime.
        OrtuneError: The model cannot be opened or fed.
    """
    o, watch = options or Options(), with_words(watcher)
    if o.model is not None and not o.measure:
        raise UsageError(
            "is the model for measuring noise, and --no-measure measures nothing",
            where=str(o.model),
            do="omit it or --no-measure",
        )
    if o.resume is not None and not o.measure:
        raise UsageError(
            "resumes a measurement, and --no-measure measures nothing",
            where="--resume",
            do="omit it or --no-measure",
        )
    with experiment("doctor", o, watch) as opened:
        return _examined(o, opened)


def _examined(o: Options, opened: Experiment) -> Envelope[DoctorResult]:
    """Examine the machine, measure its noise and peaks if possible, and return the document."""
    watch = opened.watch
    chosen = [named_runtimes.find(named(o.runtime), watch.say)] if o.runtime else None
    with (
        watch.clock.stopped()
    ):  # no comparison inspects other environments, of which the time to start is estimated
        environments = chosen or runtimes.all_runtimes()
        reports = tuple(report(r, o.in_browser) for r in environments)
    usable = next((r for r in environments if not r.error), None)
    if usable is not None:
        opened.measure_at(usable, Plan())
    machine = opened.machine
    noise: NoiseReport | None = None
    peak: MachinePeak | None = None
    peak_failed = ""
    interrupted = False
    if o.measure and usable is not None:
        watch.say(f"measuring with {runtimes.describe(usable)}")
        model = open_model(Path(o.model)) if o.model else probe_model.write(opened.scratch)
        side = ResolvedSide(
            label=model.path.name if o.model else doctor_words.PROBE,
            model=model,
            plan=Plan(),
            runtime=usable,
            runs=model.path,
        )
        try:
            watch.say(doctor_words.begins(*duration_s(machine)))
            noise = _measured(side, o, opened)
            peak, peak_failed = _peak(usable, o, opened)
        except BusyError as error:
            if o.no_wait:
                raise
            # The inventory needs no lock. The noise is not measured during another measurement, which would add to it.
            peak_failed = error.what
            watch.say(doctor_words.nothing_measured(error.what))
        except (Interrupted, Stopped):
            # The inventory is done and worth having; only the noise is not known, or the peaks.
            interrupted = True
    elif o.measure:
        watch.say(doctor_words.NO_RUNTIME)
    (baseline,) = opened.baselines if noise is not None else (None,)
    envelope = document(
        "doctor",
        _result(
            reports,
            noise,
            peak or load_peak(machine.host, o.folder, usable.ort_version if usable else ""),
            machine,
            runtimes.not_started(environments),
            peak_failed,
        ),
        host=machine.host,
        model=baseline.side.model.ref if baseline and o.model else None,
        workload=baseline.work if baseline else None,
        status="interrupted" if interrupted else "ok",
        verdict=noise.status if noise else None,
        alerts=baseline.alerts if baseline else (),
    )
    if noise is not None:
        # Stored with the noise, so that the session can be printed again.
        opened.log.add("document", envelope)
        opened.report_storage_failures()
    return envelope


def _result(
    reports: tuple[RuntimeReport, ...],
    noise: NoiseReport | None,
    peak: MachinePeak | None,
    machine: Machine,
    not_started: str,
    peak_failed: str,
) -> DoctorResult:
    facts = Facts(
        host=machine.host,
        runtimes=reports,
        environment=os.environ,
        topology=machine.topology,
        sensors=machine.sensors(),
    )
    return DoctorResult(
        runtimes=reports,
        allocators=machine.allocators,
        findings=rules.findings(facts),
        noise=noise,
        peak=peak,
        peak_failed=peak_failed,
        addable=made.addable({report.runtime.ort_version for report in reports}),
        not_started=not_started,
    )


def _peak(runtime: Runtime, o: Options, opened: Experiment) -> tuple[MachinePeak | None, str]:
    """Measure the machine's peak arithmetic and memory speeds.

    Returns:
        The peaks, or None if they could not be measured; and the reason for this, or "".
    """
    watch = opened.watch
    try:
        with exclusive("doctor", watch, wait=False):
            peak = measure_peak(
                runtime, opened.scratch, o.folder, opened.machine, say=watch.tell, stop=watch.stop
            )
            return peak, ""
    except (ToolFailed, BusyError, MeasurementError) as error:
        watch.say(doctor_words.peaks_not_measured(error.what))
        return None, doctor_words.no_peak(error.what, postponed=error.code == "busy")


def _measured(side: ResolvedSide, o: Options, opened: Experiment) -> NoiseReport:
    """Measure the noise and record it in the journal."""
    with opened.measuring("", wait=False):
        begin_or_resume(opened, o, [side], o.resume, model=side.label)
        baseline = opened.base_measuring(side)
        find_checked_inputs(baseline, UNLIMITED, limit_s=60.0)
        run_pilot(baseline, "latency")
        noise = _noise(baseline, side.runtime, opened)
        opened.log.add("result", noise)
        return noise


def _noise(baseline: Measuring, runtime: Runtime, opened: Experiment) -> NoiseReport:
    """Measure the noise with the controls, and estimate which effects longer comparisons could detect."""
    watch, replay = opened.watch, opened.replay
    baseline.executor.arms = {**baseline.controls(), NEW: baseline.arm(NEW)}
    trial_ns = baseline.pilot.trial_ns
    watch.say(doctor_words.measuring_noise(BLOCKS, trial_ns / 1e9))
    try:
        # The default races against itself, so its evidence is that of an equal plan.
        schedule = Sequential(duel.Rules(), duel.Design(sequential=False, n_blocks=BLOCKS))

        def on_block(block: Block) -> None:
            replay.block(block)
            watch.line(f"block {schedule.standing.n_blocks} of {BLOCKS}")

        replay.mark_no_block()
        before_ns = float(replay.decision_time_ns())
        order = replay.once("order", int, lambda: int(1e9 * monotonic.now_s()))
        drive(
            schedule,
            baseline.executor,
            rng=random.Random(f"doctor-{order}"),
            budget=Budget(
                spent_ns=replay.decision_time_ns
            ),  # without an end, so that controls that fail are repeated
            stop=watch.stop,
            on_block=on_block,
        )
    except MeasurementError as error:
        if error.code != controls.INVALID:
            raise
        watch.say(str(error))
        return NoiseReport(
            model=baseline.side.label,
            latency_ns=0.0,
            trial_s=trial_ns / 1e9,
            block_scale=0.0,
            controls=(),
            table=(),
            status="invalid",
        )
    state = schedule.state
    scale = intervals.robust_scale(log_ratios(state.blocks, NEW, state.statistic))
    used_cpus = _used_cpus(state.blocks, opened)
    seen = state.conclude()
    busy = used_cpus is not None and used_cpus > quiet_cpus(opened.machine.host)
    latencies = sorted(figure(t, state.statistic) or 0.0 for t in measured(state.blocks, BASE))
    return NoiseReport(
        model=baseline.side.label,
        latency_ns=latencies[len(latencies) // 2],
        trial_s=trial_ns / 1e9,
        block_scale=scale,
        controls=tuple(state.controls),
        table=tuple(
            _row(m, scale, trial_ns, before_ns, state.prior_scale, state.controls, seen, busy=busy)
            for m in MINUTES
        ),
        status="ok",
        used_cpus=used_cpus,
        busy=busy,
        cpus=opened.machine.host.effective_cpus,
    )


def _used_cpus(blocks: Sequence[Block], opened: Experiment) -> float | None:
    """Return the number of CPUs that other programs used during the blocks; None if unknown."""
    seen = [waiting_of(trial, opened.machine.host) for trial in measured(blocks, BASE)]
    used = sorted(each.used_cpus for each in seen if each is not None)
    return used[len(used) // 2] if used else None


def _row(
    minutes: float,
    scale: float,
    trial_ns: float,
    before_ns: float,
    prior: float | None,
    checks: Sequence[Control],
    seen: Comparison,
    *,
    busy: bool,
) -> EffectRow:
    """Return the minimum effect that a comparison of this length can detect.

    Such a comparison is assumed to have nine blocks of four trials followed by blocks of two, a start and a pilot as
    long as here, and time reserved for the work after the last block. The effect is at least the slowdown that a
    sensitivity check did not detect, scaled to the number of blocks, and the effect that two equal sides leave
    possible. On a busy machine, the latter does not shrink with more blocks, because the load of other programs
    varies over longer periods than a block.

    Args:
        minutes: Length of the comparison.
        scale: Scale of the noise between blocks.
        trial_ns: Duration of a trial.
        before_ns: Duration of the start and the pilot, without the inventory.
        prior: Scale of the noise in the first blocks, as a prior; None if unknown.
        checks: Results of the controls.
        seen: Comparison of two equal sides.
        busy: Whether other programs use the machine.
    """
    budget = max(0.0, (1 - AFTER_SHARE) * minutes * 60e9 - before_ns)
    # Nine blocks of four trials, the controls among them, are 36 trials. Later blocks are of two, and a tenth
    # more goes to controls.
    fits = int(min(budget / (4 * trial_ns), 9) + max(0.0, budget - 36 * trial_ns) / (2.2 * trial_ns))
    blocks = min(fits, max(60, int(BLOCKS_A_MINUTE * minutes)))
    effect = detect.smallest_effect(scale, max(blocks, 1), prior_scale=prior)
    for check in checks:
        if check.detected is False and check.expected_ratio:
            effect = max(effect, (check.expected_ratio - 1) * math.sqrt(check.n_blocks / max(blocks, 1)))
    if seen.smallest_effect_ratio is not None:
        averaged = 1.0 if busy else math.sqrt(seen.n_blocks / max(blocks, 1))
        effect = max(effect, averaged * seen.smallest_effect_ratio)
    return EffectRow(minutes=minutes, n_blocks=blocks, smallest_effect_ratio=effect if effect < 10 else None)


def exit_code(envelope: Envelope[DoctorResult]) -> int:
    """Return 3 if the machine is too noisy to measure anything, or else 0."""
    return 3 if envelope.verdict == "invalid" else 0
