"""Blocks whose runs waited for other programs by known shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.records import Block, BlockTrial, CaseTimes, Measured, Sensors, TrialDone
from ortune.search.blocks import BASE, NEW

WAITED = (0.5, 0.6, 0.4, 0.7, 0.5, 0.6, 0.0, 0.5)
ROUNDS, RUNS = 8, 4
TURN_NS = 1_000_000 * RUNS


def trial(
    arm: str,
    ratio: float,
    shares: Sequence[float],
    *,
    used_cpus: float | None,
    known: bool = True,
    cpu: float | None = None,
) -> BlockTrial:
    """A trial whose runs take a millisecond, times a ratio and what they waited in each round."""
    turns = [ratio * (1 + share) for share in shares]
    latencies = tuple(int(1e6 * turn) for turn in turns for _ in range(RUNS))
    case = CaseTimes(case="x", weight=1.0, latency_ns=latencies, first_ns=1, turn_runs=(RUNS,) * len(shares))
    done = TrialDone(
        load_ns=1,
        cases=(case,),
        cpu_ns=sum(latencies) if cpu is None else int(1e6 * cpu * len(latencies)),
        wall_ns=sum(latencies),
        n_runs=len(latencies),
        turn_waits_ns=tuple(int(ratio * share * TURN_NS) for share in shares) if known else (),
    )
    elapsed_ns = 10**9
    used = None if used_cpus is None else int(1e-3 * used_cpus * elapsed_ns)
    sensors = Sensors(others_cpu_us=used, psi_cpu_some_us=used, elapsed_ns=elapsed_ns)
    return BlockTrial(arm=arm, outcome=Measured(plan=arm, done=done, sensors=sensors))


def blocks(
    ratio: float,
    base_waits: Sequence[float],
    new_waits: Sequence[float] = (0.0,) * ROUNDS,
    used_cpus: float | None = 1.0,
    *,
    known: bool = True,
    noise_log: float = 0.01,
    new_cpu: float | None = None,
) -> list[Block]:
    """Blocks of two sides; with ``new_cpu``, the CPU time of the new side is that of the base times this ratio."""
    draw = np.random.default_rng(3)
    made = []
    for index in range(12):
        noise = np.exp(noise_log * draw.standard_normal(2))
        pair = (
            trial(BASE, noise[0], base_waits, used_cpus=used_cpus, known=known, cpu=new_cpu and noise[0]),
            trial(
                NEW,
                ratio * noise[1],
                new_waits,
                used_cpus=used_cpus,
                known=known,
                cpu=new_cpu and new_cpu * noise[1],
            ),
        )
        made.append(Block(index=index, phase="confirm", trials=pair))
    return made
