"""Does ``compare`` cry on noise, and does it find a known wait? Run by hand; takes about an hour.

    python benchmarks/self_comparison.py [--runs 40] [--waits 20] [--models silero-vad,logreg-iris]

A model is compared with a disguised copy of itself (other names, another producer) while a process keeps the last
core busy; then, on a quiet machine, with the same model and 5 % of busy wait in each run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import ortune
from common import busy_core, disguised_copy, model_path
from ortune.errors import MeasurementError


def one(model: Path, other: Path, folder: Path, **options: object) -> dict[str, object]:
    """One comparison as a row."""
    began = time.monotonic()
    try:
        result = ortune.compare(model, other, store=folder / "store", **options).result
    except MeasurementError as error:
        return {"verdict": "invalid", "what": error.what, "seconds": time.monotonic() - began}
    c = result.comparison
    return {
        "verdict": c.verdict,
        "ratio": c.ratio,
        "low": c.ratio_low,
        "high": c.ratio_high,
        "smallest": c.smallest_effect_ratio,
        "blocks": c.n_blocks,
        "estimand": c.estimand,
        "seconds": time.monotonic() - began,
    }


def table(title: str, rows: list[dict[str, object]]) -> str:
    """The rows of one experiment as Markdown."""
    verdicts = Counter(str(r["verdict"]) for r in rows)
    fine = sum(1 for r in rows if isinstance(r.get("smallest"), float) and float(str(r["smallest"])) <= 0.03)
    lines = [f"**{title}**: " + ", ".join(f"{n} {v}" for v, n in sorted(verdicts.items()))]
    lines.append(f"; smallest detectable effect 3 % or less in {fine} of {len(rows)}\n")
    lines.append(
        "\n| run | verdict | B against A | interval | smallest effect | blocks | s |"
        "\n|---:|---|---:|---|---:|---:|---:|"
    )
    for i, r in enumerate(rows, 1):
        if "ratio" not in r:
            lines.append(f"\n| {i} | {r['verdict']} | | | | | {float(str(r['seconds'])):.0f} |")
            continue
        low, high = (f"{100 * (float(str(r[k])) - 1):+.1f} %" for k in ("low", "high"))
        smallest = "" if r["smallest"] is None else f"{100 * float(str(r['smallest'])):.1f} %"
        lines.append(
            f"\n| {i} | {r['verdict']} | {100 * (float(str(r['ratio'])) - 1):+.1f} % | {low} to {high} "
            f"| {smallest} | {r['blocks']} | {float(str(r['seconds'])):.0f} |"
        )
    return "".join(lines) + "\n"


def main() -> None:
    """Runs both experiments and prints Markdown; every row is also appended to a file as it ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--waits", type=int, default=20)
    parser.add_argument("--models", default="silero-vad,logreg-iris")
    parser.add_argument("--rows", type=Path, default=Path("self_comparison.jsonl"))
    asked = parser.parse_args()
    names = asked.models.split(",")
    folder = Path(tempfile.mkdtemp(prefix="ortune-bench-"))
    models = {name: model_path(name) for name in names}
    copies = {name: disguised_copy(models[name], folder) for name in names}
    found: dict[str, list[dict[str, object]]] = {"self": [], "wait": []}
    for kind, count in (("self", asked.runs), ("wait", asked.waits)):
        with busy_core() if kind == "self" else contextlib.nullcontext():
            for i in range(count):
                name = names[i % len(names)]
                wait = {} if kind == "self" else {"inject_wait": 0.05}
                row = one(models[name], copies[name], folder, **wait) | {"kind": kind, "model": name}
                found[kind].append(row)
                with asked.rows.open("a") as f:
                    f.write(json.dumps(row) + "\n")
    print(f"{datetime.now(UTC):%Y-%m-%d}, models {', '.join(names)}\n")
    print(table("a model against its disguised copy, second core busy", found["self"]))
    print(table("5 % of busy wait in each run of the copy, machine quiet", found["wait"]))


if __name__ == "__main__":
    main()
