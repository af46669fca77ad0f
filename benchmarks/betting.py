"""Bets on the sign of each block against the normal mixture that came before: how soon, and how often wrongly.

    python benchmarks/betting.py [--streams 1000]    prints Markdown; the tables belong into docs/results.md

The streams are those of ``tests/stats/streams.py``, watched after every block: nothing differs in them, or the effect
that a column names. The normal mixture, and the two processes that were tried and not taken, live here alone:
all of the wealth at stake, and the hedged bets of Waudby-Smith and Ramdas (2024), whose size follows from the blocks
before. Nothing is timed, so any machine gives the same tables.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ortune.stats import evidence, intervals
from ortune.stats.evidence import BETS, CLIP, KEPT, LOG_WEIGHTS, evidence_path, past_scales, stakes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "stats"))
from streams import KINDS

Path_ = Callable[[np.ndarray, float], np.ndarray]
LIMIT = math.log(1 / 0.05)
EFFECTS = (0.01, 0.02, 0.05)
BLOCKS = 200
RHO = 8.0  # precision of the mixture's prior, as it was


def mixture(d: np.ndarray, prior: float) -> np.ndarray:
    """The process that was used before: a normal mixture of self-normalised terms."""
    z = np.clip(d / past_scales(d, prior), -CLIP, CLIP)
    s, v = np.cumsum(z, axis=-1), np.cumsum(z * z, axis=-1)
    return 0.5 * np.log(RHO / (v + RHO)) + s * s / (2.0 * (v + RHO))


def all_at_stake(d: np.ndarray, prior: float) -> np.ndarray:
    """The same bets with no wealth kept back."""
    z = np.clip(d / past_scales(d, prior), -CLIP, CLIP)
    gains = evidence.log_cosh(np.multiply.outer(BETS, np.cumsum(z, axis=-1))) - np.cumsum(stakes(z), axis=-1)
    weights = LOG_WEIGHTS - math.log(1.0 - KEPT)
    return np.asarray(np.logaddexp.reduce(gains + weights[:, None, None], axis=0))


def hedged(d: np.ndarray, prior: float, most: float = 0.9) -> np.ndarray:
    """Predictable bets on either sign, half of the wealth each, as for means of bounded values."""
    z = np.clip(d / past_scales(d, prior), -CLIP, CLIP) / CLIP
    n = np.arange(1, z.shape[1] + 1)
    mean = np.cumsum(z, axis=1) / (n + 1)
    variance = (0.25 + np.cumsum((z - mean) ** 2, axis=1)) / (n + 1)
    variance = np.concatenate([np.full((len(z), 1), 0.25), variance[:, :-1]], axis=1)
    bets = np.minimum(most, np.sqrt(2.0 * math.log(2 / 0.05) / (variance * n * np.log(n + 1))))
    up, down = (np.cumsum(np.log1p(sign * bets * z), axis=1) for sign in (1.0, -1.0))
    return np.asarray(np.logaddexp(up, down) - math.log(2.0))


PROCESSES: dict[str, Path_] = {
    "normal mixture, as before": mixture,
    "hedged predictable bets": hedged,
    "bets on the sign, all at stake": all_at_stake,
    "**bets on the sign, half kept**": lambda d, prior: evidence_path(d, 0.0, prior),
}


def decisions(streams: int) -> list[str]:
    """Rows of false claims and of blocks to decide, means over the kinds of streams."""
    rows: dict[str, list[list[float]]] = {name: [] for name in PROCESSES}
    for i, (_, kind) in enumerate(KINDS.items()):
        d = kind(np.random.default_rng([7, i]), (streams, BLOCKS))
        prior = float(1.4826 * np.median(np.abs(d[:, :9])))
        for name, process in PROCESSES.items():
            claimed = process(d, prior) >= LIMIT
            row = [float(claimed[:, :n].any(axis=1).mean()) for n in (60, BLOCKS)]
            for effect in EFFECTS:
                decided = process(d + math.log1p(effect), prior)[:, :60] >= LIMIT
                first = np.where(decided.any(axis=1), decided.argmax(axis=1) + 1, 60)
                row += [
                    float(first.mean()),
                    float(decided[:, :14].any(axis=1).mean()),
                    float(decided.any(axis=1).mean()),
                ]
            rows[name].append(row)
    lines = []
    for name, values in rows.items():
        mean, most = np.mean(values, axis=0), np.max(values, axis=0)
        cells = [f"{100 * mean[0]:.1f} %", f"{100 * mean[1]:.1f} % ({100 * most[1]:.1f} %)"]
        for k in range(len(EFFECTS)):
            blocks, early, late = mean[2 + 3 * k : 5 + 3 * k]
            cells.append(f"{blocks:.1f} ({100 * early:.0f} %, {100 * late:.0f} %)")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def equivalences(streams: int) -> list[str]:
    """Rows of the blocks until "within 1 %" stands, for a machine whose blocks scatter by so much."""
    lines = []
    for scale in (0.005, 0.01, 0.015):
        d = np.random.default_rng(3).normal(0.0, scale, (streams, 100))
        before, now = [], []
        for row in d:
            n = next((n for n in range(8, 101) if _equal(mixture, row[:n], scale)), 100)
            before.append(n)
            sequence = (evidence.confidence_sequence(row[:n], 0.05, scale) for n in range(8, 101))
            equal = (
                i for i, interval in enumerate(sequence, 8) if intervals.verdict(interval) == "equivalent"
            )
            now.append(next(equal, 100))
        lines.append(f"| {100 * scale:.1f} % | {np.median(before):.0f} | {np.median(now):.0f} |")
    return lines


def _equal(process: Path_, d: np.ndarray, scale: float) -> bool:
    """Whether the process rejects both ends of ±1 %, and so all that lies beyond."""
    ends = np.stack([d - math.log(0.99), d - math.log(1.01)])
    return bool((process(ends, scale)[:, -1] >= LIMIT).all())


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=1000)
    streams = parser.parse_args().streams
    heads = " | ".join(f"+{100 * effect:.0f} %" for effect in EFFECTS)
    print(f"| evidence | false claims by block 60 | by block 200 (worst kind) | {heads} |")
    print("|---|---:|---:|" + "---:|" * len(EFFECTS))
    print("\n".join(decisions(streams)), flush=True)
    print("\n| blocks scatter by | within 1 %, as before | now |\n|---|---:|---:|")
    print("\n".join(equivalences(max(10, streams // 100))))


if __name__ == "__main__":
    main()
