"""Does ``compare`` cry on noise, and does it find a known wait? Run by hand; takes hours.

    python benchmarks/self_comparison.py [--runs 100] [--waits 20] [--models silero-vad,oww-embedding]
        [--conditions quiet,...] [--other-names]
    python benchmarks/self_comparison.py --crowded [--runs 60]

A model is compared with itself in another file, and with that and a busy wait of 5 % and of 2 % in each run; or, with
``--other-names``, with a copy whose nodes and values have other names, which need not be as fast. On a quiet machine,
beside a neighbour that comes and goes, and beside a process that holds one core all the time. The kinds are
interleaved, so that a phase of the machine hits all of them. With ``--crowded`` the model meets itself alone, within a
minute, beside twenty busy processes: there trials are dear, and an exact test of few blocks decides. Rows are kept in a
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
from common import CONDITIONS, CROWDED, disguised_copy, model_path, neighbour, same_again
from ortune.errors import MeasurementError


def one(model: Path, other: Path, folder: Path, **options: object) -> dict[str, object]:
    """One comparison as a row."""
    began = time.monotonic()
    try:
        document = ortune.compare(model, other, store=folder / "store", **options)
    except MeasurementError as error:
        return {"verdict": "invalid", "what": error.what, "seconds": time.monotonic() - began}
    c = document.result.comparison
    if c is None:  # No block fitted into the budget.
        return {"verdict": document.verdict, "blocks": 0, "seconds": time.monotonic() - began}
    return {
        "verdict": c.verdict,
        "ratio": c.ratio,
        "low": c.ratio_low,
        "high": c.ratio_high,
        "smallest": c.smallest_effect_ratio,
        "blocks": c.n_blocks,
        "statistic": c.statistic,
        "seconds": time.monotonic() - began,
    }


def table(rows: list[dict[str, object]]) -> str:
    """A row a condition and kind, as Markdown."""
    lines = [
        "| machine | kind | comparisons | claimed | invalid | effect of 1 % (2.5 %) detectable "
        "| detected, sign and interval correct | median s | longest s |\n|---|---|---:|---:|---:|---:|---:|---:|---:|"
    ]
    for condition in dict.fromkeys(str(r["condition"]) for r in rows):
        for kind in dict.fromkeys(str(r["kind"]) for r in rows):
            mine = [r for r in rows if (r["condition"], r["kind"]) == (condition, kind)]
            if not mine:
                continue
            verdicts = Counter(str(r["verdict"]) for r in mine)
            claimed = verdicts["faster"] + verdicts["slower"]
            fine = [sum(float(str(r.get("smallest") or 9)) <= limit for r in mine) for limit in (0.01, 0.025)]
            seconds = sorted(float(str(r["seconds"])) for r in mine)
            found = verdicts["slower"] if kind in ("+5 %", "+2 %") else ""
            lines.append(
                f"\n| {condition} | {kind} | {len(mine)} | {claimed} | {verdicts['invalid']} | {fine[0]} ({fine[1]}) "
                f"| {found} | {seconds[len(seconds) // 2]:.0f} | {seconds[-1]:.0f} |"
            )
    return "".join(lines) + "\n"


def main() -> None:
    """Runs all kinds and prints Markdown; every row is also appended to a file as it ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--waits", type=int, default=20)
    parser.add_argument("--models", default="silero-vad,oww-embedding")
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "rows" / "self_comparison.jsonl")
    parser.add_argument("--other-names", action="store_true")
    parser.add_argument("--crowded", action="store_true")
    asked = parser.parse_args()
    alone = asked.other_names or asked.crowded
    conditions = [CROWDED] if asked.crowded else asked.conditions.split(",")
    more = {"budget": "60s"} if asked.crowded else {}
    names = asked.models.split(",")
    folder = Path(tempfile.mkdtemp(prefix="ortune-bench-"))
    models = {name: model_path(name) for name in names}
    copy, usual = (disguised_copy, "other names") if asked.other_names else (same_again, "itself")
    copies = {name: copy(models[name], folder) for name in names}
    every = max(1, asked.runs // max(1, asked.waits))
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    for condition in conditions:
        done = sum((r["condition"], r["kind"]) == (condition, usual) for r in rows)
        with neighbour(condition):
            for i in range(done, asked.runs):
                name = names[i % len(names)]
                kinds = [(usual, 0.0)]
                if not alone and i % every == 0 and i // every < asked.waits:
                    kinds += [("+5 %", 0.05), ("+2 %", 0.02)]
                for kind, wait in kinds:
                    row = one(models[name], copies[name], folder, inject_wait=wait, no_why=True, **more)
                    rows.append(row | {"condition": condition, "kind": kind, "model": name})
                    with asked.rows.open("a") as f:
                        f.write(json.dumps(rows[-1]) + "\n")
    print(f"{datetime.now(UTC):%Y-%m-%d}, models {', '.join(names)}\n")
    print(table(rows))


if __name__ == "__main__":
    main()
