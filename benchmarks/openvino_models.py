"""Which models gain from OpenVINO, and what it costs. Run by hand on a quiet machine; two minutes a model at most.

    python benchmarks/openvino_models.py [ppocrv4-det magika ...]

The default of the CPU provider and that of OpenVINO stand in the same blocks (``ortune compare --b-runtime openvino``),
once with all threads and once with one. What OpenVINO does not run is a row too.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import ortune
from common import model_path
from ortune.errors import OrtuneError
from ortune.records import Comparison
from ortune.report.numbers import duration, memory
from ortune.report.placement_words import placed

MODELS = (
    "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls", "magika", "minilm-int8", "basic-pitch", "oww-embedding",
    "light-squeezenet",
)  # fmt: skip
BUDGET_S = 60.0
ONE = {"a_set": ["intra=1"], "b_set": ["openvino_threads=1"]}
HEAD = """| model | CPU provider | OpenVINO | gain | gain, one thread | load | memory | outputs | placement |
|---|---|---|---|---|---|---|---|---|"""


def speed(found: Comparison | None) -> str:
    """The gain with its interval, as a speed-up: "1.77x (1.70-1.85)"."""
    if found is None or found.ratio_high is None:
        return "not measured"
    return f"{1 / found.ratio:.2f}x ({1 / found.ratio_high:.2f}-{1 / found.ratio_low:.2f})"


def row(name: str, store: Path) -> str:
    """One Markdown row."""
    model = model_path(name)
    shared = {"b_runtime": "openvino", "budget": BUDGET_S, "no_why": True, "store": store}
    try:
        result = ortune.compare(model, **shared).result
        one = ortune.compare(model, **shared, **ONE).result
    except OrtuneError as error:
        return f"| {name} | | does not run: {error.what.splitlines()[0][:120]} | | | | | | |"
    a, b = result.base_figures, result.new_figures
    if a is None or b is None:
        return f"| {name} | | {result.outputs.what} | | | | | | |"
    cells = (
        name,
        duration(a.latency_ns),
        duration(b.latency_ns),
        speed(result.comparison),
        speed(one.comparison),
        f"{duration(a.load_ns)} -> {duration(b.load_ns)}",
        f"{memory(a.peak_bytes or 0)} -> {memory(b.peak_bytes or 0)}",
        f"equal within {result.outputs.relative_l2:.0e}",
        "; ".join(placed(result.new.placement)) or "not told",
    )
    return f"| {' | '.join(cells)} |"


def main(names: list[str]) -> None:
    """The table."""
    made = {each.name: each.runtime for each in ortune.runtime("add", "openvino").result.runtimes}
    runtime = made["openvino"]
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {runtime.package} {runtime.ort_version}\n\n{HEAD}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or MODELS:
            print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
