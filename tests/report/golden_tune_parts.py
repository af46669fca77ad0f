"""The parts that documents of ``tune`` are built from in the tests: a confirmation, blocks, plans of every fate."""

from __future__ import annotations

import math
import random

import msgspec

from ortune.records import BlockPoint, Candidate, Comparison, Guard, OutputDifference, Plan, RewriteSpec

ESTIMAND = "p50 latency (of each process)"
WINNER = Plan(settings={"intra_op_num_threads": 2, "allow_spinning": False})


def confirmed(ratio: float, low: float, high: float, **changes: object) -> Comparison:
    """A confirmation on 16 fresh blocks."""
    usual = Comparison(
        estimand=ESTIMAND,
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
            fate="default",
            ratio=1.0,
            ratio_low=1.0,
            ratio_high=1.0,
            n_blocks=24,
        ),
        Candidate(
            plan=WINNER,
            origin="combination",
            fate="winner",
            why="best estimate after eight blocks",
            ratio=0.885,
            ratio_low=0.85,
            ratio_high=0.92,
            n_blocks=24,
        ),
        Candidate(
            plan=plan(graph_optimization_level="extended"),
            origin="knob graph_optimization_level",
            fate="retired",
            why="not better by 1 % after 8 blocks",
            ratio=1.002,
            ratio_low=0.97,
            ratio_high=1.03,
            n_blocks=8,
        ),
        Candidate(
            plan=plan(execution_mode="parallel"),
            origin="knob execution_mode",
            fate="retired",
            why="screened out",
            ratio=1.31,
            ratio_low=0.0,
            ratio_high=None,
            n_blocks=2,
        ),
        Candidate(
            plan=plan(intra_op_num_threads=64),
            origin="knob intra_op_num_threads",
            fate="retired",
            why="screened out",
            ratio=4.7,
            ratio_low=4.1,
            ratio_high=5.2,
            n_blocks=2,
        ),
        Candidate(
            plan=plan(intra_op_num_threads=2, allow_spinning=False, allocator="mimalloc"),
            origin="combination",
            fate="pruned",
            why="allocator did not pay",
            ratio=0.89,
            ratio_low=0.86,
            ratio_high=0.93,
            n_blocks=16,
        ),
        Candidate(
            plan=plan(allocator="jemalloc"),
            origin="knob allocator",
            fate="failed",
            why="crash: killed by SIGSEGV while loading",
        ),
        Candidate(
            plan=plan(set_denormal_as_zero=True),
            origin="knob set_denormal_as_zero",
            fate="wrong-output",
            why="output y differs by 40 %",
            outputs=off,
        ),
        Candidate(
            plan=Plan(rewrites=(RewriteSpec(name="ort-optimized-model"),)),
            origin="rewrite ort-optimized-model",
            fate="not-tried",
            why="no time left in the budget",
        ),
    )
