"""Runs processes under the profiler, reads their traces, and attributes the time of each run."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ortune.catalogue.providers import find
from ortune.errors import MeasurementError, StoreError
from ortune.graph.model.extent import written_nodes
from ortune.measuring.executor import Arm
from ortune.measuring.failures import describe
from ortune.measuring.measuring import Measuring
from ortune.measuring.replay import Replay
from ortune.measuring.reported import reported_file
from ortune.records import FeedRef, GpuRun, Measured, Outcome, Sensors
from ortune.search.blocks import BASE
from ortune.search.figures import figure, trial_log_ratio
from ortune.targets.turns import Turns
from ortune.trace.attribution import Attribution, attribute
from ortune.trace.memory import Resident
from ortune.trace.read import read_trace
from ortune.trace.steady import warmup_runs
from ortune.trace.table import Floats, Trace

TIMED_NS = 2_000_000_000  # preferred nanoseconds of the profiled runs in a process
MOST_RUNS = 200
FEWEST_RUNS = 5
SPLIT_RUNS = 12
"""Number of extra runs of a process that times transfers."""
WARMUP_RUNS = 4  # of each process, including the first run
ROUNDS, LEAST_OF_TURN = 8, 3  # turns of each process; fewer if turns would have less than LEAST_OF_TURN runs
ENOUGH_RUNS, LONGER = 40, 5
"""Number of runs of which some are undisturbed even on a busy machine, and the factor by which they may exceed the
preferred time."""
BUSY = 0.35  # share of the time that some task waited for a CPU: with two busy CPUs ortune itself waits up to a fifth
MOST_EVENTS = 400_000
"""Maximum number of events in a trace that is quick to read; ONNX Runtime stops recording at a million events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledProcess:
    """Trace and measurements of one process with ONNX Runtime's profiler on.

    Attributes:
        path: File of the trace.
        warmup: Number of runs at the start of the trace that differ from later runs.
        attribution: The attributed time of the steady runs; their wall time is measured around ``run()``.
        latency_ns: Median of the timed runs.
        slowdown: Ratio of the profiled runs' time to that of a plain process in the same rounds; None if unknown.
        state: Load of the machine during the runs.
        resident: Memory of the process; None if the system does not report it.
        graph: File of the optimised graph; None if the process saved none.
        gpu_run: Transfer times of a run on a device with separate memory; None for others.
        untraced: Reason that GPU kernels are missing from a trace that should contain them; else "".
    """

    path: Path
    trace: Trace
    warmup: int
    attribution: Attribution
    latency_ns: float
    slowdown: float | None
    state: MachineLoad
    resident: Resident | None = None
    graph: Path | None = None
    gpu_run: GpuRun | None = None
    untraced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLoad:
    """The load of the machine while a process ran.

    Attributes:
        sensors: Load, pressure and other readings of the system.
        elapsed_ns: Duration of the observation in nanoseconds.
    """

    sensors: Sensors
    elapsed_ns: int

    @property
    def busy(self) -> str:
        """Note about CPU contention; "" if contention was low or is unknown."""
        waited = self.sensors.waited_ratio(self.elapsed_ns)
        if waited is None or waited < BUSY:
            return ""
        load = f", load {self.sensors.load1:.1f}" if self.sensors.load1 is not None else ""
        return f"CPU contention {100 * waited:.0f} %{load}"


def profiled_arm(baseline: Measuring, base: Arm) -> Arm:
    """Return the arm with its first shape only, since a profile does not record which shape a run had."""
    feeds = tuple(FeedRef(name=ref.name, path=ref.path) for ref in base.feeds[:1])
    return Arm(name="profiled", plan=base.plan, model=base.model, runtime=base.runtime, feeds=feeds)


def runs_for(latency_ns: float, n_nodes: int, time_ns: float = TIMED_NS) -> int:
    """Return the number of profiled runs that fit in ``time_ns``, or more if these are too few for a busy machine.

    The number is limited so that the profiler can record all events.
    """
    enough = min(ENOUGH_RUNS * latency_ns, LONGER * time_ns)
    fit = min(MOST_RUNS, int(max(time_ns, enough) / max(latency_ns, 1.0)), MOST_EVENTS // max(1, n_nodes))
    return max(FEWEST_RUNS, fit)


def runs_within(baseline: Measuring, latency_ns: float, most_ns: float, time_ns: float = TIMED_NS) -> int:
    """Return the number of profiled runs that fit in a time together with as many plain runs; 0 if too few fit.

    Args:
        baseline: The model to profile.
        latency_ns: Duration of a run.
        most_ns: Maximum time for profiling one process.
        time_ns: Preferred time of the profiled runs.
    """
    last = baseline.executor.last
    start_ns = baseline.pilot.start_ns or (last.elapsed_ns if last is not None else 0.0)
    # Half of the time is for the plain process, which takes turns with the profiled one and times transfers.
    split = SPLIT_RUNS if find(baseline.side.plan.provider_names[0]).memory else 0
    fit = ((most_ns - start_ns) / latency_ns - split) / 2 - WARMUP_RUNS
    runs = runs_for(latency_ns, written_nodes(baseline.side.model.ir), time_ns)
    return runs if fit >= runs else int(fit) if fit >= FEWEST_RUNS else 0


def affordable(
    baselines: Sequence[Measuring], left_ns: float, processes: int, *, fixed: bool
) -> tuple[int, int]:
    """Return the number of processes per side that fit in the time left, and the runs of each; 0 runs if none fits.

    Args:
        baselines: The sides, each of which has run.
        left_ns: Time left for all processes.
        processes: Preferred number of processes; fewer if the time is short.
        fixed: Whether to keep that number of processes, with fewer runs in each.
    """
    latencies = []
    for baseline in baselines:
        first = baseline.executor.last
        assert isinstance(first, Measured)
        latencies.append(figure(first, "median") or first.done.cases[0].first_ns)

    def runs_of(n: int) -> int:
        most_ns = left_ns / n / len(baselines)
        return min(
            runs_within(baseline, latency, most_ns)
            for baseline, latency in zip(baselines, latencies, strict=True)
        )

    n = processes
    # Fewer processes have more time each.
    while not (runs := runs_of(n)) and n > 1 and not fixed:
        n -= 1
    return n, runs


def profile(
    baseline: Measuring, arms: Sequence[Arm], runs: int, keep: Sequence[Path]
) -> list[ProfiledProcess]:
    """Run each arm with and without the profiler, and return the profiled processes.

    All processes are alive together and run in turn, so that other load on the machine affects them equally.

    Raises:
        MeasurementError: A process failed, or recorded no run.
    """
    pairs = baseline.executor.profiled(arms, turns_of(runs))
    return [
        _read(arm, _move_files(baseline, arm, outcome, path), plain, path)
        for arm, (outcome, plain), path in zip(arms, pairs, keep, strict=True)
    ]


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A profiled process in the journal.

    Attributes:
        outcome, plain: Outcomes of the processes with and without the profiler.
        trace, graph: File names of the trace and of the saved graph, in the folder of the journal; "" for no graph.
        ended_ns: Time on the session's clock at which both processes had ended.
    """

    outcome: Measured
    plain: Outcome | None
    trace: str
    graph: str
    ended_ns: int


def profile_once(
    baseline: Measuring, replay: Replay, turn: int, arms: Sequence[Arm], runs: int, keep: Sequence[Path]
) -> list[ProfiledProcess]:
    """Run the processes of ``profile``, or restore them from the journal of an interrupted session.

    Raises:
        MeasurementError: A process failed, or recorded no run.
        StoreError: A trace of the interrupted session cannot be read.
    """

    def run() -> list[ProcessRecord]:
        pairs = baseline.executor.profiled(arms, turns_of(runs))
        measured = [
            (_move_files(baseline, arm, outcome, path), plain, path)
            for arm, (outcome, plain), path in zip(arms, pairs, keep, strict=True)
        ]
        return [
            ProcessRecord(
                outcome=outcome,
                plain=plain,
                trace=baseline.log.attach(path),
                graph=baseline.log.attach(graph) if (graph := _graph_path(path)).exists() else "",
                ended_ns=replay.clock(),
            )
            for outcome, plain, path in measured
        ]

    records = replay.once(f"processes-{turn}", list[ProcessRecord], run)
    processes = []
    for arm, record, path in zip(arms, records, keep, strict=True):
        replay.set_clock(record.ended_ns)
        if not path.exists():
            try:
                path.write_bytes(baseline.log.attachment(record.trace))
                if record.graph:
                    _graph_path(path).write_bytes(baseline.log.attachment(record.graph))
            except (OSError, zlib.error) as error:
                raise StoreError(
                    f"the trace of an interrupted session cannot be read: {error}",
                    where=record.trace,
                    do="omit --resume",
                ) from error
        processes.append(_read(arm, record.outcome, record.plain, path))
    return processes


def turns_of(runs: int) -> Turns:
    """Return the turns for a number of profiled runs, all of which are measured."""
    # Example: 20 runs are 6 rounds of 4.
    rounds = max(1, min(ROUNDS, runs // LEAST_OF_TURN))
    return Turns(runs=-(-runs // rounds), unmeasured=0, rounds=rounds)


def _move_files(baseline: Measuring, arm: Arm, outcome: Outcome, keep: Path) -> Measured:
    """Move trace and graph of a profiled process to their paths, and return its outcome.

    Raises:
        MeasurementError: The process failed, or reports a file outside the scratch folder.
    """
    if not isinstance(outcome, Measured):
        raise MeasurementError(
            f"does not run under the profiler: {describe(outcome)}", where=str(arm.model), code=outcome.reason
        )
    shutil.move(reported_file(outcome.done.profile, baseline.scratch), keep)
    if outcome.done.graph:
        shutil.move(reported_file(outcome.done.graph, baseline.scratch), _graph_path(keep))
    return outcome


def _graph_path(trace: Path) -> Path:
    """Return the path of the saved graph, next to the trace; the file exists only if the process saved one."""
    return trace.with_suffix(".onnx")


def _read(arm: Arm, outcome: Measured, plain: Outcome | None, path: Path) -> ProfiledProcess:
    """Return a profiled process from its outcome, the outcome without the profiler, and its trace.

    Raises:
        MeasurementError: The trace contains no run.
    """
    graph, trace = _graph_path(path), read_trace(path)
    if not trace.n_runs:
        raise MeasurementError("its profile contains no run", where=str(arm.model), code="profile")
    warmup = warmup_runs(trace.run_ns)
    # The later of both, since runs that the worker did not time have no wall time.
    first = min(max(1 + outcome.done.cases[0].warmup_runs, warmup), trace.n_runs - 1)
    return ProfiledProcess(
        path=path,
        trace=trace,
        warmup=warmup,
        attribution=attribute(trace, range(first, trace.n_runs), wall_times(outcome, trace, first)),
        latency_ns=figure(outcome, "median") or float(np.median(trace.run_ns)),
        slowdown=profiled_to_plain_ratio(outcome, plain),
        state=machine_load(outcome),
        resident=(
            Resident(peak_bytes=outcome.done.peak_bytes, base_bytes=outcome.done.base_bytes)
            if outcome.done.peak_bytes is not None and outcome.done.base_bytes is not None
            else None
        ),
        graph=graph if graph.exists() else None,
        gpu_run=_gpu_run(outcome, plain),
        untraced=outcome.done.untraced,
    )


def wall_times(outcome: Measured, trace: Trace, first: int) -> Floats | None:
    """Return the wall time around ``run()`` of each run from index ``first`` on; None if some runs were not timed.

    The wall time includes work that is not in the trace: passing inputs, and converting outputs to Python objects.
    """
    latencies = np.asarray(outcome.done.cases[0].latency_ns, dtype=np.float64)
    before = 1 + outcome.done.cases[0].warmup_runs
    # A truncated trace contains the first of the timed runs.
    wall = latencies[first - before : trace.n_runs - before] if first >= before else latencies[:0]
    return wall if len(wall) and len(wall) == trace.n_runs - first else None


def _gpu_run(outcome: Measured, plain: Outcome | None) -> GpuRun | None:
    """Return the transfer times of a run: for a browser page under the profiler, else of the process without it."""
    if outcome.done.page is not None:
        return outcome.done.page.gpu_run
    return plain.done.gpu_run if isinstance(plain, Measured) else None


def machine_load(outcome: Measured) -> MachineLoad:
    """Return the load of the machine during a trial."""
    return MachineLoad(sensors=outcome.sensors, elapsed_ns=outcome.sensors.elapsed_ns or outcome.elapsed_ns)


def profiled_to_plain_ratio(outcome: Measured, plain: Outcome | None) -> float | None:
    """Return the ratio of profiled to plain time, from runs that took turns; None if unknown."""
    ratio = trial_log_ratio(outcome, plain, "paired") if isinstance(plain, Measured) else None
    return None if ratio is None else float(np.exp(ratio))


def slowdown(processes: Sequence[ProfiledProcess]) -> float | None:
    """Return the median slowdown under the profiler over all processes of one side; None if unknown."""
    ratios = [p.slowdown for p in processes if p.slowdown is not None]
    return float(np.median(ratios)) if ratios else None


def base_arm(baseline: Measuring) -> Arm:
    """Return the base arm, limited to its first shape."""
    return profiled_arm(baseline, baseline.arm(BASE))
