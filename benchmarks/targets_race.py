"""Real models raced with ``--targets auto``, and OpenVINO beside the CPU. One command, on a quiet machine:

    python benchmarks/targets_race.py                 # goes on after the rows that are there
    python benchmarks/targets_race.py --table         # the tables alone
    python benchmarks/targets_race.py --models ppocrv4-det,magika --budget 300

A row is written when its model is done, so a run that was stopped goes on with the next. OpenVINO is installed first,
for auto races what is there. A model that a target does not run is a row too.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ortune
from common import model_path
from ortune.errors import OrtuneError
from ortune.fleet import made
from ortune.records import Comparison
from ortune.report.numbers import duration

MODELS = (
    "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls", "magika", "minilm-int8", "basic-pitch", "oww-embedding",
    "light-squeezenet", "silero-vad", "piper-joe", "light-shufflenet", "light-resnet50",
)  # fmt: skip
ROWS = Path(__file__).parent / "rows" / "targets_race.jsonl"
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
    return {
        "headline": result.headline,
        "plan": result.winner.describe(),
        "provider": result.winner.provider_names[0],
        "gain": speed(wins),
        "ratio": wins.ratio if wins and wins.verdict == "faster" else 1.0,
        "adopts": " ".join(result.adoption.requirements) if result.adoption else "",
        "dropped": [note for note in result.not_tried if "no time" in note or "budget" in note],
    }


def beside(name: str, budget_s: float, store: Path) -> Row:
    """The default of OpenVINO beside the default of the CPU."""
    result = ortune.compare(
        model_path(name), b_runtime=OPENVINO, budget=min(budget_s, 60.0), no_why=True, store=store
    ).result
    a, b = result.base_figures, result.new_figures
    return {
        "gain": speed(result.comparison) or result.outputs.what,
        "cpu": duration(a.latency_ns) if a else "",
        "openvino": duration(b.latency_ns) if b else "",
        "load": f"{duration(a.load_ns)} -> {duration(b.load_ns)}" if a and b else "",
    }


KINDS = {"auto": raced, OPENVINO: beside}


def tables(rows: Sequence[Row]) -> str:
    """Both tables, each of the models that are done."""
    auto = [row for row in rows if row["kind"] == "auto"]
    other = [row for row in rows if row["kind"] == OPENVINO]
    text = ["| model | provider | gain over the default | plan | to install |", "|---|---|---|---|---|"]
    text += [
        f"| {r['model']} | {r.get('provider', '')} | {r.get('gain') or r.get('error') or 'default is best'} "
        f"| {r.get('plan', '')} | {r.get('adopts', '')} |"
        for r in auto
    ]
    ratios = [row["ratio"] for row in auto if "ratio" in row]
    if ratios:
        product = 1.0
        for ratio in ratios:
            product *= ratio
        text += ["", f"Geometric mean of {len(ratios)} models: {product ** (-1 / len(ratios)):.3f}x."]
    text += ["", "| model | CPU | OpenVINO | gain | load |", "|---|---|---|---|---|"]
    text += [
        f"| {r['model']} | {r.get('cpu', '')} | {r.get('openvino', '')} | {r.get('gain') or r.get('error')} "
        f"| {r.get('load', '')} |"
        for r in other
    ]
    return "\n".join(text)


def main() -> None:
    """Runs what is missing, then prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--budget", type=float, default=180.0, help="seconds that each tune has")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    done = {(row["model"], row["kind"]) for row in rows}
    missing = [(name, kind) for name in asked.models.split(",") for kind in KINDS if (name, kind) not in done]
    if missing and not asked.table:
        made.require(OPENVINO, print)
    for name, kind in [] if asked.table else missing:
        row: Row = {"model": name, "kind": kind, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        with tempfile.TemporaryDirectory() as folder:
            try:
                row |= KINDS[kind](name, asked.budget, Path(folder))
            except OrtuneError as error:
                row["error"] = error.what.splitlines()[0][:160]
        rows.append(row)
        with asked.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(name, kind, row.get("gain") or row.get("error", ""), flush=True)
    print(tables(rows))


if __name__ == "__main__":
    main()
