"""Real models raced with ``--targets auto``. One command, on a quiet machine:

    python benchmarks/targets_race.py                 # goes on after the rows that are there
    python benchmarks/targets_race.py --minutes 12    # six models, raced alone, within that time
    python benchmarks/targets_race.py --table         # the table alone
    python benchmarks/targets_race.py --models ppocrv4-det,magika --budget 300
    python benchmarks/targets_race.py --again --models all --minutes 51    # all models of the tests, rows made anew

A row is written when its model is done, so a run that was stopped goes on with the next. OpenVINO is installed first,
for auto races what is there. A model that a target does not run is a row too. The table is written into
docs/results.md, between two marks, with the date and the versions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import textwrap
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ortune
from common import model_path, write_between
from ortune import platform
from ortune.catalogue.providers import of_target, short_name
from ortune.errors import OrtuneError
from ortune.records import Comparison
from ortune.runtimes import made
from ortune.show.numbers import duration, memory
from zoo import MODELS as ALL

MODELS = (
    "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls", "magika", "minilm-int8", "basic-pitch", "oww-embedding",
    "light-squeezenet", "silero-vad", "piper-joe", "light-shufflenet", "light-resnet50",
)  # fmt: skip
FEW = ("ppocrv4-rec", "ppocrv2-cls", "oww-embedding", "basic-pitch", "magika", "minilm-int8")
"""The models of a short run, in which each is tuned for the same time."""
BETWEEN_S = 10.0
"""Of a short run, what is kept for each model beside its budget: reading it, writing its bundle."""
ROWS = Path(__file__).parent / "rows" / "targets_race.jsonl"
MARKS = "<!-- targets_race -->", "<!-- end of targets_race -->"
OPENVINO = "openvino"
Row = dict[str, Any]


def speed(found: Comparison | None) -> str:
    """A gain with its interval: "1.77x (1.70-1.85)"."""
    if found is None:
        return ""
    if found.ratio_low is None or found.ratio_high is None:
        return f"{1 / found.ratio:.2f}x (no interval)"
    return f"{1 / found.ratio:.2f}x ({1 / found.ratio_high:.2f}-{1 / found.ratio_low:.2f})"


def raced(name: str, budget_s: float, store: Path) -> Row:
    """What ``tune`` takes of all targets that run here."""
    result = ortune.tune(
        model_path(name), targets="auto", budget=budget_s, store=store, output=store, force=True
    ).result
    wins = result.against_default
    cost = next((cost for cost in result.costs if cost.shipped), None)
    runtimes = (result.side.runtime, *([result.runtime] if result.runtime else []))
    return {
        "headline": result.headline,
        "plan": result.winner.describe(),
        "provider": result.winner.provider_names[0],
        "raced": [cost.provider for cost in result.costs],
        "default": duration(result.default_figures.latency_ns),
        "gain": speed(wins) if wins and wins.verdict == "faster" else "",
        "ratio": wins.ratio if wins and wins.verdict == "faster" else 1.0,
        "load": f"{duration(cost.default_load_ns)} -> {duration(cost.load_ns)}" if cost else "",
        "memory": f"{memory(cost.default_peak_bytes)} -> {memory(cost.peak_bytes)}" if cost else "",
        "adopts": " ".join(result.adoption.requirements) if result.adoption else "",
        "dropped": [t.target for t in result.untested_targets if t.reason == "no-time"],
        "builds": [runtime.build for runtime in runtimes],
        "conditions": result.conditions,
    }


def table(rows: Sequence[Row]) -> str:
    """The table of the models that are done."""
    text = [
        "| model | default | compared with | winner's provider | gain | load | memory | configuration |",
        "|---|---|---|---|---|---|---|---|",
    ]
    text += [
        f"| {r['model']} | {r.get('default', '')} | {', '.join(map(short_name, r.get('raced', ())))} "
        f"| {short_name(r['provider']) if 'provider' in r else ''} "
        f"| {r.get('gain') or r.get('error') or 'no gain confirmed'} | {r.get('load', '')} | {r.get('memory', '')} "
        f"| {r.get('plan', '')} |"
        for r in rows
    ]
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        product = 1.0
        for ratio in ratios:
            product *= ratio
        text += ["", f"Geometric mean of {len(ratios)} models: {product ** (-1 / len(ratios)):.3f}x."]
    dropped = [
        f"{row['model']} with {short_name(of_target(target).name)}"
        for row in rows
        for target in row.get("dropped", ())
    ]
    text += ["", f"Not compared for lack of time: {'; '.join(dropped)}."] if dropped else []
    busy = [row["model"] for row in rows if "busy" in row.get("conditions", "")]
    text += ["", f"Measured on a busy machine: {', '.join(busy)}."] if busy else []
    return "\n".join(text)


def write(rows: Sequence[Row]) -> None:
    """Puts the table, with its date and versions, between the marks of the page."""
    dates = sorted({row["at"][:10] for row in rows})
    builds = sorted({build for row in rows for build in row.get("builds", ())})
    processors = sorted({row["processor"] for row in rows})
    budgets = sorted({f"{row['budget']:.0f} s" for row in rows})
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    software = ", ".join([*processors, *builds])
    head = (
        f"`python benchmarks/targets_race.py`, {when}, tunes each model with `--targets auto` for "
        f"{' or '.join(budgets)} ({software}). Load and memory are those of the default and of the winner, "
        "where that runs on another execution provider."
    )
    lines = textwrap.fill(head, 118, break_on_hyphens=False)
    text = f"### Execution providers compared by `tune`\n\n{lines}\n\n{table(rows)}"
    write_between(MARKS, text)


def main() -> None:
    """Runs what is missing, then prints the table and writes it into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="", help="names, or all: every model of the tests")
    parser.add_argument("--minutes", type=float, default=0.0, help="a short run, which ends within so many")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds that each tune has")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--again", action="store_true", help="forget the rows that are there")
    asked = parser.parse_args()
    named = tuple(ALL) if asked.models == "all" else tuple(filter(None, asked.models.split(",")))
    chosen = named or (FEW if asked.minutes else MODELS)
    if asked.again:
        asked.rows.unlink(missing_ok=True)
    budget_s = 60 * asked.minutes / len(chosen) - BETWEEN_S if asked.minutes else asked.budget
    ends = time.monotonic() + 60 * asked.minutes
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    done = {row["model"] for row in rows}
    missing = [name for name in chosen if name not in done]
    if missing and not asked.table:
        made.require_installed(OPENVINO, print)
    for name in [] if asked.table else missing:
        if asked.minutes and time.monotonic() + budget_s > ends:
            print(f"{name} is left out: no time", flush=True)
            continue
        row: Row = {"model": name, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        row["budget"], row["processor"] = budget_s, platform.host().cpu
        with tempfile.TemporaryDirectory() as folder:
            try:
                row |= raced(name, budget_s, Path(folder))
            except OrtuneError as error:
                row["error"] = error.what.splitlines()[0][:160]
        rows.append(row)
        with asked.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(name, row.get("gain") or row.get("error", "no gain confirmed"), flush=True)
    print(table(rows))
    if rows:
        write(rows)


if __name__ == "__main__":
    main()
