"""How much evidence a second of trials gives: processes that take turns against processes one after another.

    python benchmarks/evidence.py [--blocks 40] [--models oww-embedding,minilm-int8,ppocrv4-det]

After a calibration, as every session has one, both designs measure identical plans, interleaved in one run, in three
conditions: nothing of ours running, a neighbour that comes and goes, a process that holds one core all the time. What
counts is the smallest effect that can
be detected in equal time: it goes with the deviation of a block times the square root of what a block takes.
The old design lives here alone: each trial in a process of its own, one after the other, its figure the median.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from common import CONDITIONS, model_path, neighbour
from ortune.measuring.driver import run_block
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import SideText, resolve
from ortune.records import Measured, Plan
from ortune.runtimes import runtimes
from ortune.search import controls
from ortune.search.blocks import BASE, IDENTICAL, SPIKE, measured
from ortune.search.figures import figure, trial_log_ratio
from ortune.search.schedule import NextBlock
from ortune.stats import calibration, evidence
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine

SHAPES = {"ppocrv4-det": {"x": (1, 3, 1600, 1600)}}  # about 200 ms
LEVEL = 0.05
WINDOW = 20
"""Blocks of a stream that is watched for a false claim."""


@dataclass
class Design:
    """What one design gave."""

    ratios: dict[str, list[float]] = field(
        default_factory=dict
    )  # by statistic: log(identical / base), one a block
    seconds: list[float] = field(default_factory=list)

    def row(self) -> dict[str, object]:
        """Deviation, length of a block, seconds of trials for a standard error of 1 %, and false claims."""
        ((name, values),) = self.ratios.items()
        d = np.asarray(values)
        scale, block_s = calibration.null_scale(d), float(np.median(self.seconds))
        streams = [d[i : i + WINDOW] for i in range(0, len(d) - WINDOW + 1, WINDOW)]
        claims = sum(bool((evidence.evidence_path(s, 0.0, scale) >= -np.log(LEVEL)).any()) for s in streams)
        return {
            "statistic": name,
            "deviation": scale,
            "standard_deviation": float(d.std()),
            "block_s": block_s,
            "seconds_for_1_percent": block_s * (scale / 0.01) ** 2,
            "detectable": scale * block_s**0.5,
            "claims": claims,
            "streams": len(streams),
        }


def measure(name: str, condition: str, blocks: int, folder: Path) -> dict[str, Design]:
    """Blocks of both designs in turn."""
    model = model_path(name)
    side = resolve(SideText(text=str(model)), common=Plan(), scratch=folder)
    assert side.runtime == runtimes.find_runtime(None)
    baseline = Measuring(
        side, InputOptions(shapes=SHAPES.get(name, {})), folder, SessionLog(None, ""), print, Machine()
    )
    rng = random.Random(f"{name} {condition}")
    baseline.find_inputs(120)
    run_pilot(baseline, "latency")
    arms = {BASE: baseline.arm(BASE), IDENTICAL: baseline.arm(IDENTICAL)}
    baseline.executor.arms = arms
    after = Design(ratios={"median": []})
    with neighbour(condition):
        execute = baseline.executor
        execute.arms = arms | {SPIKE: baseline.arm(SPIKE, wait=controls.SPIKE_RATIO)}
        first = [
            run_block(execute, NextBlock(arms=(BASE, IDENTICAL, SPIKE), index=i, phase="calibration"), rng)
            for i in range(controls.CALIBRATION_BLOCKS)
        ]
        found = [block for block in first if block is not None]
        judgement = controls.judge(found, None)
        baseline.retime(judgement, measured(found, BASE))
        turns = Design(ratios={judgement.statistic: []})
        for index in range(blocks):
            began = time.monotonic()
            wanted = NextBlock(arms=(BASE, IDENTICAL), index=index, phase="race")
            block = run_block(baseline.executor, wanted, rng)
            took = time.monotonic() - began
            assert block is not None and not block.dropped
            trials = {t.arm: t.outcome for t in block.trials}
            ratio = trial_log_ratio(trials[IDENTICAL], trials[BASE], judgement.statistic)  # type: ignore[arg-type]
            assert ratio is not None
            turns.ratios[judgement.statistic].append(ratio)
            turns.seconds.append(took)

            began = time.monotonic()
            order = rng.sample([BASE, IDENTICAL], 2)
            alone = {arm: baseline.executor.trial(arms[arm]) for arm in order}
            after.seconds.append(time.monotonic() - began)
            values = [
                figure(alone[arm], "median") for arm in (IDENTICAL, BASE) if isinstance(alone[arm], Measured)
            ]
            after.ratios["median"].append(float(np.log(values[0] / values[1])))  # type: ignore[operator]
    return {"turns": turns, "one after another": after}


def main() -> None:
    """Prints Markdown; every row is also appended to a file as it ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--models", default="oww-embedding,minilm-int8,ppocrv4-det")
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--rows", type=Path, default=Path("evidence.jsonl"))
    asked = parser.parse_args()
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {asked.blocks} blocks of two identical plans a row\n",
        "| model | machine | design | statistic | deviation of a block | a block, s | s for ±1 % | false claims "
        "| smallest effect in equal time |",
        "|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for name in asked.models.split(","):
        for condition in asked.conditions.split(","):
            with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
                found = measure(name, condition, asked.blocks, Path(folder))
            rows = {design: each.row() for design, each in found.items()}
            base = float(str(rows["one after another"]["detectable"]))
            for design, row in rows.items():
                share = float(str(row["detectable"])) / base
                lines.append(
                    f"| {name} | {condition} | {design} | {row['statistic']} "
                    f"| {100 * float(str(row['deviation'])):.2f} % | {float(str(row['block_s'])):.2f} "
                    f"| {float(str(row['seconds_for_1_percent'])):.1f} | {row['claims']} of {row['streams']} "
                    f"| {share:.2f} |"
                )
                print(lines[-1], flush=True)
                with asked.rows.open("a") as f:
                    raw = {
                        "model": name,
                        "condition": condition,
                        "design": design,
                        "ratios": found[design].ratios,
                    }
                    f.write(json.dumps(raw | row) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
