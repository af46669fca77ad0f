"""How often is a true difference found, and how often one claimed where there is none? A table of both.

The blocks are real: of identical plans whose processes took turns (``tests/stats/data/turns.json``, recorded by
``evidence.py``). Streams are drawn from each recording with replacement, shifted by the effect, and judged as
``compare`` judges them: nine blocks choose the statistic and give the first scale, then every block is looked at.

    python benchmarks/power.py    prints the table; it belongs into docs/results.md, where a test looks for it
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from ortune.stats.calibration import choose_statistic, null_scale
from ortune.stats.evidence import evidence_path

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests" / "stats" / "data" / "turns.json"
LIMIT = math.log(1 / 0.05)
EFFECTS = (0.0, 0.01, 0.02, 0.05)
BLOCKS = (20, 60)
STREAMS = 1000
SEED = 20


def found(ratios: dict[str, np.ndarray], rng: np.random.Generator) -> dict[tuple[float, int], float]:
    """The share of streams that claim a difference, by effect and blocks watched."""
    n = len(next(iter(ratios.values())))
    claims = {(effect, blocks): 0 for effect in EFFECTS for blocks in BLOCKS}
    for _ in range(STREAMS):
        drawn = rng.integers(0, n, max(BLOCKS))
        signs = rng.choice((-1.0, 1.0), max(BLOCKS))  # which of two identical plans is called B
        stream = {name: signs * values[drawn] for name, values in ratios.items()}
        chosen = choose_statistic({name: d[:9] for name, d in stream.items()})
        prior = null_scale(stream[chosen][:9])
        shifted = np.stack([stream[chosen] + math.log1p(effect) for effect in EFFECTS])
        passed = evidence_path(shifted, prior_scale=prior) >= LIMIT
        for blocks in BLOCKS:
            for effect, claimed in zip(EFFECTS, passed[:, :blocks].any(axis=1), strict=True):
                claims[effect, blocks] += bool(claimed)
    return {key: count / STREAMS for key, count in claims.items()}


def powers() -> list[tuple[str, str, dict[tuple[float, int], float]]]:
    """Model, machine and shares of every recording."""
    rng = np.random.default_rng(SEED)
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    return [
        (s["model"], s["machine"], found({name: np.array(v) for name, v in s["ratios"].items()}, rng))
        for s in recorded
    ]


def table() -> str:
    """The table as Markdown."""
    heads = [
        f"{'none' if not effect else f'{effect:.0%}'}, {blocks}" for effect in EFFECTS for blocks in BLOCKS
    ]
    lines = [f"| model | machine | {' | '.join(heads)} |", "|---|---|" + "---:|" * len(heads)]
    for model, machine, shares in powers():
        cells = " | ".join(f"{100 * shares[e, b]:.0f} %" for e in EFFECTS for b in BLOCKS)
        lines.append(f"| {model} | {machine} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
