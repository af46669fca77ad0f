"""Is what ``tune`` ships ever slower? Run by hand; about a minute and a half a model.

    python benchmarks/shipped_bundles.py [ppocrv4-det silero-vad ...]

Each model is tuned; its bundle is then timed against the default by other code than the tuner's: two plain Python
processes that import onnxruntime alone, in random order, sixteen pairs. A bundle is called slower when the whole
interval lies above +1 %. The models of ``NAMED`` were named beforehand as those that gain 3 % and more.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import ortune
from common import model_path
from large_model import make
from ortune.stats import pairs

NAMED = (
    "silero-vad", "silero-vad-half", "oww-silero-vad", "logreg-iris", "minilm-int8", "silero-vad-16k-op15",
)  # fmt: skip
OTHERS = ("ppocrv4-rec", "ppocrv2-cls", "magika", "oww-alexa", "basic-pitch", "xlmr-base")
LARGE = "xlmr-base"  # 1.1 GB, made on the spot
BUDGET_S, LARGE_BUDGET_S = 45.0, 150.0
PAIRS = 16
rng = random.Random(3)
CODE = """
import os, statistics, sys, time
folder, kind, model = sys.argv[1:]
sys.path.insert(0, folder)
if kind == "bundle":
    import load
    if load.missing_environment():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **load.missing_environment()})
    load.set_process()
import numpy as np
import onnxruntime as ort
feeds = dict(np.load(folder + "/feeds.npz"))
if kind == "bundle":
    session = load.load()
    run = lambda: load.run(session, feeds)
else:
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    run = lambda: session.run(names, feeds)
for _ in range(10):
    run()
times, end = [], time.perf_counter() + 0.5
while time.perf_counter() < end or len(times) < 5:
    start = time.perf_counter()
    run()
    times.append(time.perf_counter() - start)
print(statistics.median(times))
"""


def one(bundle: Path, kind: str, model: Path) -> float:
    """Median seconds of one fresh process."""
    words = [sys.executable, "-c", CODE, str(bundle), kind, str(model)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def row(name: str, folder: Path) -> str:
    """Tunes, then compares the bundle with the default; one Markdown row."""
    model = make(folder) if name == LARGE else model_path(name)
    dim, budget = (["sequence=16"], LARGE_BUDGET_S) if name == LARGE else ([], BUDGET_S)
    result = ortune.tune(model, dim=dim, budget=budget, output=folder, store=folder / "store").result
    bundle = Path(result.bundle)
    ratios = []
    for _ in range(PAIRS):
        kinds = ["bundle", "default"]
        rng.shuffle(kinds)
        seen = {kind: one(bundle, kind, model) for kind in kinds}
        ratios.append(float(np.log(seen["bundle"] / seen["default"])))
    found = pairs.wilcoxon_interval(np.asarray(ratios))
    claim = result.against_default
    said = "nothing"
    if claim is not None and claim.ratio_high:
        said = f"{1 / claim.ratio:.2f}x ({1 / claim.ratio_high:.2f}-{1 / claim.ratio_low:.2f})"
    return (
        f"| {name} | {'yes' if name in NAMED else ''} | {result.winner.describe()} | {said} | {1 / found.ratio:.2f}x "
        f"({1 / found.ratio_high:.2f}-{1 / found.ratio_low:.2f}) | {'NO' if found.low > 0.01 else 'yes'} "
        f"| {result.elapsed_s:.0f} of {budget:.0f} |"
    )


def main() -> None:
    """Prints the table, a row a model as it ends."""
    print(f"{datetime.now(UTC):%Y-%m-%d}\n")
    print(
        "| model | expected to gain | shipped | result of tune | bundle against default, independent code "
        "| not slower | s |"
    )
    print("|---|---|---|---:|---:|---|---:|", flush=True)
    for name in sys.argv[1:] or (*NAMED, *OTHERS):
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
