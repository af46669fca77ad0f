"""What each setting is worth on real models: the table that tells tuning what to try first.

    python benchmarks/priors.py [--blocks 5] [--models ...] [--write]

Every setting that tuning would propose is held against the default, in blocks that take turns. ``--write`` puts the
table into the package; models that were measured before and are not named keep their figures. ``--blocks 0`` measures
what a run of each takes, and nothing else.
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
from ortune import platform
from ortune.catalogue import facts
from ortune.measuring.driver import run_block
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import SideText, resolve
from ortune.records import Block, Measured, Plan
from ortune.search.blocks import BASE, log_ratios
from ortune.search.figures import figure
from ortune.search.proposals import priors
from ortune.search.proposals.settings import proposals
from ortune.search.schedule import NextBlock
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine

MODELS = (
    "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls", "silero-vad", "magika", "minilm-int8", "basic-pitch",
    "oww-embedding", "light-squeezenet", "light-resnet50", "light-shufflenet", "logreg-iris",
)  # fmt: skip
FIELD = 6
"""Settings in one block."""


def worth(model: str, n_blocks: int, folder: Path) -> tuple[dict[str, tuple[float, float]], float]:
    """Setting -> median ratio to the default, and the worst of its blocks; and nanoseconds of a run by default."""
    side = resolve(SideText(text=str(model_path(model))), common=Plan(), scratch=folder)
    baseline = Measuring(side, InputOptions(), folder, SessionLog(None, ""), print, Machine())
    baseline.find_inputs(120)
    run_pilot(baseline, "latency")
    host = platform.host()
    found, _ = proposals(
        facts.facts_of(side.model.ir), host.effective_cpus, side.runtime.ort_version, platform.allocators()
    )
    plans = {priors.key(p.settings, host.effective_cpus): Plan(settings=p.settings) for p in found}
    execute, rng = baseline.executor, random.Random(model)
    execute.arms = {BASE: baseline.arm(BASE)} | {k: baseline.arm(p.id, plan=p) for k, p in plans.items()}
    blocks: list[Block] = []
    for index in range(n_blocks):
        order = rng.sample(list(plans), len(plans))
        for start in range(0, len(order), FIELD):
            arms = (BASE, *order[start : start + FIELD])
            block = run_block(execute, NextBlock(arms=arms, index=index, phase="race", needed=(BASE,)), rng)
            assert block is not None
            failed = {t.arm for t in block.trials if not isinstance(t.outcome, Measured)}
            plans = {name: plan for name, plan in plans.items() if name not in failed}
            blocks.append(block)
    ratios = {name: np.exp(log_ratios(blocks, name, "paired")) for name in plans}
    latency_ns = figure(baseline.pilot.first, "median")
    assert latency_ns is not None
    return {name: (float(np.median(r)), float(np.max(r))) for name, r in ratios.items() if len(r)}, latency_ns


def main() -> None:
    """Measures, prints what paid, and with ``--write`` keeps the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    effects, latencies = priors.measured().effects, priors.measured().latency_ns
    for model in asked.models.split(","):
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            found, latencies[model] = worth(model, asked.blocks, Path(folder))
        for name, (ratio, worst) in found.items():
            # In every block, or it was luck.
            kept = round(ratio, 3) if worst < 1 or ratio >= 1 else 1.0
            effects.setdefault(name, {})[model] = kept
            if kept < 1 - priors.PAYS:
                print(f"{model}: {name} {kept}", flush=True)
        if asked.write:
            # Two digits: it tells models apart, and is another on every machine.
            rounded = {name: float(f"{ns:.2g}") for name, ns in latencies.items()}
            table = {
                "date": f"{datetime.now(UTC):%Y-%m-%d}" if asked.blocks else priors.measured().date,
                "effects": dict(sorted(effects.items())),
                "latency_ns": rounded,
            }
            priors.TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
