"""How much does ``tune`` leave on the table? Run by hand; about four minutes a model.

    python benchmarks/search_quality.py [minilm-int8 silero-vad ...]

An oracle measures a whole grid of plans, four blocks each, and leaves out those that break a guard (mean, p95, memory,
CPU time), as ``tune`` does. Its best three, the winner of ``tune`` and the default are then measured again together
on fresh blocks: regret is the winner's time over that of the best of them, block by block.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import ortune
from common import model_path, weights_as_inputs
from ortune import platform, rewrites
from ortune.measuring.driver import run_block
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import SideText, resolve
from ortune.records import Block, Plan, RewriteSpec, Value
from ortune.search.blocks import BASE, log_ratios
from ortune.search.guards import guards
from ortune.search.schedule import NextBlock
from ortune.search.trial_counts import FIELD
from ortune.stats import pairs
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.tool import ToolProcess

PLANTED = "+weights-as-inputs"
MODELS = (
    "minilm-int8", f"ppocrv4-rec{PLANTED}", f"magika{PLANTED}", "silero-vad", f"ppocrv2-cls{PLANTED}",
    f"oww-embedding{PLANTED}",
)  # fmt: skip
BLOCKS, FINAL_BLOCKS = 4, 16
TRIALS = 80  # ``tune`` has the time of as many, one after another: half of what it had at first
AXES: dict[str, list[Value | None]] = {
    "graph_optimization_level": [None, "basic", "extended"],
    "intra_op_num_threads": [None, 1],
    "allow_spinning": [None, False],
    "enable_cpu_mem_arena": [None, False],
    "allocator": [None, "mimalloc", "jemalloc"],
}


def grid(free: list[RewriteSpec]) -> list[Plan]:
    """72 plans: every combination of the settings that matter most on a CPU; the free rewrites, where the model
    has any, take the place of spinning."""
    axes = {k: v for k, v in AXES.items() if not (free and k == "allow_spinning")}
    plans = []
    for values in itertools.product(*axes.values(), ((), tuple(free)) if free else ((),)):
        settings = {k: v for k, v in zip(axes, values[:-1], strict=True) if v is not None}
        plans.append(Plan(settings=settings, rewrites=values[-1]))
    return [p for p in plans if p != Plan()]


class Bench:
    """One model: its grid, its tuning, and the final."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path = model_path(name.removesuffix(PLANTED))
        if name.endswith(PLANTED):
            self.path = weights_as_inputs(self.path, folder)
        side = resolve(SideText(text=str(self.path)), common=Plan(), scratch=folder)
        self.baseline = Measuring(
            side, InputOptions(), folder, SessionLog(None, ""), lambda text: None, Machine()
        )
        self.baseline.find_inputs(120)
        run_pilot(self.baseline, "latency")
        self.folder, self.side, self.rng = folder, side, random.Random(7)
        self.free = [spec for spec, _ in rewrites.proposals(side.model.ir, objective="latency")]
        self.baseline.executor.arms = {BASE: self.baseline.arm(BASE)}

    def add(self, plan: Plan) -> str:
        """Makes an arm of a plan."""
        model = None
        if plan.rewrites:
            tool = ToolProcess(runtime=self.side.runtime, folder=self.folder)
            model = rewrites.apply_all(self.side.model, plan.rewrites, self.folder / "rewritten", tool)
        self.baseline.executor.arms[plan.id] = self.baseline.arm(plan.id, plan=plan, model=model)
        return plan.id

    def measure(self, arms: list[str], blocks: int) -> list[Block]:
        """Blocks of the default and up to five arms, until each arm has been in that many."""
        found: list[Block] = []
        groups = -(-len(arms) // FIELD)
        for _ in range(blocks):
            order = arms[:]
            self.rng.shuffle(order)
            for i in range(groups):
                arms = (BASE, *order[i::groups])
                wanted = NextBlock(arms=arms, index=len(found), phase="race", needed=(BASE,))
                block = run_block(self.baseline.executor, wanted, self.rng)
                assert block is not None
                found.append(block)
        return found

    def row(self, name: str) -> str:
        """Grid, tuning, final; one Markdown row."""
        by_arm = {self.add(p): p for p in grid(self.free)}
        began = time.monotonic()
        blocks = self.measure(list(by_arm), BLOCKS)
        grid_trials, grid_s = sum(len(b.trials) for b in blocks), time.monotonic() - began
        holding = [arm for arm in by_arm if not any(g.failed for g in guards(blocks, "latency", arm=arm))]
        best = sorted(holding, key=lambda arm: middle(blocks, arm))[:3]
        budget = TRIALS * min(grid_s / grid_trials, self.baseline.pilot.trial_ns / 1e9)
        result = ortune.tune(self.path, budget=budget, bundle=False, store=self.folder / "store").result
        print(f"{name}: {result.headline}", file=sys.stderr, flush=True)
        race = sum(len(p.values) for p in result.points if p.phase in ("race", "prune"))
        winner = BASE if result.winner == Plan() else self.add(result.winner)
        arms = [*{*best, winner} - {BASE}]
        final = self.measure(arms, FINAL_BLOCKS)
        oracle = min([BASE, *arms], key=lambda arm: middle(final, arm))
        plans = {BASE: Plan(), **by_arm, winner: result.winner}
        return (
            f"| {name} | {math.exp(middle(final, oracle)):.3f} {plans[oracle].describe()} "
            f"| {math.exp(middle(final, winner)):.3f} {plans[winner].describe()} "
            f"| {regret(final, winner, oracle)} | {regret(final, BASE, oracle)} "
            f"| {race} / {grid_trials} | {result.elapsed_s:.0f} / {grid_s:.0f} |"
        )


def middle(blocks: list[Block], arm: str, base: str = BASE) -> float:
    """Median over blocks of log(arm / base)."""
    return 0.0 if arm == base else float(np.median(log_ratios(blocks, arm, "paired", base=base)))


def regret(blocks: list[Block], arm: str, oracle: str) -> str:
    """How much slower an arm is than the best one, with its interval, in percent."""
    if arm == oracle:
        return "0.0 %"
    found = pairs.wilcoxon_interval(log_ratios(blocks, arm, "paired", base=oracle))
    low, high = (100 * (x - 1) for x in (found.ratio_low, found.ratio_high))
    return f"{100 * (found.ratio - 1):.1f} % ({low:.1f} to {high:.1f})"


def main() -> None:
    """Prints the table, a row a model as it ends."""
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.host().cpu}, {platform.host().effective_cpus} CPUs\n")
    print(
        "| model | best of the final | tune | regret | regret of the default | race trials / grid | s tune / grid |"
    )
    print("|---|---|---|---:|---:|---:|---:|", flush=True)
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            print(Bench(name, Path(folder)).row(name), flush=True)


if __name__ == "__main__":
    main()
