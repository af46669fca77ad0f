"""The parts of documents of ``tune`` in the tests: a usual result, a confirmation, blocks, plans of every fate."""

from __future__ import annotations

import math
import random

import msgspec

import golden
from ortune.records import (
    BlockPoint,
    Candidate,
    Comparison,
    DifferenceRow,
    Finding,
    Guard,
    InputChoice,
    ModelInfo,
    OutputDifference,
    Plan,
    ProfileDifference,
    RewriteSpec,
    SettingWorth,
    Side,
    TradeRow,
    Workload,
)
from ortune.records import Case as ShapeCase
from ortune.verbs.tune.result import BudgetReport, TuneResult

STATISTIC = "p50 latency (of each process)"
WINNER = Plan(settings={"intra_op_num_threads": 2, "allow_spinning": False})
CODE = """import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 2
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = ort.InferenceSession("model.onnx", options)
"""


def confirmed(ratio: float, low: float, high: float, **changes: object) -> Comparison:
    """A confirmation on 16 fresh blocks."""
    usual = Comparison(
        statistic=STATISTIC,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        level=0.95,
        method="wilcoxon",
        n_blocks=16,
        p=3.1e-05,
        smallest_effect_ratio=0.015,
        phase="confirm",
        verdict="faster" if high < 1 else "slower" if low > 1 else "inconclusive",
        guards=(
            Guard(figure="p95", ratio=0.93, ratio_low=0.9, ratio_high=0.97, limit_ratio=1.05),
            Guard(figure="memory", ratio=1.0, ratio_low=0.99, ratio_high=1.01, limit_ratio=1.1),
        ),
    )
    return msgspec.structs.replace(usual, **changes)


def blocks(
    winner_ratio: float, *, confirm: int = 16, race: int = 24, today_ns: float = 0.0, base_ns: float = 11e6
) -> tuple[BlockPoint, ...]:
    """Calibration, race and confirmation with noise that both sides of a block share."""
    rng = random.Random(7)
    points = []
    for index in range(9 + race + confirm):
        phase = "calibration" if index < 9 else "race" if index < 9 + race else "confirm"
        base = base_ns * math.exp(rng.gauss(0, 0.03) + 0.05 * math.sin(index / 9))
        values = {"default": base}
        if phase == "calibration":
            values["identical"] = base * math.exp(rng.gauss(0, 0.01))
        else:
            values["winner" if phase == "confirm" else WINNER.id] = (
                base * winner_ratio * math.exp(rng.gauss(0, 0.012))
            )
        if today_ns and phase == "confirm":
            values["current"] = base / base_ns * today_ns * math.exp(rng.gauss(0, 0.012))
        dropped = "a trial in it failed" if index == 12 else ""
        points.append(BlockPoint(index=index, phase=phase, values=values, dropped=dropped))
    return tuple(points)


def candidates() -> tuple[Candidate, ...]:
    """One of every fate."""
    off = OutputDifference(ok=False, relative_l2=0.4, what="output y differs by 40 %")

    def plan(**settings: bool | int | str) -> Plan:
        return Plan(settings=settings)

    return (
        Candidate(
            plan=Plan(),
            origin="baseline",
            status="default",
            ratio=1.0,
            ratio_low=1.0,
            ratio_high=1.0,
            n_blocks=24,
        ),
        Candidate(
            plan=WINNER,
            origin="combination",
            status="winner",
            why="best estimate after eight blocks",
            ratio=0.885,
            ratio_low=0.85,
            ratio_high=0.92,
            n_blocks=24,
        ),
        Candidate(
            plan=plan(graph_optimization_level="extended"),
            origin="knob graph_optimization_level",
            status="eliminated",
            why="not better by 1 % after 8 blocks",
            ratio=1.002,
            ratio_low=0.97,
            ratio_high=1.03,
            n_blocks=8,
        ),
        Candidate(
            plan=plan(execution_mode="parallel"),
            origin="knob execution_mode",
            status="eliminated",
            why="screened out",
            ratio=1.31,
            ratio_low=0.0,
            ratio_high=None,
            n_blocks=2,
        ),
        Candidate(
            plan=plan(intra_op_num_threads=64),
            origin="knob intra_op_num_threads",
            status="eliminated",
            why="screened out",
            ratio=4.7,
            ratio_low=4.1,
            ratio_high=5.2,
            n_blocks=2,
        ),
        Candidate(
            plan=plan(intra_op_num_threads=2, allow_spinning=False, allocator="mimalloc"),
            origin="combination",
            status="pruned",
            why="allocator did not pay",
            ratio=0.89,
            ratio_low=0.86,
            ratio_high=0.93,
            n_blocks=16,
        ),
        Candidate(
            plan=plan(allocator="jemalloc"),
            origin="knob allocator",
            status="failed",
            why="crash: killed by SIGSEGV while loading",
        ),
        Candidate(
            plan=plan(set_denormal_as_zero=True),
            origin="knob set_denormal_as_zero",
            status="wrong-output",
            why="output y differs by 40 %",
            outputs=off,
        ),
        Candidate(
            plan=Plan(rewrites=(RewriteSpec(name="ort-optimized-model"),)),
            origin="rewrite ort-optimized-model",
            status="not-tried",
            why="no time left in the budget",
            reason="budget",
        ),
    )


def usual() -> TuneResult:
    """A winner of two settings against the default, with one of everything."""
    model = ModelInfo(
        path="/models/model.onnx",
        format="onnx",
        sha256="ab" * 32,
        size_bytes=90 * 2**20,
        opsets={"": 17, "com.microsoft": 1},
        n_nodes=412,
        n_parameters=22_713_216,
        producer="pytorch 2.4.0",
    )
    runtime = msgspec.structs.replace(golden.RUNTIME, providers=("CPUExecutionProvider",))
    new = golden.figures(9.9e6)
    return TuneResult(
        side=Side(label="model.onnx", model=model, plan=Plan(), runtime=runtime),
        objective="latency",
        statistic=STATISTIC,
        worth_ratio=0.01,
        winner=WINNER,
        default_figures=golden.figures(11e6),
        winner_figures=new,
        against_default=confirmed(0.9, 0.885, 0.917),
        outputs=OutputDifference(ok=True, relative_l2=3e-7),
        settings=(
            SettingWorth(
                name="intra_op_num_threads",
                value="2",
                without_ratio=1.072,
                without_low=1.05,
                without_high=1.09,
                kept=True,
                summary="threads per operator",
                read_back="effect",
                shown=True,
            ),
            SettingWorth(
                name="allow_spinning",
                value="0",
                without_ratio=1.031,
                without_low=1.01,
                without_high=1.05,
                kept=True,
                summary="idle pool threads spin before they sleep",
                read_back="echo",
                shown=True,
            ),
            SettingWorth(
                name="allocator",
                value="mimalloc",
                without_ratio=0.998,
                without_low=0.98,
                without_high=1.02,
                kept=False,
                why="leaving it out costs nothing",
                summary="which library hands out memory",
                read_back="effect",
            ),
        ),
        candidates=candidates(),
        trade=(
            TradeRow(
                title="fastest",
                plan=WINNER,
                latency_ns=9.9e6,
                cpu_per_run_ns=16e6,
                peak_bytes=2.7e8,
                confirmed=True,
            ),
            TradeRow(
                title="least CPU time",
                plan=Plan(settings={"intra_op_num_threads": 1}),
                latency_ns=14e6,
                cpu_per_run_ns=13.8e6,
                peak_bytes=2.6e8,
            ),
            TradeRow(
                title="least memory",
                plan=Plan(settings={"enable_cpu_mem_arena": False}),
                latency_ns=12.1e6,
                cpu_per_run_ns=18e6,
                peak_bytes=None,
                n_blocks=2,
            ),
        ),
        controls=golden.CONTROLS,
        findings=(
            Finding(
                code="THR001",
                what="threads exceed the cgroup quota",
                where=("host",),
                evidence="2 threads, quota 1.5",
                fix="--set intra=1, or raise the quota",
            ),
        ),
        notes=("the pod was throttled in 12 % of the periods",),
        not_tried=("int8", "OpenVINO"),
        budget=BudgetReport(
            budget_s=120,
            trial_s=0.7,
            promise="one trial 0.7 s (load 0.2); 2 min hold 170 trials: enough for 9 plans",
            calibration_s=20,
            race_s=55,
            confirm_s=40,
            n_trials=163,
            enough_s=360,
        ),
        points=blocks(0.9),
        code=CODE,
        reproduce="ortune compare model.onnx --b-set intra=2 --b-set spin=0\nortune tune model.onnx --seed 0",
        bundle="/out/model.ortune",
        report="/out/model.ortune/report.html",
        session="20260101-abcdef",
        elapsed_s=115.0,
        conditions="on an idle machine",
        why=gained(),
    )


def gained() -> ProfileDifference:
    """The winner waits less for threads and casts nothing; one row is within noise."""
    row = {"name": "/layer/MatMul", "op_type": "MatMul", "low_ns": -2.2e6, "high_ns": -1.6e6}
    rows = (
        DifferenceRow(**row, a_ns=4e6, b_ns=2.1e6, difference_ns=-1.9e6),
        DifferenceRow(name="/layer/Add", a_ns=1e6, b_ns=1.1e6, difference_ns=1e5, low_ns=-3e5, high_ns=5e5),
    )
    return ProfileDifference(
        a="model.onnx (default)",
        b="model.onnx (intra_op_num_threads=2)",
        a_wall_ns=12e6,
        b_wall_ns=10e6,
        low_ns=-2.4e6,
        high_ns=-1.6e6,
        a_processes=3,
        b_processes=3,
        categories=(
            DifferenceRow(
                name="thread-wait", a_ns=3e6, b_ns=1.1e6, difference_ns=-1.9e6, low_ns=-2.2e6, high_ns=-1.6e6
            ),
            DifferenceRow(name="kernels", a_ns=9e6, b_ns=8.9e6, difference_ns=-1e5, low_ns=-3e5, high_ns=1e5),
        ),
        operators=rows,
        nodes=rows,
    )


def workload(names: tuple[str, ...] = ("seq=128",)) -> Workload:
    """Two inputs a shape, one of them a guess."""
    inputs = (
        InputChoice(
            name="input_ids",
            dtype="int64",
            shape=(1, 128),
            role="token-ids",
            origin="name",
            low=0,
            high=30521,
        ),
        InputChoice(
            name="pixels",
            dtype="float",
            shape=(1, 3, 224, 224),
            role="image",
            origin="trial",
            guessed=True,
            guessed_axes=(2, 3),
            note="the model takes any size",
        ),
    )
    cases = tuple(ShapeCase(name=name, weight=1 / len(names), inputs=inputs) for name in names)
    return Workload(cases=cases, notes=("values are random",), gap_ns=30_000_000)
