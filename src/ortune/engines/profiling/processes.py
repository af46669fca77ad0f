"""One side under ONNX Runtime's profiler: processes, their traces, and what each run's time went into."""

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
from ortune.search.figures import compared, figure
from ortune.targets.turns import Turns
from ortune.trace.attribution import Attribution, attribute
from ortune.trace.memory import Resident
from ortune.trace.read import read_trace
from ortune.trace.steady import warmup_runs
from ortune.trace.table import Floats, Trace

TIMED_NS = 2_000_000_000  # of profiled runs in a process
MOST_RUNS = 200
FEWEST_RUNS = 5
NOT_HELD = "not profiled: no time left in the budget"
SPLIT_RUNS = 12
"""At least, of a process that times what transfer takes."""
WARMUP_RUNS = 4  # of each process, the first run among them
ROUNDS, LEAST_OF_TURN = 8, 3  # turns of each process, fewer where they would have fewer runs than that
ENOUGH_RUNS, LONGER = 40, 5
"""Runs of which some were left alone even on a busy machine: for these profiling may take so many times as long."""
BUSY = 0.35  # of the time some task waited for a CPU: with both CPUs at work ortune itself waits up to a fifth of it
MOST_EVENTS = 400_000
"""ONNX Runtime stops recording at a million events; a fraction of it is quick to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One profiled process.

    Attributes:
        path: The trace that it wrote.
        warmup: Runs at its start that are not like the later ones.
        attribution: The steady runs, attributed; their wall time is that around ``run()``.
        latency_ns: Median of the timed runs.
        slowdown: How much longer they took than those of a plain process in the same rounds; None: not known.
        state: What else happened on the machine meanwhile.
        resident: Its memory; None if the system does not tell.
        graph: The graph that ran, where the process left it.
        gpu_run: What a run is made of, on a device with memory of its own.
        untraced: Why the GPU's kernels are missing in the trace, if it should contain them.
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
    """The machine while a process ran.

    Attributes:
        sensors: Load, pressure and other figures of the system.
        elapsed_ns: How long it was looked at.
    """

    sensors: Sensors
    elapsed_ns: int

    @property
    def busy(self) -> str:
        """Says that the CPUs were wanted by more than there was room for, in words; "" if they were not."""
        waited = self.sensors.waited_ratio(self.elapsed_ns)
        if waited is None or waited < BUSY:
            return ""
        load = f", load {self.sensors.load1:.1f}" if self.sensors.load1 is not None else ""
        return f"CPU contention {100 * waited:.0f} %{load}"


def profiled_arm(baseline: Measuring, base: Arm) -> Arm:
    """Limit an arm to its first shape, since a profile does not say which shape a run had."""
    feeds = tuple(FeedRef(name=ref.name, path=ref.path) for ref in base.feeds[:1])
    return Arm(name="profiled", plan=base.plan, model=base.model, runtime=base.runtime, feeds=feeds)


def runs_for(latency_ns: float, n_nodes: int, time_ns: float = TIMED_NS) -> int:
    """Profiled runs that take about that long, or are enough to tell; as far as the profiler's memory goes."""
    enough = min(ENOUGH_RUNS * latency_ns, LONGER * time_ns)
    fit = min(MOST_RUNS, int(max(time_ns, enough) / max(latency_ns, 1.0)), MOST_EVENTS // max(1, n_nodes))
    return max(FEWEST_RUNS, fit)


def runs_within(baseline: Measuring, latency_ns: float, most_ns: float, time_ns: float = TIMED_NS) -> int:
    """Profiled runs as ``runs_for``, or fewer, so that they and as many plain ones fit; 0 if the fewest do not.

    Args:
        baseline: What is profiled.
        latency_ns: Of a run.
        most_ns: What profiling one process may take.
        time_ns: Of profiled runs, where there is time for more.
    """
    last = baseline.executor.last
    start_ns = baseline.pilot.start_ns or (last.elapsed_ns if last is not None else 0.0)
    # Half of the time is the plain process's, which takes turns with the profiled one, and splits off transfers.
    split = SPLIT_RUNS if find(baseline.side.plan.provider_names[0]).memory else 0
    fit = ((most_ns - start_ns) / latency_ns - split) / 2 - WARMUP_RUNS
    runs = runs_for(latency_ns, written_nodes(baseline.side.model.ir), time_ns)
    return runs if fit >= runs else int(fit) if fit >= FEWEST_RUNS else 0


def affordable(
    baselines: Sequence[Measuring], left_ns: float, processes: int, *, fixed: bool
) -> tuple[int, int]:
    """Profiled processes of each side, and runs of each, that the time left holds; no runs where not even one fits.

    Args:
        baselines: The sides, each of which ran.
        left_ns: Time for all of them.
        processes: As many as there should be; fewer where the time is short.
        fixed: As many as that in any case, of fewer runs.
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


def profile(baseline: Measuring, arms: Sequence[Arm], runs: int, keep: Sequence[Path]) -> list[Process]:
    """Return one process of each arm under the profiler and one without it, alive together and taking turns.

    What the machine does meanwhile then hits all of them: neither a side nor the profiler is blamed for a neighbour.

    Raises:
        MeasurementError: A process failed, or recorded no run.
    """
    pairs = baseline.executor.profiled(arms, turns_of(runs))
    return [
        _read(arm, _moved(baseline, arm, outcome, path), plain, path)
        for arm, (outcome, plain), path in zip(arms, pairs, keep, strict=True)
    ]


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A profiled process as the journal has it.

    Attributes:
        outcome: Outcome of the process under the profiler; ``plain`` is that of the process without it.
        trace, graph: File names of the trace and of the saved graph, in the folder of the journal; "" for no graph.
        ended_ns: When both ended, by the session's clock.
    """

    outcome: Measured
    plain: Outcome | None
    trace: str
    graph: str
    ended_ns: int


def profile_once(
    baseline: Measuring, replay: Replay, turn: int, arms: Sequence[Arm], runs: int, keep: Sequence[Path]
) -> list[Process]:
    """Return one process of each arm as ``profile`` runs it; of an interrupted session what its journal has.

    Raises:
        MeasurementError: A process failed, or recorded no run.
        StoreError: A trace of the interrupted session cannot be read any more.
    """

    def run() -> list[ProcessRecord]:
        pairs = baseline.executor.profiled(arms, turns_of(runs))
        measured = [
            (_moved(baseline, arm, outcome, path), plain, path)
            for arm, (outcome, plain), path in zip(arms, pairs, keep, strict=True)
        ]
        return [
            ProcessRecord(
                outcome=outcome,
                plain=plain,
                trace=baseline.log.attach(path),
                graph=baseline.log.attach(graph) if (graph := _graph_beside(path)).exists() else "",
                ended_ns=replay.clock(),
            )
            for outcome, plain, path in measured
        ]

    records = replay.once(f"processes-{turn}", list[ProcessRecord], run)
    processes = []
    for arm, record, path in zip(arms, records, keep, strict=True):
        replay.reached(record.ended_ns)
        if not path.exists():
            try:
                path.write_bytes(baseline.log.attachment(record.trace))
                if record.graph:
                    _graph_beside(path).write_bytes(baseline.log.attachment(record.graph))
            except (OSError, zlib.error) as error:
                raise StoreError(
                    f"the trace of an interrupted session cannot be read: {error}",
                    where=record.trace,
                    do="omit --resume",
                ) from error
        processes.append(_read(arm, record.outcome, record.plain, path))
    return processes


def turns_of(runs: int) -> Turns:
    """Profiled runs as turns; the first runs of a turn are in the trace too, and are few of it."""
    # Example: 20 runs are 6 rounds of 4.
    rounds = max(1, min(ROUNDS, runs // LEAST_OF_TURN))
    return Turns(runs=-(-runs // rounds), unmeasured=0, rounds=rounds)


def _moved(baseline: Measuring, arm: Arm, outcome: Outcome, keep: Path) -> Measured:
    """Return the outcome of a profiled process, with its trace and its graph moved to the folder of the journal.

    Raises:
        MeasurementError: The process failed, or reports a file outside of the scratch folder.
    """
    if not isinstance(outcome, Measured):
        raise MeasurementError(
            f"does not run under the profiler: {describe(outcome)}", where=str(arm.model), code=outcome.reason
        )
    shutil.move(reported_file(outcome.done.profile, baseline.scratch), keep)
    if outcome.done.graph:
        shutil.move(reported_file(outcome.done.graph, baseline.scratch), _graph_beside(keep))
    return outcome


def _graph_beside(trace: Path) -> Path:
    """Return where the graph that ran lies, where the process left it."""
    return trace.with_suffix(".onnx")


def _read(arm: Arm, outcome: Measured, plain: Outcome | None, path: Path) -> Process:
    """Return a profiled process from its outcome, the outcome of the process without the profiler, and its trace.

    Raises:
        MeasurementError: It recorded no run.
    """
    graph, trace = _graph_beside(path), read_trace(path)
    if not trace.n_runs:
        raise MeasurementError("its profile contains no run", where=str(arm.model), code="profile")
    warmup = warmup_runs(trace.run_ns)
    # Whichever is later: runs that the worker did not time have no wall time of their own.
    first = min(max(1 + outcome.done.cases[0].warmup_runs, warmup), trace.n_runs - 1)
    return Process(
        path=path,
        trace=trace,
        warmup=warmup,
        attribution=attribute(trace, range(first, trace.n_runs), walls(outcome, trace, first)),
        latency_ns=figure(outcome, "median") or float(np.median(trace.run_ns)),
        slowdown=beside_plain(outcome, plain),
        state=seen(outcome),
        resident=(
            Resident(peak_bytes=outcome.done.peak_bytes, base_bytes=outcome.done.base_bytes)
            if outcome.done.peak_bytes is not None and outcome.done.base_bytes is not None
            else None
        ),
        graph=graph if graph.exists() else None,
        gpu_run=_gpu_run(outcome, plain),
        untraced=outcome.done.untraced,
    )


def walls(outcome: Measured, trace: Trace, first: int) -> Floats | None:
    """Return the wall time around ``run()`` of each run in a trace from one on; None if some of them were not timed.

    It includes what the trace does not have: passing inputs, and making Python objects of outputs.
    """
    latencies = np.asarray(outcome.done.cases[0].latency_ns, dtype=np.float64)
    before = 1 + outcome.done.cases[0].warmup_runs
    # A trace that was cut off holds the first of the timed runs.
    wall = latencies[first - before : trace.n_runs - before] if first >= before else latencies[:0]
    return wall if len(wall) and len(wall) == trace.n_runs - first else None


def _gpu_run(outcome: Measured, plain: Outcome | None) -> GpuRun | None:
    """Return the transfer time of a run: of a page under the profiler, otherwise of the process without it."""
    if outcome.done.page is not None:
        return outcome.done.page.gpu_run
    return plain.done.gpu_run if isinstance(plain, Measured) else None


def seen(outcome: Measured) -> MachineLoad:
    """The machine while a trial ran."""
    return MachineLoad(sensors=outcome.sensors, elapsed_ns=outcome.sensors.elapsed_ns or outcome.elapsed_ns)


def beside_plain(outcome: Measured, plain: Outcome | None) -> float | None:
    """How much longer profiled runs take than those of the plain process that took turns with them; None: not known."""
    ratio = compared(outcome, plain, "paired") if isinstance(plain, Measured) else None
    return None if ratio is None else float(np.exp(ratio))


def slowdown(processes: Sequence[Process]) -> float | None:
    """Return the slowdown under the profiler over all processes of one side."""
    ratios = [p.slowdown for p in processes if p.slowdown is not None]
    return float(np.median(ratios)) if ratios else None


def base_arm(baseline: Measuring) -> Arm:
    """Return the side as it is."""
    return profiled_arm(baseline, baseline.arm(BASE))
