"""One trial on a simulated machine: what it answers is real, what it takes is drawn."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ortune import targets
from ortune.records import Failed, FailureReason, Measured, MemoryKept, Outcome, Plan, Sensors
from ortune.targets.task import TrialTask
from simulated_answers import answer, name_of, outputs_of

if TYPE_CHECKING:
    from simulated_machine import Lab

START_S = 0.25
"""From the start of a process until its session exists."""
CPUS = 4
"""Of the simulated machine."""
RUN_NS = 4e6
"""A run of the default plan."""


def log_factor(seed: int, model: str, plan: Plan, *, differ: bool) -> float:
    """By how much a plan's runs differ from the default's, log units: nothing, or what its name and the seed say."""
    if not differ or plan == Plan():
        return 0.0
    draw = np.random.default_rng([seed, zlib.crc32(f"{model} {plan.id}".encode())])
    kind = draw.random()
    return float(draw.normal(-0.12, 0.08) if kind < 0.2 else draw.normal(0.1, 0.1) if kind < 0.4 else 0.0)


class Trial:
    """One trial: what it answers is real, what it takes is drawn."""

    def __init__(self, lab: Lab, task: TrialTask, *, timed: bool) -> None:
        self.lab, self.task, self.real = lab, task, answer(task)
        self.model = name_of(task)
        kind = f"{self.model} {task.plan.id} {task.request.wait_ratio} {timed}"
        lab.trials[kind] += 1
        self.draw = lab.draw("trial", kind, lab.trials[kind])
        self.failed: FailureReason | None = None
        self.overdue = False
        if isinstance(self.real, Measured):
            self.failed = fault(lab, self.draw, task.plan, self.model)
        late = 10.0 if self.draw.random() < lab.faults.late else 1.0
        self.start_s = START_S * late * lab.crowd * float(np.exp(0.05 * self.draw.standard_normal()))
        if lab.faults.disk_full_at is not None and len(lab.groups) >= lab.faults.disk_full_at:
            self.failed = "disk-full" if task.request.outputs_path else self.failed
        if self.failed == "timeout":
            self.start_s = min(task.limits.load_s, 600.0)
        log_ns = np.log(RUN_NS * lab.crowd) + log_factor(lab.seed, self.model, task.plan, differ=lab.differ)
        log_ns += 0.1 * (self.model == lab.slower_model)
        self.threads = int(task.plan.settings.get("intra_op_num_threads", CPUS)) or CPUS
        log_ns += lab.threads_log * (self.threads < CPUS)
        log_ns -= lab.faster_log * any(spec.name == lab.faster_rewrite for spec in task.plan.rewrites)
        log_ns -= 0.7 * (bool(lab.faster_target) and targets.target_of(task.plan).name == lab.faster_target)
        self.log_ns = float(log_ns + lab.weather.process * self.draw.standard_normal())
        self.first_ns, self.spent_ns = 0, 1e9 * self.start_s
        self.latencies: list[int] = []
        self.waits: list[int] = []
        self.turn_runs: list[int] = []
        self.turn_waits: list[int] = []
        self.delayed_ns = 0.0

    @property
    def n_cases(self) -> int:
        """Shapes that each run of it has."""
        return len(self.task.request.feeds)

    def warm(self) -> None:
        """The first run and the warm-up."""
        if self.failed or isinstance(self.real, Failed):
            return
        self.first_ns = int(np.exp(self.log_ns + np.log(3) + 0.05 * self.draw.standard_normal()))
        self._spend(self.n_cases * (self.first_ns + self.task.request.warmup_runs * np.exp(self.log_ns)))

    def batch(self, runs: int, unmeasured: int) -> None:
        """A turn: every case has the same latencies."""
        self._spend(self.n_cases * unmeasured * np.exp(self.log_ns))
        noise = self.lab.weather.run * self.draw.standard_normal(runs)
        bare = np.exp(self.log_ns + noise) * self.lab.neighbour(self.lab.now_s)
        late, waits_ns = self._others(float(np.sum(bare)))
        bare = bare * late
        self.turn_waits.append(int(self.n_cases * waits_ns))
        waited = bare * self.task.request.wait_ratio
        self.latencies += [int(each) for each in bare + waited]
        self.waits += [int(each) for each in waited] if self.task.request.wait_ratio else []
        self.turn_runs.append(runs)
        self._spend(self.n_cases * (float(np.sum(bare + waited)) + runs * self.task.request.gap_ns))

    def _others(self, bare_ns: float) -> tuple[float, float]:
        """How many times as long a turn takes next to other programs, and for how long its threads wait in it."""
        lab, weather = self.lab, self.lab.weather
        if self.threads + lab.loops <= CPUS or self.draw.random() >= weather.meets:
            return 1.0, 0.0
        # Of two threads that wait at once both are counted, and one is as long: what waits count is at least the delay.
        share = self.draw.uniform(0.3, 0.9)
        lab.waited_s += 1e-9 * share * bare_ns
        self.delayed_ns += self.n_cases * share * bare_ns
        return 1.0 + share, share * bare_ns * self.draw.uniform(1.0, 1.2)

    def _memory(self) -> float:
        """Times as much peak memory as the default's."""
        plan = self.task.plan
        names = {*plan.settings, *(spec.name for spec in plan.rewrites)}
        return math.prod(times for name, times in self.lab.memory.items() if name in names)

    def outcome(self, sensors: Sensors) -> Outcome:
        """What became of it."""
        real, plan, elapsed_ns = self.real, self.task.plan.id, int(self.spent_ns)
        if isinstance(real, Failed):
            return msgspec.structs.replace(real, elapsed_ns=elapsed_ns)
        if self.failed:
            phase = "running" if self.overdue else "loading"
            return Failed(plan=plan, reason=self.failed, what="drawn", phase=phase, elapsed_ns=elapsed_ns)
        cases = tuple(
            msgspec.structs.replace(
                case,
                latency_ns=tuple(self.latencies),
                first_ns=self.first_ns,
                warmup_runs=self.task.request.warmup_runs,
                steady=True,
                waits_ns=tuple(self.waits),
                turn_runs=tuple(self.turn_runs),
            )
            for case in real.done.cases
        )
        total_ns = len(cases) * sum(self.latencies)
        done = msgspec.structs.replace(
            real.done,
            load_ns=int(3e8 * self.start_s),
            cases=cases,
            # Threads that wait for other programs use no CPU time.
            cpu_ns=int(2 * (total_ns - self.delayed_ns)),
            wall_ns=total_ns,
            n_runs=len(cases) * len(self.latencies),
            peak_bytes=int(60e6 * self._memory() * np.exp(0.01 * self.draw.standard_normal())),
            base_bytes=int(30e6),
            kept=MemoryKept(idle_bytes=int(55e6 * self._memory()), released_bytes=int(50e6)),
            idle_cpu_ratio=None,
            involuntary_switches=0,
            turn_waits_ns=tuple(self.turn_waits),
            waiting_cpu_ns=0,
            waiting_ns=0,
        )
        lies = rewritten_on(self.task.plan, self.lab.faults.wrong_on) or (
            self.task.plan != Plan()
            and self.lab.draw("lie", self.model, plan).random() < self.lab.faults.lies
        )
        return msgspec.structs.replace(
            real,
            plan=plan,
            done=done,
            sensors=sensors,
            log=(),
            outputs_path=outputs_of(real, self.task, lies=lies),
            started_at="",
            elapsed_ns=elapsed_ns,
        )

    def _spend(self, ns: float) -> None:
        self.lab.now_s += 1e-9 * float(ns)
        self.spent_ns += float(ns)
        if self.spent_ns > 1e9 * (self.start_s + self.task.limits.run_s) and self.failed is None:
            self.failed, self.overdue = "timeout", True


def rewritten_on(plan: Plan, target: str) -> bool:
    """Whether a plan runs a rewritten model on a target; "" is none."""
    return bool(target and plan.rewrites) and targets.target_of(plan).name == target


def fault(lab: Lab, draw: np.random.Generator, plan: Plan, model: str) -> FailureReason | None:
    """What befalls a trial; the default never breaks for good."""
    if rewritten_on(plan, lab.faults.broken_on):
        return "load-error"
    if plan != Plan() and lab.draw("breaks", model, plan.id).random() < lab.faults.breaks:
        return "crash"
    drawn = draw.random()
    if drawn < lab.faults.crashes:
        return "crash"
    return "timeout" if drawn < lab.faults.crashes + lab.faults.hangs else None
