"""Does precision layer by layer pay, on real inputs? Run by hand, on a quiet machine: one command, 25 minutes in all.

    python benchmarks/precision.py [--minutes 25] [--no-page] [magika ppocrv4-rec ...]

With names, only these models are measured; the page has the newest row of each model on each kind of processor.

`ortune quantize` makes a model of each. Everything else is other code than its own: inputs are made here (files of this
machine, rendered text, speech, sentences, digits), of which a part is never shown to it; ONNX Runtime's own quantizers
are called with each standard configuration of theirs; all models then run in one process, in turns of random
order, and are compared with the float model by numpy alone. The time is divided among the models still to come. What
cannot be measured (a package is missing, the time is over) has a row that says so. The table, its date and what it
says of the goals are written into docs/precision.md; rows are added to benchmarks/rows/precision.jsonl.

The goals: at least 1.5x within 1 % in the geometric mean over models of 1 ms and more, never below ONNX Runtime's own
best standard configuration that keeps the same error, and no model slower than float.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime import quantization

from ortune import platform
from precision_models import CASES, TOLERANCES, Feeds, Missing
from zoo import ZooError

KEPT = Path(__file__).resolve().parent / "rows" / "precision.jsonl"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "precision.md"
BEGIN, END = "<!-- measured: benchmarks/precision.py -->", "<!-- end of what was measured -->"
SHOWN, HELD_OUT = 48, 24
FEW = 8, 4
"""Inputs shown and held out where outputs mean nothing."""
ROUNDS, TURN_S, SETTLE_S = 8, 0.25, 0.05
OWN_S = 35.0
"""What a model takes beside ortune: ONNX Runtime's own quantizers, and all runs."""
LEAST_S, MOST_S = 30.0, 150.0
"""Budgets of ortune."""
WITHIN, AGREES, LEAST_NS = 0.01, 0.99, 1e6
LEAST_SCORE, HALF = 0.3, 0.5
rng = random.Random(5)


class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Inputs for ONNX Runtime's own quantizer."""

    def __init__(self, feeds: list[Feeds]) -> None:
        self._feeds, self._next, self._end = feeds, 0, len(feeds)

    def __len__(self) -> int:
        return len(self._feeds)

    def set_range(self, start_index: int, end_index: int) -> None:
        self._next, self._end = start_index, end_index

    def get_next(self) -> Feeds | None:
        if self._next >= self._end:
            return None
        self._next += 1
        return self._feeds[self._next - 1]


def own_settings(model: Path, feeds: list[Feeds], folder: Path) -> dict[str, Path]:
    """ONNX Runtime's quantizers with each standard configuration, as its documentation has them."""
    prepared, made = folder / "prepared.onnx", {}
    # Symbolic shapes fail on some models; none of these needs them.
    quantization.shape_inference.quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    u8, s8 = quantization.QuantType.QUInt8, quantization.QuantType.QInt8

    def static(activations: quantization.QuantType, per_channel: bool) -> Callable[[Path], None]:
        # One input at a time: what all of them leave inside a detector is more than memory holds.
        extra = {"CalibStridedMinMax": 1, "ActivationSymmetric": activations == s8}
        return lambda out: quantization.quantize_static(
            str(prepared), str(out), Reader(feeds), per_channel=per_channel, activation_type=activations,
            weight_type=s8, extra_options=extra,
        )  # fmt: skip

    settings: dict[str, Callable[[Path], None]] = {
        "dynamic": lambda out: quantization.quantize_dynamic(str(prepared), str(out), per_channel=True),
        "static U8S8 per channel": static(u8, True),
        "static S8S8 per channel": static(s8, True),
        "static U8S8 per tensor": static(u8, False),
    }
    for name, make in settings.items():
        out = folder / f"{name.replace(' ', '-')}.onnx"
        with contextlib.suppress(Exception):  # what it cannot make has no row
            make(out)
            ort.InferenceSession(str(out), providers=["CPUExecutionProvider"])
            made[name] = out
    return made


def timed(models: dict[str, Path], feeds: Feeds) -> dict[str, list[float]]:
    """Median seconds of a run, a number for each round: all models in one process, in turns of random order.

    Threads are as ONNX Runtime has them by default. They spin after a run, so a turn begins with runs that do not
    count: by then those of the session before it sleep.
    """
    sessions = {
        name: ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for name, path in models.items()
    }
    found: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        order = list(sessions)
        rng.shuffle(order)
        for name in order:
            run, times = sessions[name].run, []
            settled = time.perf_counter() + SETTLE_S
            run(None, feeds)
            while time.perf_counter() < settled:
                run(None, feeds)
            end = time.perf_counter() + TURN_S
            while time.perf_counter() < end or len(times) < 3:
                began = time.perf_counter()
                run(None, feeds)
                times.append(time.perf_counter() - began)
            found[name].append(statistics.median(times))
    return found


def judged(kind: str, reference: list[list[np.ndarray]], new: list[list[np.ndarray]]) -> dict[str, float]:
    """The largest relative L2 of an output and of a slice of its last axis, and how well the task is done.

    ``task`` is a share: of rows with the same largest score, of regions that are there again, or the correlation of
    ranks; 1 where outputs are waveforms, or mean nothing.
    """
    whole, piece = 0.0, 0.0
    for values, others in zip(reference, new, strict=True):
        for old, other in zip(values, others, strict=True):
            far = np.linalg.norm(other - old)
            whole = max(whole, float(far / max(np.linalg.norm(old), 1e-12)))
            if old.ndim > 1 and old.shape[-1] <= 64:
                columns = old.reshape(-1, old.shape[-1])
                apart = np.linalg.norm((other - old).reshape(columns.shape), axis=0)
                own = np.maximum(np.linalg.norm(columns, axis=0), 1e-2 * np.linalg.norm(columns))
                piece = max(piece, float((apart / np.maximum(own, 1e-12)).max()))
    pairs = [(values[0], others[0]) for values, others in zip(reference, new, strict=True)]
    return {"relative_l2": whole, "slice_l2": piece, "task": TASKS[kind](pairs)}


Pairs = Sequence[tuple[np.ndarray, np.ndarray]]


def same_best(pairs: Pairs) -> float:
    """The share of rows whose largest score is the same."""
    best = [(a.reshape(-1, a.shape[-1]).argmax(1), b.reshape(-1, b.shape[-1]).argmax(1)) for a, b in pairs]
    equal = np.concatenate([a == b for a, b in best])
    return float(equal.mean())


def regions(scores: np.ndarray) -> list[np.ndarray]:
    """The connected pixels of a map above the least score, a mask each."""
    labels = np.where(scores >= LEAST_SCORE, np.arange(1, scores.size + 1).reshape(scores.shape), 0)
    while True:
        padded = np.pad(labels, 1)
        near = [padded[1:-1, 1:-1], padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
        spread = np.where(labels > 0, np.max(near, axis=0), 0)
        if np.array_equal(spread, labels):
            break
        labels = spread
    masks = [labels == label for label in np.unique(labels) if label]
    return [mask for mask in masks if mask.sum() >= 9]


def same_regions(pairs: Pairs) -> float:
    """Regions of both maps that overlap by half, over those of either."""
    matched, total = 0, 0
    for a, b in pairs:
        ours, theirs = regions(a[0, 0]), regions(b[0, 0])
        hits = sum(any((x & y).sum() >= HALF * (x | y).sum() for y in theirs) for x in ours)
        matched, total = matched + hits, total + max(len(ours), len(theirs))
    return matched / max(1, total)


def same_ranks(pairs: Pairs) -> float:
    """Spearman's correlation of the cosines between all embeddings."""
    ranks = []
    for side in (0, 1):
        vectors = np.concatenate([pair[side].mean(axis=1) for pair in pairs])
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
        ranks.append(cosines.argsort().argsort())
    return float(np.corrcoef(*ranks)[0, 1])


TASKS: dict[str, Callable[[Pairs], float]] = {
    "top1": same_best,
    "boxes": same_regions,
    "ranks": same_ranks,
    "l2": lambda pairs: 1.0,
    "time": lambda pairs: 1.0,
}


def begun(name: str) -> dict[str, Any]:
    """What each row has."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "model": name, "ort": ort.__version__, "processor": processor(),
    }  # fmt: skip


def one(name: str, budget_s: float) -> dict[str, Any]:
    """A model's row; why there is none, where it cannot be."""
    case = CASES[name]
    row = begun(name)
    n_shown, n_held = FEW if case.kind == "time" else (SHOWN, HELD_OUT)
    try:
        model, feeds = case.model(), list(case.feeds(n_shown + n_held))
    except (Missing, ZooError) as error:
        return row | {"failed": str(error)}
    rng.shuffle(feeds)
    shown, held_out = feeds[:n_shown], feeds[n_shown:]
    with tempfile.TemporaryDirectory(prefix="ortune-precision-") as text:
        folder = Path(text)
        (folder / "data").mkdir()
        for number, values in enumerate(shown):
            np.savez(folder / "data" / f"{number:03d}.npz", **values)
        words = ["quantize", str(model), "--data", str(folder / "data"), *TOLERANCES[case.kind]]
        words += [
            "--budget",
            f"{budget_s:.0f}s",
            "--output",
            text,
            "--store",
            str(folder / "store"),
            "--json",
        ]
        command = [sys.executable, "-m", "ortune", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return row | {"failed": (done.stderr.strip().splitlines() or ["ortune said nothing"])[-1]}
        result = json.loads(done.stdout)["result"]
        models = {"float": model, **own_settings(model, shown, folder)}
        if result["bundle"]:
            bundle = Path(result["bundle"])
            models["ortune"] = bundle / json.loads((bundle / "ortune.json").read_text())["model"]
        runs = {label: outputs(path, held_out) for label, path in models.items()}
        times = timed(models, held_out[0])
        row |= {"budget_s": round(budget_s), "headline": result["headline"], "kind": case.kind}
        row["threads"] = "default"
        row["command"] = f"ortune quantize {name}.onnx --data data " + " ".join(
            f"'{word}'" if "=" in word else word for word in TOLERANCES[case.kind]
        )
        row["inputs"], row["checked"] = result["calibration"]["inputs"], result["calibration"]["checked"]
        row["kept"] = [
            {key: layer[key] for key in ("name", "error_ratio", "time_ratio", "reason")}
            for layer in result["layers"]
            if layer["n_kept"]
        ]
        row["models"] = {
            label: {
                "ns": 1e9 * statistics.median(times[label]),
                "ratio": statistics.median(a / b for a, b in zip(times[label], times["float"], strict=True)),
                **judged(case.kind, runs["float"], runs[label]),
            }
            for label in models
        }
    return row


def processor() -> str:
    """This processor by its name, with the instructions that integer kernels use."""
    host = platform.host()
    sets = {"VNNI": ("avx512_vnni", "avx_vnni"), "AMX": ("amx_int8",), "dot products": ("asimddp",)}
    there = [name for name, features in sets.items() if set(features) & set(host.features)]
    widest = [name for name in ("AVX512", "AVX2") if {name.lower(), f"{name.lower()}f"} & set(host.features)]
    words = [*widest[:1], *there]
    return f"{host.cpu} with {', '.join(words)}" + ("" if there else ", without VNNI")


def outputs(path: Path, feeds: list[Feeds]) -> list[list[np.ndarray]]:
    """What a model gives for each input."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [session.run(None, values) for values in feeds]


def is_right(seen: dict[str, float], kind: str) -> bool:
    """Whether a model keeps what was asked for."""
    if kind == "time":
        return True
    far = max(seen["relative_l2"], seen["slice_l2"])
    return far <= WITHIN if kind == "l2" else seen["task"] >= AGREES


def best_own(row: dict[str, Any]) -> str:
    """The fastest standard configuration of ONNX Runtime's quantizers that is right; "float" where none is faster."""
    right = [
        label for label, seen in row["models"].items() if label != "ortune" and is_right(seen, row["kind"])
    ]
    return min(right, key=lambda label: row["models"][label]["ratio"])


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each model: float, ONNX Runtime's best standard configuration, and what ortune made."""
    lines = [
        "| model | judged by | float | best standard configuration | ortune quantize | error (L2) | task |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "models" not in row:
            lines.append(f"| {row['model']} | not measured: {row['failed']} | | | | | |")
            continue
        models, own = row["models"], best_own(row)
        mine = models.get("ortune", models["float"])
        made = f"{1 / mine['ratio']:.2f}x" if "ortune" in models else "float kept"
        single = (
            f"{own}: {1 / models[own]['ratio']:.2f}x" if own != "float" else "none is accurate and faster"
        )
        error, done = (
            (f"{mine['relative_l2']:.2g}", f"{mine['task']:.4f}") if row["kind"] != "time" else ("", "")
        )
        kind = "time alone" if row["kind"] == "time" else row["kind"]
        lines.append(
            f"| {row['model']} | {kind} | {models['float']['ns'] / 1e6:.3g} ms | {single} | {made} | {error} | {done} |"
        )
    return lines


def goals(rows: list[dict[str, Any]]) -> list[str]:
    """What the rows say of the goals, a sentence each."""
    speeds: dict[bool, list[float]] = {False: [], True: []}
    below, slower, wrong = [], [], []
    for row in (row for row in rows if "models" in row):
        models = row["models"]
        mine = models.get("ortune", models["float"])
        right = is_right(mine, row["kind"])
        if models["float"]["ns"] >= LEAST_NS:
            speeds[row["kind"] == "time"].append(1 / mine["ratio"] if right else 1.0)
        wrong += [] if right else [row["model"]]
        below += [row["model"]] if mine["ratio"] > 1.02 * models[best_own(row)]["ratio"] else []
        slower += [row["model"]] if mine["ratio"] > 1.02 else []

    def mean(of: list[float]) -> str:
        return f"{statistics.geometric_mean(of):.2f}x over {len(of)} models" if of else "no model"

    return [
        f"Geometric mean over models of 1 ms or more, with real inputs: {mean(speeds[False])}; "
        f"time alone: {mean(speeds[True])}.",
        f"Beyond the tolerance on held-out inputs: {', '.join(wrong) or 'none'}.",
        f"Slower than ONNX Runtime's best standard configuration of the same error: {', '.join(below) or 'none'}.",
        f"Slower than float: {', '.join(slower) or 'none'}.",
    ]


WORDS = {
    "no-gain": "saves no time",
    "error": "adds too much error",
    "not-quantized": "this method does not quantize it",
}


def kept_layers(row: dict[str, Any]) -> list[str]:
    """The layers that the winner of a row keeps in float, a line for each reason."""
    lines = []
    for reason, words in WORDS.items():
        layers = [layer for layer in row["kept"] if layer["reason"] == reason]
        if layers:
            names = f"`{layers[0]['name']}`" + (f" and {len(layers) - 1} more" if layers[1:] else "")
            share = sum(layer["time_ratio"] or 0.0 for layer in layers)
            lines.append(f"- {row['model']}, {names} ({100 * share:.0f} % of the run time): {words}")
    return lines


def fastest_beyond(row: dict[str, Any]) -> str:
    """The fastest standard configuration where it is wrong, with how well the task is done; "" where it is right."""
    models, kind = row["models"], row["kind"]
    label = min((each for each in models if each != "ortune"), key=lambda each: models[each]["ratio"])
    seen = models[label]
    if is_right(seen, kind):
        return ""
    far = max(seen["relative_l2"], seen["slice_l2"])
    how = f"error {100 * far:.0f} %" if kind == "l2" else f"{kind} {seen['task']:.2f}"
    return f"- {row['model']}: {label}, {1 / seen['ratio']:.2f}x, {how}"


def page(groups: list[list[dict[str, Any]]]) -> list[str]:
    """The section of the page; each kind of processor has a part, the newest first."""
    all_rows = [row for rows in groups for row in rows if "models" in row]
    budgets = [row["budget_s"] for row in all_rows]
    text = (
        f"`python benchmarks/precision.py` gave {SHOWN} inputs to `ortune quantize`, with a budget of {min(budgets)} "
        f"to {max(budgets)} s; errors and task metrics were measured on {HELD_OUT} other inputs. The standard "
        "configurations are those of ONNX Runtime's quantizers (dynamic, static U8S8 and S8S8 per channel, static U8S8 "
        "per tensor); the fastest accurate one is named. All models ran in one process, in turns."
    )
    commands = dict(reversed([(row["model"], row["command"]) for row in all_rows]))
    return [
        BEGIN,
        "## 5. What was measured",
        "",
        *textwrap.wrap(text, 120, break_on_hyphens=False),
        "",
        *(line for rows in groups for line in part(rows)),
        "```",
        *(commands[name] for name in CASES if name in commands),
        "```",
        END,
    ]


def part(rows: list[dict[str, Any]]) -> list[str]:
    """What was measured on one kind of processor."""
    seen = [row for row in rows if "models" in row]
    kept = [line for row in seen if "ortune" in row["models"] for line in kept_layers(row)]
    beyond = [line for line in map(fastest_beyond, seen) if line]
    dates = sorted({row["date"] for row in rows})
    text = f"Measured {' and '.join(dates)} with onnxruntime {rows[0]['ort']} on {rows[0]['processor']}."
    if any("threads" not in row for row in seen):
        text += " Threads did not spin, so models of many small nodes are slower than usual."
    return [
        f"### {rows[0]['processor']}",
        "",
        *textwrap.wrap(text, 120, break_on_hyphens=False),
        "",
        *table(rows),
        "",
        *(f"- {sentence}" for sentence in goals(rows)),
        "",
        *(
            ["The fastest standard configuration, where it is beyond the tolerance:", "", *beyond, ""]
            if beyond
            else []
        ),
        *(
            ["Groups of layers that the winners keep in float, each named by its first layer:", "", *kept, ""]
            if kept
            else []
        ),
    ]


def write_page(lines: list[str]) -> None:
    """Puts the section into the page, in the place of an earlier one."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2].strip()
    parts = [before.rstrip(), "\n".join(lines), after]
    PAGE.write_text("\n\n".join(filter(None, parts)) + "\n", encoding="utf-8")


def newest(file: Path) -> list[list[dict[str, Any]]]:
    """The newest row of each model, one that holds figures where there is one; a list for each processor."""
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rows = groups.pop(row["processor"], {})
        if "models" in row or "models" not in rows.get(row["model"], {}):
            rows[row["model"]] = row
        groups[row["processor"]] = rows
    return [[rows[name] for name in CASES if name in rows] for rows in reversed(groups.values())]


def main() -> int:
    """Measures each model, and prints all rows as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=list(CASES))
    parser.add_argument("--minutes", type=float, default=25.0, help="for everything")
    parser.add_argument("--rows", type=Path, default=KEPT)
    parser.add_argument(
        "--page-again",
        action="store_true",
        help="write the page from the newest row of each model; measure nothing",
    )
    parser.add_argument("--no-page", action="store_true", help="leave docs/precision.md as it is")
    asked = parser.parse_args()
    if asked.page_again:
        write_page(page(newest(asked.rows)))
        return 0
    # The last model may take longer than its part.
    end, rows = time.monotonic() + 60 * asked.minutes - OWN_S, []
    for number, name in enumerate(asked.models):
        weights = [CASES[other].weight for other in asked.models[number:]]
        left_s = (end - time.monotonic()) * weights[0] / sum(weights)
        budget_s = min(MOST_S, left_s - OWN_S)
        if budget_s < LEAST_S:
            row = begun(name) | {"failed": "the time was over"}
        else:
            print(f"{name}: {budget_s:.0f} s for ortune", file=sys.stderr, flush=True)
            row = one(name, budget_s)
        if "failed" in row:
            print(f"{name} HAS NO ROW: {row['failed']}", file=sys.stderr, flush=True)
        rows.append(row)
        asked.rows.parent.mkdir(parents=True, exist_ok=True)
        with asked.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    print("\n".join([*table(rows), "", *goals(rows)]))
    if not asked.no_page:
        write_page(page(newest(asked.rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
