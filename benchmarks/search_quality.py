"""How much does ``tune`` leave on the table? Run by hand; about six minutes a model.

    python benchmarks/search_quality.py [minilm-int8 silero-vad ...]

An oracle measures a whole grid of plans, six blocks each. Its best three, the winner of ``tune`` and the default
are then measured again together on fresh blocks: regret is the winner's time over the best of them.
"""

from __future__ import annotations

import itertools
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
from ortune.flows.ground import Ground, InputOptions
from ortune.flows.sides import SideText, resolve
from ortune.records import Plan, RewriteSpec, Value
from ortune.search.blocks import BASE, log_ratios, run_block
from ortune.search.budget import FIELD
from ortune.store.db import SessionLog
from ortune.trials.tool import ToolProcess

PLANTED = "+weights-as-inputs"
MODELS = (
    "minilm-int8", "silero-vad", f"ppocrv2-cls{PLANTED}", f"ppocrv4-rec{PLANTED}", "light-shufflenet", "magika",
)  # fmt: skip
BLOCKS, FINAL_BLOCKS = 6, 12
SHARE = 5  # the race may take a fifth of the grid's trials
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
        side = resolve(SideText(text=str(self.path)), common=Plan(), base_model=None, scratch=folder)
        self.ground = Ground(side, InputOptions(), folder, SessionLog(None, ""), lambda text: None)
        self.ground.settle(120)
        self.ground.pilot("latency")
        self.folder, self.side, self.rng = folder, side, random.Random(7)
        self.free = [spec for spec, _ in rewrites.proposals(side.model.ir, objective="latency")]
        self.ground.executor.arms = {BASE: self.ground.arm(BASE)}
        self.trials = 0

    def add(self, plan: Plan) -> str:
        """Makes an arm of a plan."""
        model = None
        if plan.rewrites:
            tool = ToolProcess(runtime=self.side.runtime, folder=self.folder)
            model = rewrites.apply_all(self.side.model, plan.rewrites, self.folder / "rewritten", tool)
        self.ground.executor.arms[plan.id] = self.ground.arm(plan.id, plan=plan, model=model)
        return plan.id

    def measure(self, arms: list[str], blocks: int) -> dict[str, float]:
        """Median time of each arm over the default's, each in that many blocks."""
        found: dict[str, list[float]] = {arm: [] for arm in arms}
        for _ in range(blocks):
            order = arms[:]
            self.rng.shuffle(order)
            for i in range(-(-len(order) // FIELD)):
                block = run_block(
                    self.ground.executor,
                    [BASE, *order[i :: -(-len(order) // FIELD)]],
                    self.rng,
                    0,
                    "race",
                    whole=False,
                )
                assert block is not None
                self.trials += len(block.trials)
                for arm in arms:
                    found[arm] += list(log_ratios([block], arm, "median"))
        return {arm: float(np.exp(np.median(d))) for arm, d in found.items() if d}

    def row(self, name: str) -> str:
        """Grid, tuning, final; one Markdown row."""
        plans = grid(self.free)
        by_arm = {self.add(p): p for p in plans}
        began = time.monotonic()
        seen = self.measure(list(by_arm), BLOCKS)
        grid_trials, grid_s = self.trials, time.monotonic() - began
        best = sorted(seen, key=lambda arm: seen[arm])[:3]
        # Calibration, a race of a fifth of the grid's trials, and the share that is kept for confirmation.
        trials = (9 * 3 + grid_trials / SHARE) / 0.7
        budget = 1.1 * trials * grid_s / grid_trials
        result = ortune.tune(self.path, budget=budget, bundle=False, store=self.folder / "store").result
        winner = result.winner
        race = sum(len(p.values) for p in result.points if p.phase in ("race", "prune"))
        arms = [*best] if winner == Plan() else [*{*best, self.add(winner)}]
        final = self.measure(arms, FINAL_BLOCKS) | {BASE: 1.0}
        mine = 1.0 if winner == Plan() else final[winner.id]
        oracle_arm = min(final, key=lambda arm: final[arm])
        oracle = by_arm.get(oracle_arm, winner if oracle_arm == winner.id else Plan())
        return (
            f"| {name} | {final[oracle_arm]:.3f} {oracle.describe()} | {mine:.3f} {winner.describe()} "
            f"| {100 * (mine / final[oracle_arm] - 1):.1f} % | {100 * (1 / final[oracle_arm] - 1):.1f} % "
            f"| {race} / {grid_trials} | {result.elapsed_s:.0f} / {grid_s:.0f} |"
        )


def main() -> None:
    """Prints the table, a row a model as it ends."""
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.host().cpu}, {platform.host().effective_cpus} CPUs\n")
    print("| model | oracle | tune | regret | regret of the default | race trials / grid | s tune / grid |")
    print("|---|---|---|---:|---:|---:|---:|", flush=True)
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            print(Bench(name, Path(folder)).row(name), flush=True)


if __name__ == "__main__":
    main()
