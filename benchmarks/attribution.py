"""Do the parts of a profile add up, and does its headroom hold? Run by hand; about two minutes a model.

    python benchmarks/attribution.py [minilm-int8 silero-vad ...]

Each model is profiled: its categories against the wall time around ``run()``, its operators against a direct count
over the JSON, the profiled run against one that is not. Then it is tuned: what settings really won stands beside what
the profile said that they could win at most.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import ortune
from common import model_path
from ortune import platform
from ortune.records import Plan, ProfileResult
from ortune.verbs.tune.result import TuneResult

MODELS = (
    "minilm-int8", "silero-vad", "ppocrv2-cls", "ppocrv4-rec", "light-squeezenet", "light-resnet50", "magika",
    "piper-joe",
)  # fmt: skip
#: Seconds for `tune`; 90 are enough for a model of up to 20 ms.
BUDGET_S = 90.0
LARGER_S = {"light-resnet50": 180.0, "piper-joe": 400.0}


def direct(trace: Path, n_runs: int) -> Counter[str]:
    """Nanoseconds of each operator in the mean of the last runs, counted over the JSON alone; bodies not twice."""
    events = json.loads(trace.read_text())
    runs = sorted(e["ts"] for e in events if e["name"] == "model_run")[-n_runs:]
    found: Counter[str] = Counter()
    nodes = [e for e in events if e["cat"] == "Node" and e["ts"] >= runs[0] and "_kernel_time" in e["name"]]
    for event in nodes:
        found[event["args"]["op_name"]] += event["dur"] * 1000 / n_runs
    for outer in (e for e in nodes if e["args"]["op_name"] in ("If", "Loop", "Scan")):
        end = outer["ts"] + outer["dur"]
        inside = [e for e in nodes if e is not outer and outer["ts"] <= e["ts"] and e["ts"] + e["dur"] <= end]
        # Only what lies directly in it: what is deeper is taken from the node around that.
        direct_ones = [
            e for e in inside
            if not any(
                o is not e and o["args"]["op_name"] in ("If", "Loop", "Scan") and o["ts"] <= e["ts"]
                and e["ts"] + e["dur"] <= o["ts"] + o["dur"] for o in inside
            )
        ]  # fmt: skip
        found[outer["args"]["op_name"]] -= sum(e["dur"] for e in direct_ones) * 1000 / n_runs
    return found


def row(name: str, folder: Path) -> str:
    """Profiles and tunes one model; one Markdown row."""
    model, kept = model_path(name), folder / "trace.json"
    result = ortune.profile(model, keep=kept, store=folder / "store").result
    assert isinstance(result, ProfileResult)
    share = {c.name: c.ns / result.wall_ns for c in result.categories}
    total = sum(share.values())
    counted = direct(kept, result.n_runs)
    ours: Counter[str] = Counter()
    for operator in result.operators:
        ours[operator.op_type] += operator.time_ns
    worst = max(abs(ours[op] - counted[op]) for op in {*ours, *counted}) / result.wall_ns
    tuned = ortune.tune(
        model, budget=LARGER_S.get(name, BUDGET_S), bundle=False, store=folder / "store"
    ).result
    assert isinstance(tuned, TuneResult)
    won = 0.0
    if tuned.winner != Plan() and tuned.against_default is not None:
        won = 1 - tuned.against_default.ratio
    most = result.headroom.settings_ratio if result.headroom else None
    bound = "none" if most is None else f"{100 * most:.0f} %"
    return (
        f"| {name} | {result.wall_ns / 1e6:.3g} | {100 * (total - 1):+.2f} % | {100 * share['unexplained']:.1f} % "
        f"| {100 * worst:.2f} % | {result.slowdown_ratio or 0:.2f} | {bound} | {100 * won:.1f} % "
        f"| {tuned.winner.describe()} |"
    )


def main() -> None:
    """Prints the table, a row a model as it ends."""
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.host().cpu}, {platform.host().effective_cpus} CPUs\n")
    print(
        "| model | ms | sum of categories - wall | unexplained | error of operator times | profiled / not "
        "| headroom of settings | gain of tune | with |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|", flush=True)
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
