"""Is a page that begins with compiled code as fast, once warm, as one that does not? Real Chromium, on a quiet machine.

    python benchmarks/kept_code.py [--seconds 100] [--rows FILE] [oww-embedding ...]

Later trials of a build begin with what V8 compiled in earlier ones, so the two sides of a block may differ in that
alone. Each block here is one plan twice, alive together and taking turns: with such code, and without any. Blocks are
added to the file with every call; the table is of all that it holds.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from common import model_path
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import ResolvedSide, SideText, resolve
from ortune.records import FeedRef, Measured, Plan, ProviderSpec, TrialRequest
from ortune.stats import pairs
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import TrialTask
from ortune.targets.turns import Turns

PLAN = Plan(providers=(ProviderSpec(name="wasm"),))
TURN_NS, ROUNDS, UNMEASURED = 20e6, 12, 2
LEVEL = 0.95
SHAPES = {"ppocrv2-cls": {"x": (1, 3, 48, 192)}}


def pair(
    side: ResolvedSide, refs: tuple[FeedRef, ...], kept: Path, runs: int, rng: random.Random
) -> list[Measured]:
    """One block: the page that begins with what lies in a folder, and the one whose folder is new."""
    with tempfile.TemporaryDirectory(prefix="ortune-bench-") as fresh:
        tasks = []
        for name, scratch in (("kept", kept), ("plain", Path(fresh))):
            folder = Path(fresh) / name
            folder.mkdir()
            request = TrialRequest(model=str(side.runs), feeds=refs, warmup_runs=3, warmup_ns=30_000_000)
            task = TrialTask(
                plan=PLAN, runtime=side.runtime_of(PLAN), request=request, folder=folder, scratch=scratch
            )
            tasks.append(task)
        turned = rng.random() < 0.5  # neither always loads first
        turns = Turns(runs=runs, unmeasured=UNMEASURED, rounds=ROUNDS)
        found = run(tasks[::-1] if turned else tasks, Machine(), turns, rng)
        assert found is not None
        done = [each for each in found if isinstance(each, Measured)]
        assert len(done) == len(tasks), found
        return done[::-1] if turned else done


def blocks(model: str, seconds: float) -> list[dict[str, object]]:
    """As many blocks as end in time, a row each."""
    end, rng, rows = time.monotonic() + seconds, random.Random(), list[dict[str, object]]()
    with tempfile.TemporaryDirectory(prefix="ortune-bench-") as scratch:
        folder = Path(scratch)
        side = resolve(SideText(text=str(model_path(model))), common=PLAN, scratch=folder)
        baseline = Measuring(
            side, InputOptions(shapes=SHAPES.get(model, {})), folder, SessionLog(None, ""), print, Machine()
        )
        baseline.find_inputs(60)
        kept = folder / "kept"
        kept.mkdir()
        runs, took = 20, 0.0
        while time.monotonic() + took < end:
            began = time.monotonic()
            warm, cold = pair(side, baseline.refs, kept, runs, rng)
            took = time.monotonic() - began
            medians = [float(np.median(each.done.cases[0].latency_ns)) for each in (warm, cold)]
            runs = max(8, round(TURN_NS / medians[1]))
            seen = [each.done.page.compiled for each in (warm, cold) if each.done.page]
            if seen == [True, False]:  # the first block of all has nothing to begin with
                date = f"{datetime.now(UTC):%Y-%m-%d}"
                rows.append({"date": date, "model": model, "kept_ns": medians[0], "plain_ns": medians[1]})
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """A line a model."""
    lines = ["| model | blocks | a run, with | without | with over without |", "|---|---|---|---|---|"]
    for model in dict.fromkeys(str(row["model"]) for row in rows):
        mine = [row for row in rows if row["model"] == model]
        kept, plain = (np.array([row[name] for row in mine], dtype=float) for name in ("kept_ns", "plain_ns"))
        found = pairs.wilcoxon_interval(np.log(kept / plain), LEVEL)
        times = " | ".join(f"{np.median(each) / 1e6:.3g} ms" for each in (kept, plain))
        # Of five blocks or fewer it is the widest, at the level that this reaches.
        interval = f"{found.ratio:.3f} [{found.ratio_low:.3f}, {found.ratio_high:.3f}], {found.level:.1%}"
        lines.append(f"| {model} | {len(mine)} | {times} | {interval} |")
    return "\n".join(lines)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["oww-embedding", "ppocrv2-cls"])
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "rows" / "kept_code.jsonl")
    given = parser.parse_args()
    for model in given.models:
        with given.rows.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in blocks(model, given.seconds))
    print(table([json.loads(line) for line in given.rows.read_text(encoding="utf-8").splitlines()]))


if __name__ == "__main__":
    main()
