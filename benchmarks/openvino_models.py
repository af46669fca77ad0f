"""Which models gain from OpenVINO, at which precision and with which release. On a quiet machine; a minute a model:

    python benchmarks/openvino_models.py [--models ppocrv4-det,magika] [--budget 60]
    python benchmarks/openvino_models.py --table    # the table alone

The default of the CPU provider, OpenVINO at float32, OpenVINO's default and an older OpenVINO at float32 take turns in
the same blocks of ``ortune compare``. On processors with bfloat16, OpenVINO's default computes in it. What OpenVINO
does not run is a row too. A row is written when its model is done, so a run that was stopped goes on with the next:
what this processor measured before with the same builds is not measured again. The table is written into
docs/results.md, between two marks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ortune
from common import model_path, write_between
from ortune import platform
from ortune.errors import OrtuneError
from ortune.records import Comparison
from ortune.runtimes import made
from ortune.runtimes.runtimes import find_runtime
from ortune.show.numbers import duration, memory
from ortune.show.placement_words import placed
from ortune.verbs.compare.result import ComparedSide
from targets_race import MODELS

OLD = "onnxruntime-openvino==1.24.1"
SIDES = {
    "OpenVINO, float32": {"runtime": "openvino", "set": ["openvino_precision=f32"]},
    "OpenVINO's default": {"runtime": "openvino", "target": "openvino"},
    "OpenVINO 2025.4, float32": {"runtime": OLD, "target": "openvino", "set": ["openvino_precision=f32"]},
}
ROWS = Path(__file__).parent / "rows" / "openvino_models.jsonl"
MARKS = "<!-- openvino_models -->", "<!-- end of openvino_models -->"
Row = dict[str, Any]


def speed(found: Comparison | None) -> str:
    """The gain with its interval, as a speed-up: "1.77x (1.70-1.85)"."""
    if found is None:
        return ""
    if found.ratio_low is None or found.ratio_high is None:
        return f"{1 / found.ratio:.2f}x (no interval)"
    return f"{1 / found.ratio:.2f}x ({1 / found.ratio_high:.2f}-{1 / found.ratio_low:.2f})"


def measured(name: str, budget_s: float, store: Path) -> Row:
    """All sides of one model."""
    model = model_path(name)
    more = {f"{x}_{key}": v for x, own in zip("bcd", SIDES.values(), strict=True) for key, v in own.items()}
    result = ortune.compare(
        model, *[model] * len(SIDES), budget=budget_s, no_why=True, store=store, **more
    ).result
    base = result.base_figures
    arms = {arm.name: arm for arm in result.candidates}
    return {
        "cpu": duration(base.latency_ns) if base else "",
        "load": duration(base.load_ns) if base else "",
        "memory": memory(base.peak_bytes or 0) if base else "",
        "sides": {side: told(arms[x]) for x, side in zip("BCD", SIDES, strict=True)},
    }


def told(arm: ComparedSide) -> Row:
    """One side."""
    if arm.comparison is None:
        why = arm.failures[0].what if arm.failures else arm.outputs.what if arm.outputs else "not measured"
        return {"why": why.splitlines()[0][:120]}
    figures = arm.figures
    return {
        "gain": speed(arm.comparison),
        "apart": f"{arm.outputs.relative_l2:.0e}" if arm.outputs else "",
        "exact": bool(arm.outputs and arm.outputs.ok),
        "load": duration(figures.load_ns) if figures else "",
        "memory": memory(figures.peak_bytes or 0) if figures else "",
        "placement": "; ".join(placed(arm.side.placement)),
    }


def setup() -> Row:
    """What decides the rows of this machine: its processor and the builds."""
    host = platform.host()
    builds = [find_runtime().build]
    for name in ("openvino", OLD):
        runtime = made.require_installed(name, print).runtime
        builds.append(next(iter(runtime.plugins.values()), runtime.build))
    return {"processor": f"{host.cpu} with {host.effective_cpus} cores", "builds": builds}


def table(rows: Sequence[Row]) -> str:
    """Markdown: gains, then load, memory and placement of OpenVINO at float32; all of one processor and its builds."""
    days = sorted({row["at"] for row in rows})
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    told = f"**{when}**, {rows[0]['processor']}, {', '.join(rows[0]['builds'])}:"
    lines = [
        textwrap.fill(told, 118, break_on_hyphens=False),
        "",
        f"| model | CPU provider | {' | '.join(SIDES)} | load | memory | placement |",
        "|---|---|" + "---|" * (len(SIDES) + 3),
    ]
    for row in rows:
        first = row["sides"].get("OpenVINO, float32", {}) if "sides" in row else {}
        cells = [cell(row["sides"].get(side, {})) if "sides" in row else "" for side in SIDES]
        lines.append(
            f"| {row['model']} | {row.get('cpu') or row.get('error', '')} | {' | '.join(cells)} "
            f"| {pair(row, first, 'load')} | {pair(row, first, 'memory')} | {first.get('placement', '')} |"
        )
    return "\n".join(lines)


def cell(side: Row) -> str:
    """The gain, in parentheses where outputs differ by more than the tolerance, or why there is none."""
    if "gain" not in side:
        return str(side.get("why", ""))
    return str(side["gain"]) if side["exact"] else f"({side['gain']}, error {side['apart']})"


def pair(row: Row, side: Row, figure: str) -> str:
    return f"{row[figure]} -> {side[figure]}" if side.get(figure) else ""


def main() -> None:
    """Measures what is missing, prints the table of this processor and writes it into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--budget", type=float, default=60.0, help="seconds that each comparison has")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    here = setup()
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    mine = [row for row in rows if here.items() <= row.items()]
    done = {row["model"] for row in mine}
    for name in [] if asked.table else [name for name in asked.models.split(",") if name not in done]:
        row: Row = {"model": name, **here, "at": f"{datetime.now(UTC):%Y-%m-%d}"}
        with tempfile.TemporaryDirectory() as folder:
            try:
                row |= measured(name, asked.budget, Path(folder))
            except OrtuneError as error:
                what, named = error.what.splitlines()[0][:120], dict(zip("BCD", SIDES, strict=True))
                row["error"] = (
                    f"{named[what[0]]} does not run it" if what[1:].startswith(" does not run") else what
                )
        mine.append(row)
        with asked.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(name, row.get("error", "done"), flush=True)
    if mine:
        print(table(mine))
        if asked.rows == ROWS:
            write_between(MARKS, table(mine))


if __name__ == "__main__":
    main()
