"""Does taking turns change what is measured? Settings of every channel, beside others and alone, in one run.

    python benchmarks/turns_against_alone.py [--turns 10] [--alone 16] [--models ...]

Processes that take turns meet caches that others have used, clocks that others have set, and an allocator whose
memory has lain still. If that mattered, the effect of a setting measured so would differ from its effect where no
other process lives. Each row holds both, with 95 % intervals (Wilcoxon's, over blocks), and the shift between them.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from common import model_path
from ortune.catalogue import knobs
from ortune.measuring.driver import run_block
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import SideText, resolve
from ortune.records import Block, Failed, Plan
from ortune.search.blocks import BASE, log_ratios
from ortune.search.schedule import NextBlock
from ortune.stats import pairs
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine

MODELS = "silero-vad,oww-embedding,light-squeezenet,ppocrv4-rec,minilm-int8,ppocrv4-det"
SETTINGS = ("intra=1", "spin=0", "level=basic", "arena=0", "allocator=mimalloc", "malloc_huge_pages=thp")
LEVEL = 0.95


def effects(model: str, turns: int, alone: int, folder: Path) -> list[dict[str, object]]:
    """One row a setting."""
    side = resolve(SideText(text=str(model_path(model))), common=Plan(), scratch=folder)
    baseline = Measuring(side, InputOptions(), folder, SessionLog(None, ""), print, Machine())
    baseline.find_inputs(120)
    run_pilot(baseline, "latency")
    plans = {text: Plan(settings=knobs.parse_settings([text])) for text in SETTINGS}
    execute = baseline.executor
    execute.arms = {BASE: baseline.arm(BASE)} | {t: baseline.arm(t, plan=p) for t, p in plans.items()}
    for text in SETTINGS:
        if isinstance(outcome := execute.trial(execute.arms[text], runs=0), Failed):
            print(f"{model} {text}: {outcome.what}")
            del plans[text]
    rng = random.Random(model)
    beside: list[Block] = []
    by_itself: list[Block] = []
    for index in range(max(turns, alone)):
        for blocks, wanted, how in ((beside, turns, False), (by_itself, alone, True)):
            if len(blocks) < wanted:
                arms = (BASE, *plans)
                wanted_block = NextBlock(arms=arms, index=index, phase="race", needed=(BASE,), alone=how)
                block = run_block(execute, wanted_block, rng)
                assert block is not None
                blocks.append(block)
    rows: list[dict[str, object]] = []
    for text in plans:
        a, b = (log_ratios(blocks, text, "median") for blocks in (beside, by_itself))
        p = log_ratios(beside, text, "paired")
        rows.append({"model": model, "setting": text, "paired": list(p), "turns": list(a), "alone": list(b)})
    return rows


def cell(d: np.ndarray) -> str:
    """An effect with its interval."""
    found = pairs.wilcoxon_interval(d, LEVEL)
    middle, low, high = (100 * np.expm1(x) for x in (found.centre, found.low, found.high))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def main() -> None:
    """Prints Markdown; every row is also appended to a file as it ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--alone", type=int, default=16)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--rows", type=Path, default=Path("turns_against_alone.jsonl"))
    asked = parser.parse_args()
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {asked.turns} blocks of turns, {asked.alone} alone\n",
        "| model | setting | taking turns | alone | intervals |",
        "|---|---|---:|---:|---|",
    ]
    for name in asked.models.split(","):
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            rows = effects(name, asked.turns, asked.alone, Path(folder))
        for row in rows:
            a, b = np.asarray(row["paired"]), np.asarray(row["alone"])
            ours, theirs = pairs.wilcoxon_interval(a, LEVEL), pairs.wilcoxon_interval(b, LEVEL)
            overlap = ours.low <= theirs.high and theirs.low <= ours.high
            verdict = "overlap" if overlap else "apart"
            lines.append(f"| {name} | {row['setting']} | {cell(a)} | {cell(b)} | {verdict} |")
            print(lines[-1], flush=True)
            with asked.rows.open("a") as f:
                f.write(json.dumps(row) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
