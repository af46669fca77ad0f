"""A machine under one seed: real models, real outputs, real ONNX Runtime once; time, noise and faults are drawn.

What a plan answers (outputs, read-back, placement) comes from one real trial of each model, plan and inputs, kept for
all sessions of a process. What it takes, and what goes wrong, follows from the seed and the simulated clock alone, so
that a session is the same whenever and wherever it is run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from onnx_text import model_of, saved
from ortune import monotonic, platform
from ortune.measuring import opening
from ortune.records import Finding, Host, Outcome, PodSize
from ortune.rules import Facts, Rule
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.machine import Machine
from ortune.targets.runner import run as run_for_real
from ortune.targets.task import TrialTask
from ortune.targets.tool import ToolProcess
from ortune.targets.turns import ALONE, Turns
from simulated_answers import KEPT, model_name
from simulated_trial import Trial

MEMORY_LEFT_BYTES = 8 << 30

HOST = Host(
    system="Linux", machine="x86_64", cpu="simulated", cores=4, logical=4, affinity=4, effective_cpus=4,
    memory_bytes=16 << 30, features=("avx2", "fma"), fingerprint="simulated",
)  # fmt: skip


class Killed(BaseException):
    """The process of ortune itself is gone, between two instructions."""


@dataclass(frozen=True, kw_only=True)
class Weather:
    """What the machine does by itself.

    Attributes:
        process: Standard deviation, log units, by which two processes of one plan differ.
        run: The same for the runs of one process.
        neighbour: Times as long as a run takes while a neighbour is there; 1.0 for none.
        stays_s, away_s: Mean lengths of its visits, and of the time between.
        jumps: Chance of a group in which the clock jumps by half a minute.
        crowd: Times as long as starts and runs take once others came to stay.
        crowd_at: The number of the group from which on they are there.
        check_s: Seconds that each rule takes.
        loops: Programs of others that keep a CPU busy each, all the time. What has more threads than CPUs are left
            waits for one in most turns, and in the others its threads come first, since they slept before.
        meets: The share of those turns in which it waits.
        until_s: When these programs end, on the clock; None for never.
    """

    process: float = 0.008
    run: float = 0.02
    neighbour: float = 1.0
    stays_s: float = 3.0
    away_s: float = 6.0
    jumps: float = 0.0
    crowd: float = 1.0
    crowd_at: int = 0
    check_s: float = 0.0
    loops: int = 0
    meets: float = 0.75
    until_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Chances of what may befall one trial, and when ortune itself is killed.

    Attributes:
        crashes, hangs, late: Of a trial: it ends by a signal; it never answers; it takes ten times as long.
        lies: Of a plan: its outputs are others.
        breaks: Of a plan: it never runs.
        wrong_on, broken_on: Targets on which rewritten models give other outputs, or never run.
        killed_at: The number of the group before which ortune is killed; None: never.
        disk_full_at: The number of the group from which on outputs cannot be written; None: never.
    """

    crashes: float = 0.0
    hangs: float = 0.0
    late: float = 0.0
    lies: float = 0.0
    breaks: float = 0.0
    wrong_on: str = ""
    broken_on: str = ""
    killed_at: int | None = None
    disk_full_at: int | None = None


@dataclass
class Lab:
    """Everything that a session cannot tell from a real machine.

    Attributes:
        seed: Of all that is drawn.
        differ: Whether plans differ in what they take.
        slower_model: Digest of a model's file that takes a tenth longer than others.
        threads_log: By how much plans with fewer threads than CPUs differ from the default on a machine of their own,
            log units.
        faster_rewrite: Name of a rewrite whose models are faster than others.
        faster_log: By how much, log units: a third less by default.
        faster_target: Target on which plans take half as long as elsewhere.
        memory: Times as much peak memory as the default's, for plans that have a setting or a rewrite.
        allocators: Whether plans may have the allocators of this machine.
        profiles: Whether there is a profiler: its runs are real, in no time.
        now_s: The clock.
        groups: The arms' plans of each group that ran, with when it began and ended.
        trials: How many there were of each plan: what the next one draws follows from that, not from what else ran.
        running: Whether a group is running.
    """

    seed: int
    weather: Weather = field(default_factory=Weather)
    faults: Faults = field(default_factory=Faults)
    differ: bool = True
    slower_model: str = ""
    faster_rewrite: str = ""
    faster_log: float = 0.4
    faster_target: str = ""
    threads_log: float = 0.0
    memory: Mapping[str, float] = field(default_factory=dict)
    allocators: bool = False
    profiles: bool = False
    now_s: float = 1000.0
    groups: list[tuple[float, float, tuple[str, ...]]] = field(default_factory=list)
    trials: Counter[str] = field(default_factory=Counter)
    running: bool = False
    waited_s: float = 0.0

    @property
    def n_trials(self) -> int:
        """How many trials ran in all."""
        return sum(len(plans) for _, _, plans in self.groups)

    def clock(self) -> float:
        """Seconds."""
        return self.now_s

    def machine(self, pod: PodSize | None = None, browser: BrowserSetup | None = None) -> Machine:
        """What stands in the place of ``Machine``."""
        return _Simulated(self, browser)

    def draw(self, *about: object) -> np.random.Generator:
        """Numbers that depend on the seed and on what they are drawn for."""
        digest = hashlib.sha256(repr((self.seed, *about)).encode()).digest()
        return np.random.default_rng(np.frombuffer(digest[:16], dtype=np.uint32))

    @property
    def loops(self) -> int:
        """Programs of others that are there now."""
        weather = self.weather
        return weather.loops if weather.until_s is None or self.now_s < weather.until_s else 0

    @property
    def crowd(self) -> float:
        """Times as long as the next group takes."""
        return self.weather.crowd if len(self.groups) >= self.weather.crowd_at else 1.0

    def neighbour(self, at_s: float) -> float:
        """Times as long as a run takes then."""
        weather = self.weather
        if weather.neighbour == 1.0:
            return 1.0
        # Which stretch of the telegraph the moment is in follows from the seed alone, not from who asked before.
        period = weather.stays_s + weather.away_s
        number = int(at_s // period)
        begins = self.draw("neighbour", number).random() * weather.away_s
        inside = begins <= at_s - number * period < begins + weather.stays_s
        return weather.neighbour if inside else 1.0


class _Simulated(Machine):
    """The machine that a lab stands for."""

    def __init__(self, lab: Lab, browser: BrowserSetup | None) -> None:
        super().__init__(None, browser)
        self.lab, self.host, self.trials = lab, HOST, self._run
        self.__dict__["topology"] = platform.Topology()
        self.__dict__["cache_bytes"] = 16 << 20
        if not lab.allocators:
            self.__dict__["allocators"] = {}

    def sensors(self) -> platform.SensorSnapshot:
        lab = self.lab
        return platform.SensorSnapshot(
            load1=float(lab.weather.loops),
            busy_us=int(1e6 * lab.weather.loops * min(lab.now_s, lab.weather.until_s or lab.now_s)),
            own_us=0,
            psi_cpu_some_us=int(1e6 * lab.waited_s) if lab.weather.loops else None,
            at_ns=int(1e9 * lab.now_s),
        )

    def pause(self, seconds: float) -> None:
        self.lab.now_s += seconds

    def memory_left_bytes(self) -> int | None:
        return MEMORY_LEFT_BYTES

    def _run(
        self,
        tasks: Sequence[TrialTask],
        turns: Turns = ALONE,
        rng: random.Random | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> tuple[Outcome, ...] | None:
        lab = self.lab
        assert not lab.running, "two groups at once"
        if lab.profiles and any(task.request.profile_path for task in tasks):
            return run_for_real(tasks, Machine(), turns, rng, stop)
        if lab.faults.killed_at == len(lab.groups):
            raise Killed
        lab.running = True
        number, began_s = len(lab.groups), lab.now_s
        try:
            trials = [Trial(lab, task, timed=turns.rounds > 0) for task in tasks]
            lab.now_s += max(trial.start_s for trial in trials)
            before = self.sensors() if lab.weather.loops else None
            for trial in trials:
                if stop():
                    return None
                trial.warm()
            for _ in range(turns.rounds):
                live = [trial for trial in trials if not trial.failed]
                (rng or random.Random()).shuffle(live)
                for trial in live:
                    if stop():
                        return None
                    trial.batch(turns.runs, turns.unmeasured)
            if lab.weather.jumps and lab.draw("jump", number).random() < lab.weather.jumps:
                lab.now_s += 30.0
            sensors = platform.between(before or self.sensors(), self.sensors())
            outcomes = tuple(trial.outcome(sensors) for trial in trials)
        finally:
            lab.running = False
        lab.groups.append((began_s, lab.now_s, tuple(task.plan.id for task in tasks)))
        return outcomes


TOOL_S = 0.4
"""What a process that rewrites a model or saves a graph takes."""
_tools: dict[tuple[str, ...], tuple[Path, str]] = {}
_use_tool = ToolProcess.__call__
_check = Rule.findings


@contextlib.contextmanager
def tools_of(lab: Lab) -> Iterator[None]:
    """Within, the package reads the lab's clock, by which tool processes take their time.

    What each of them gives is made once for real, by what it reads.
    """

    def use(tool: ToolProcess, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
        lab.now_s += TOOL_S
        models = [model_name(path) for path in json.loads(params.get("models", "[]"))]
        others = [f"{name}={value}" for name, value in params.items() if name != "models"]
        key = (
            task,
            model_name(str(source)) if source.is_file() else source.name,
            tool.plan.id,
            target.name if not models else "",
            *models,
            *others,
        )
        if key not in _tools:
            folder = KEPT / f"tool-{len(_tools)}"
            many = bool(models) or target.is_dir()
            made = folder / ("graphs" if many else target.name)
            (made if many else folder).mkdir(parents=True, exist_ok=True)  # one that failed is tried again
            _tools[key] = made, _use_tool(tool, task, source, made, params)
        made, what = _tools[key]
        if made.is_dir():
            shutil.copytree(made, target, dirs_exist_ok=True)
        else:
            shutil.copytree(made.parent, target.parent, dirs_exist_ok=True)
        return what

    def check(rule: Rule, facts: Facts) -> list[Finding]:
        lab.now_s += lab.weather.check_s
        return _check(rule, facts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "findings", check)
        patch.setattr(monotonic, "now_s", lab.clock)
        patch.setattr(monotonic, "now_ns", lambda: int(1e9 * lab.clock()))
        patch.setattr(ToolProcess, "__call__", use)
        yield


@contextlib.contextmanager
def measuring_on(lab: Lab) -> Iterator[None]:
    """Within, the command line and the functions of ``import ortune`` measure on a lab's machine, by its clock."""
    with tools_of(lab), pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "Machine", lab.machine)
        yield


def net(folder: Path, batch: str = "1") -> Path:
    """A small model with something for several rewrites: a scale to fold, a Gelu in parts, idle nodes."""
    draw = np.random.default_rng(7)

    def values(*shape: int, positive: bool = False) -> np.ndarray:
        drawn = draw.standard_normal(shape).astype(np.float32) * 0.2
        return np.abs(drawn) + 0.5 if positive else drawn

    weights = {
        "w1": values(8, 3, 3, 3), "scale": values(8, positive=True), "shift": values(8), "mean": values(8),
        "var": values(8, positive=True), "w2": values(8, 8, 3, 3), "dense": values(8, 16), "bias": values(16),
        "root": np.array(1.4142135, np.float32), "one": np.array(1.0, np.float32),
        "half": np.array(0.5, np.float32), "gain": np.array(0.25, np.float32),
    }  # fmt: skip
    text = """net (float[1, 3, 12, 12] x) => (float[1, 16] y) {
        s1 = Mul (x, gain)
        c1 = Conv <pads = [1, 1, 1, 1]> (s1, w1)
        n1 = BatchNormalization (c1, scale, shift, mean, var)
        r1 = Relu (n1)
        i1 = Identity (r1)
        c2 = Conv <pads = [1, 1, 1, 1]> (i1, w2)
        s2 = Add (c2, r1)
        g2 = GlobalAveragePool (s2)
        f2 = Flatten (g2)
        m3 = MatMul (f2, dense)
        b3 = Add (m3, bias)
        d3 = Div (b3, root)
        e3 = Erf (d3)
        a3 = Add (e3, one)
        p3 = Mul (b3, a3)
        h3 = Mul (p3, half)
        y = Softmax <axis = -1> (h3)
    }""".replace("float[1, ", f"float[{batch}, ")
    return saved(folder / "net.onnx", model_of(text, weights=weights, ir_version=9))
