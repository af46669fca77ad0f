"""Does the main job give the same answer every time? Run by hand; about half an hour.

    python benchmarks/demo_again.py [--runs 5] [--budget 150] [minilm-int8]

What `make demo` does, again and again, quiet and beside a neighbour that comes and goes, in turn. Rows are kept in a
file: what was measured before is not measured again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import ortune
from common import model_path, neighbour
from ortune.errors import MeasurementError
from ortune.verbs.tune.result import TuneResult


def one(model: Path, condition: str, budget: float) -> dict[str, object]:
    """One tuning as a row."""
    began = time.monotonic()
    row: dict[str, object] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "model": model.stem,
        "condition": condition,
    }
    with neighbour(condition), tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
        try:
            result = ortune.tune(model, budget=budget, bundle=False, store=Path(folder)).result
        except MeasurementError as error:
            return row | {"answer": f"none: {error.what}", "seconds": time.monotonic() - began}
    assert isinstance(result, TuneResult)
    claim, wait = result.against_default, next((c for c in result.controls if c.name == "spike-in"), None)
    statuses = Counter(c.status for c in result.candidates)
    return row | {
        "answer": result.winner.describe() if result.changes else "the default",
        "claim": [claim.ratio, claim.ratio_low, claim.ratio_high] if claim and result.changes else None,
        "tried": statuses.total() - statuses["not-tried"],
        "waiting": [c.origin for c in result.candidates if c.status == "not-tried"],
        "known_wait": [wait.ratio, wait.ratio_low, wait.ratio_high] if wait else None,
        "smallest": result.smallest_effect_ratio,
        "seconds": time.monotonic() - began,
    }


def speedup(ratios: object) -> str:
    """A ratio with its interval, as times faster."""
    if not isinstance(ratios, list):
        return ""
    middle, low, high = (float(r) for r in ratios)
    return f"{1 / middle:.2f}x ({1 / high:.2f}-{1 / low:.2f})"


def table(rows: list[dict[str, object]]) -> str:
    """A row a tuning, as Markdown."""
    lines = [
        "| model | machine | shipped | claim | plans tried | not tried | s |",
        "|---|---|---|---:|---:|---|---:|",
    ]
    for r in rows:
        waiting = Counter(str(x).split(" ")[0] for x in r.get("waiting", []))  # type: ignore[attr-defined]
        rest = ", ".join(f"{n} {kind}" for kind, n in waiting.items())
        lines.append(
            f"| {r['model']} | {r['condition']} | {r['answer']} | {speedup(r.get('claim'))} | {r.get('tried', 0)} "
            f"| {rest} | {r['seconds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measures what is missing and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=["minilm-int8"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--budget", type=float, default=150.0)
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "rows" / "demo_again.jsonl")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    for name in asked.models:
        model = model_path(name)
        for i in range(asked.runs):
            for condition in ("quiet", "intermittent load"):
                if sum((r["model"], r["condition"]) == (model.stem, condition) for r in rows) <= i:
                    rows.append(one(model, condition, asked.budget))
                    with asked.rows.open("a") as f:
                        f.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
