"""Computes the metrics of a benchmark from its processes, each with an interval over processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ortune.catalogue.named import GLOBAL_THREAD_POOL as POOL
from ortune.measuring.measuring import Measuring
from ortune.records import BenchRow, Estimate, Failed, LoadFigures, Measured, Plan, Sensors, Workload
from ortune.records.messages import Message
from ortune.rules import rule_of
from ortune.rules.environment import omp_num_threads
from ortune.rules.shapes import superlinear_latency
from ortune.rules.threads import too_many_threads
from ortune.search.blocks import BASE
from ortune.show.message_words import texts
from ortune.stats import arrivals
from ortune.verbs._shared.estimates import tail, typical
from ortune.verbs._shared.load_words import load_words
from ortune.verbs.bench import note_words
from ortune.verbs.bench.arrival import ArrivalProcess
from ortune.verbs.bench.result import ArrivalRow, BenchProcess, BenchResult

TAILS = (0.1, 0.9, 0.95, 0.99, 0.999)
BUSY_SHARE = 0.25  # of the time, from which on a machine where some task waits for a CPU is not idle
THROTTLED_SHARE = 0.01  # of the quota's periods
STEAL_SHARE = 0.01  # of one CPU
TICK_S = 0.01  # of the counters in /proc/stat


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTrial:
    """A measured process: its index in order of execution, the index of its shape, its trial and its open-loop load."""

    index: int
    case: int
    trial: Measured
    load: LoadFigures | None = None


def make_result(
    baseline: Measuring,
    trials: Sequence[CaseTrial],
    failed: Sequence[tuple[str, Failed]],
    given_up: Sequence[Message | str],
    session: str,
    elapsed_s: float,
    reproduce: str,
    names: Sequence[str],
    arrival: ArrivalProcess | None = None,
) -> BenchResult:
    """Return the result of a benchmark.

    Args:
        baseline: Measurement of the model.
        trials: The measured processes.
        failed: Pairs of a shape's name and a failed process.
        given_up: Sentences on shapes that were given up.
        session: Id of the session.
        elapsed_s: Duration of the command in seconds.
        reproduce: Command that repeats the benchmark.
        names: Names of the shapes, by index.
        arrival: Distribution of call start times; None if calls were made one after another.
    """
    side, work = baseline.side, baseline.work
    rows, loads = [], []
    for i, case in enumerate(names):
        mine = [t.trial for t in trials if t.case == i]
        if mine:
            loads += [] if arrival is None else [_load([t.load for t in trials if t.case == i])]
            rows.append(_row(case, mine, _outputs(baseline, mine[0]), baseline.executor.first_load_ns(BASE)))
    notes = [*work.notes, *texts(baseline.notes), *_notes(work, trials, baseline), *texts(given_up)]
    own = own_threads(work, side.plan, trials)
    # The variables are those of this process: a bench elsewhere has others.
    environment = os.environ if side.runtime.host is None and not baseline.machine.pod else {}
    facts = replace(baseline.facts(), rows=rows, environment=environment)
    asked = (superlinear_latency, too_many_threads, omp_num_threads)
    found = [finding for rule in asked for finding in rule_of(rule).findings(facts)]
    return BenchResult(
        side=side.placed_record([t.trial for t in trials]),
        rows=tuple(rows),
        processes=tuple(_process(t, names[t.case]) for t in trials),
        load=load_words(work, arrival.words() if arrival is not None else ""),
        gap_ns=work.gap_ns,
        arrival=arrival.kind if arrival is not None else "",
        rate_per_s=arrival.rate_per_s if arrival is not None else None,
        arrivals=tuple(loads),
        threads=trials[-1].trial.done.threads,
        read_back=trials[-1].trial.done.read_back,
        peak_in_turn=baseline.peak_in_turn,
        findings=(*baseline.findings, *found),
        notes=tuple(notes),
        remarks=tuple(remarks([t.trial for t in trials], baseline.host.effective_cpus, own)),
        failures=tuple(failure for _, failure in failed),
        reproduce=reproduce,
        session=session,
        elapsed_s=elapsed_s,
    )


def _load(processes: Sequence[LoadFigures | None]) -> ArrivalRow:
    """Return the load of a row: the median of each metric over processes, and the verdict on the load."""
    load = arrivals.median_load([load for load in processes if load is not None])
    verdict = arrivals.verdict(late_share=load.late_share, offered_share=load.offered_share)
    return ArrivalRow(verdict=verdict, load=load)


def _row(
    case: str, trials: Sequence[Measured], outputs: tuple[str, ...], first_load_ns: float | None
) -> BenchRow:
    samples = [np.asarray(t.done.cases[0].latency_ns, dtype=float) for t in trials]
    n_requests = sum(s.size for s in samples)
    kept = [t.done.kept for t in trials]
    cpu = [t.done.cpu_ns / t.done.n_runs for t in trials]
    return BenchRow(
        case=case,
        n_processes=len(trials),
        n_requests=n_requests,
        median_ns=typical([float(np.median(s)) for s in samples]),
        tails=tuple(tail(samples, q) for q in TAILS),
        throughput_per_s=typical([1e9 * t.done.n_runs / t.done.wall_ns for t in trials]),
        load_ns=typical([float(t.done.load_ns) for t in trials]),
        first_run_ns=typical([float(t.done.cases[0].first_ns) for t in trials]),
        # A browser on another device reports no CPU time.
        cpu_per_run_ns=typical(cpu) if all(cpu) else Estimate(value=0, single=True),
        peak_bytes=_of_all([t.done.peak_bytes for t in trials]),
        idle_bytes=_of_all([held.idle_bytes if held else None for held in kept]),
        idle_anonymous_bytes=_of_all([held.idle_anonymous_bytes if held else None for held in kept]),
        released_bytes=_of_all([held.released_bytes if held else None for held in kept]),
        trimmed_bytes=_of_all([held.trimmed_bytes if held else None for held in kept]),
        event_loop_ns=_of_all([t.done.event_loop.p99_ns if t.done.event_loop else None for t in trials]),
        outputs=outputs,
        mean_ns=typical([float(s.mean()) for s in samples]),
        min_ns=float(min(s.min() for s in samples)),
        max_ns=float(max(s.max() for s in samples)),
        first_load_ns=first_load_ns,
    )


def _of_all(sizes: Sequence[int | None]) -> Estimate | None:
    """Return the typical size; None if it is unknown for a process, because the others would be a biased sample."""
    known = [float(size) for size in sizes if size]
    return typical(known) if len(known) == len(sizes) else None


def _process(t: CaseTrial, name: str) -> BenchProcess:
    done, times = t.trial.done, t.trial.done.cases[0]
    return BenchProcess(
        index=t.index,
        case=name,
        latency_ns=times.latency_ns,
        load_ns=done.load_ns,
        first_run_ns=times.first_ns,
        cpu_ns=done.cpu_ns,
        wall_ns=done.wall_ns,
        peak_bytes=done.peak_bytes,
        warmup_runs=times.warmup_runs,
        steady=times.steady,
        started_at=t.trial.started_at,
        sensors=t.trial.sensors,
        load=t.load,
    )


def _outputs(baseline: Measuring, trial: Measured) -> tuple[str, ...]:
    """Return a text for each output: its name and shape, and the kind of comparison if it is not by value."""
    shapes = trial.done.cases[0].output_shapes
    kinds = {"values": "", "labels": ", labels", "indices": ", indices", "set": ", a set"}
    return tuple(
        f"{name} {'x'.join(map(str, shape)) or 'scalar'}{kinds[comparison.kind]}"
        for (name, comparison), shape in zip(baseline.comparer.comparisons.items(), shapes, strict=False)
    )


def _notes(work: Workload, trials: Sequence[CaseTrial], baseline: Measuring) -> list[str]:
    """Return notes on ignored weights, on too many threads, and on processes that were still warming up."""
    notes = []
    if len({case.weight for case in work.cases}) > 1:
        notes.append(note_words.WEIGHTS_IGNORED)
    cpus, threads = baseline.host.effective_cpus, own_threads(work, baseline.side.plan, trials)
    apart = work.sessions > 1 and POOL.name not in baseline.side.plan.settings
    if apart and threads > max(cpus, work.sessions * work.callers):
        notes.append(note_words.pools(work.sessions, threads, cpus))
    unsteady = sum(not t.trial.done.cases[0].steady for t in trials)
    if unsteady:
        notes.append(note_words.not_steady(unsteady, len(trials)))
    return notes


def own_threads(work: Workload, plan: Plan, trials: Sequence[CaseTrial]) -> int:
    """Return the number of threads of one process that may need a CPU at the same time: callers and thread pools."""
    added = next((t.trial.done.threads for t in trials if t.trial.done.threads is not None), 0)
    pool = plan.settings.get(POOL.name)
    # The size of a thread pool includes the calling thread, which works too.
    pools = pool - 1 if isinstance(pool, int) else work.sessions * added
    return work.sessions * work.callers + pools


def remarks(trials: Sequence[Measured], cpus: int, own: int = 1) -> list[str]:
    """Return remarks on the machine's state during the measurement, from its sensors; empty for a quiet machine.

    Args:
        trials: All measured processes.
        cpus: Number of CPUs available to a process.
        own: Number of threads of the process that may need a CPU at the same time; above ``cpus``, they wait for each
            other.
    """
    crowd = own > cpus
    notes = []
    sensors: list[Sensors] = [t.sensors for t in trials]
    waits = [
        ratio for t in trials if (ratio := t.sensors.waited_ratio(t.elapsed_ns, anybody=crowd)) is not None
    ]
    if waits and float(np.median(waits)) >= BUSY_SHARE:
        notes.append(note_words.waited(float(np.median(waits)), own, cpus))
    others = [s.load1 - (s.cpu_over_wall or 0.0) for s in sensors if s.load1 is not None]
    if not waits and not crowd and others and float(np.median(others)) >= BUSY_SHARE * cpus:
        # Without pressure figures: the load average less the load of the measured process.
        notes.append(note_words.other_tasks(float(np.median(others)), cpus))
    periods = sum(s.nr_periods or 0 for s in sensors)
    throttled = sum(s.nr_throttled or 0 for s in sensors)
    if periods and throttled > THROTTLED_SHARE * periods:
        notes.append(note_words.throttled(throttled / periods))
    # Ticks of all CPUs together, counted from one reading of the sensors to the other.
    elapsed_s = sum(t.sensors.elapsed_ns or t.elapsed_ns for t in trials) / 1e9
    steal = sum(s.steal_ticks or 0 for s in sensors) * TICK_S / max(elapsed_s, 1e-9)
    if steal > STEAL_SHARE:
        notes.append(note_words.stolen(steal))
    heat = sum(s.thermal_throttles or 0 for s in sensors)
    if heat:
        notes.append(note_words.heat(heat))
    return notes
