"""Is what ``tune`` ships ever slower? Run by hand; about five minutes a model.

    python benchmarks/shipped_bundles.py [ppocrv4-det silero-vad ...]

Each model is tuned; its bundle is then timed against the default by other code than the tuner's: two plain Python
processes that import onnxruntime alone, in random order, twelve pairs.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import ortune
from common import model_path
from ortune.stats import pairs

MODELS = (
    "minilm-int8", "silero-vad", "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls", "magika",
    "basic-pitch", "piper-joe", "light-squeezenet", "light-densenet121", "light-shufflenet", "logreg-iris",
)  # fmt: skip
PAIRS = 12
CODE = """
import sys, time, statistics, numpy as np
sys.path.insert(0, sys.argv[1])
import onnxruntime as ort
feeds = dict(np.load(sys.argv[1] + "/inputs/feeds.npz"))
if sys.argv[2] == "bundle":
    import load
    session = load.load()
else:
    session = ort.InferenceSession(sys.argv[3], providers=["CPUExecutionProvider"])
names = [o.name for o in session.get_outputs()]
for _ in range(10):
    session.run(names, feeds)
times, end = [], time.perf_counter() + 0.5
while time.perf_counter() < end or len(times) < 5:
    start = time.perf_counter()
    session.run(names, feeds)
    times.append(time.perf_counter() - start)
print(statistics.median(times))
"""


def one(bundle: Path, kind: str, model: Path, environment: dict[str, str]) -> float:
    """Median seconds of one fresh process."""
    words = [sys.executable, "-c", CODE, str(bundle), kind, str(model)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Prints the table, a row a model as it ends."""
    rng = random.Random(3)
    print(f"{datetime.now(UTC):%Y-%m-%d}\n")
    print("| model | shipped | confirmed by tune | bundle against default, other code | never slower |")
    print("|---|---|---:|---:|---|", flush=True)
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            model = model_path(name)
            result = ortune.tune(model, output=folder, store=Path(folder) / "store").result
            bundle = Path(result.bundle)
            shipped = dict(os.environ)
            for setting in result.winner.settings:
                if setting == "allocator":
                    from ortune import platform

                    shipped["LD_PRELOAD"] = str(
                        platform.allocator_library(str(result.winner.settings[setting]))
                    )
            ratios = []
            for _ in range(PAIRS):
                kinds = [("bundle", shipped), ("default", dict(os.environ))]
                rng.shuffle(kinds)
                seen = {kind: one(bundle, kind, model, environment) for kind, environment in kinds}
                ratios.append(float(np.log(seen["bundle"] / seen["default"])))
            found = pairs.wilcoxon_interval(np.asarray(ratios))
            claim = result.against_default
            said = (
                "default"
                if claim is None
                else f"{1 / claim.ratio:.2f}x ({1 / (claim.ratio_high or 9):.2f}-{1 / claim.ratio_low:.2f})"
            )
            print(
                f"| {name} | {result.winner.describe()} | {said} | {1 / found.ratio:.2f}x "
                f"({1 / found.ratio_high:.2f}-{1 / found.ratio_low:.2f}) | {'NO' if found.low > 0.01 else 'yes'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
