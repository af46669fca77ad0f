"""Does precision layer by layer pay, on real inputs? Run by hand, on a quiet machine: one command, two hours in all.

    python benchmarks/precision.py [--minutes 120] [--models magika,ppocrv4-rec] [--campaign NAME] [--no-page]
    python benchmarks/precision.py --fetch [--models ...]

Models are measured in order of worth; the page has the newest row of each model on each kind of processor. Each row is
written as soon as it is measured, with the page. A model that has a row of the same campaign on this kind of processor
is not measured again, so a command that was interrupted, or whose time was over, continues when it is run once more.
The campaign's name is the date by default. `--fetch` gets models, inputs, OpenVINO and NNCF, and measures nothing.

`ortune quantize` makes two models of each: the best one in the user's own onnxruntime, and the best one with another
package. Everything else is other code than its own: inputs are made here (files of this machine, rendered text, speech,
sentences, photos, digits), of which a part is never shown to it. The peers are ONNX Runtime's own quantizers with each
standard configuration of theirs, OpenVINO as it comes, and NNCF's model on the CPU provider and on OpenVINO. Each model
runs in a process of its own, in turns of random order, and is compared with the float model by numpy alone. The time is
divided among the models still to come. What cannot be measured (a package is missing) has a row with the reason. The
table, its date and what it says of the goals are written into docs/precision.md; rows are added to
benchmarks/rows/precision.jsonl.

The goals: at least 2x within 1 % in the geometric mean over models of 1 ms and more with real inputs, given with and
without another package; no row slower than OpenVINO as it comes, than NNCF's model, or than ONNX Runtime's own best
standard configuration, where these are accurate; no model slower than float. The best model of a row that misses is
profiled, and the row has its slowest layers with number type and time.
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
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime import quantization

import precision_notes
from ortune import platform
from ortune.errors import OrtuneError
from ortune.runtimes import made
from ortune.show.numbers import shorten
from precision_models import CASES, LABEL, TOLERANCES, Feeds, Missing
from zoo import ZooError

KEPT = Path(__file__).resolve().parent / "rows" / "precision.jsonl"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "precision.md"
BEGIN, END = "<!-- measured: benchmarks/precision.py -->", "<!-- end of what was measured -->"
SHOWN, HELD_OUT = 48, 24
FEW = 8, 4
"""Inputs shown and held out where outputs mean nothing."""
ROUNDS, TURN_S, SETTLE_S = 8, 0.25, 0.05
OWN_S = 90.0
"""What a model takes beside ortune: the peers' quantizers, and all runs."""
LEAST_S, MOST_S = 240.0, 400.0
"""Budgets of ortune, for both of its models."""
PROFILE, LEAST_SHARE, MOST_LAYERS = "25s", 0.01, 3
"""Budget of a profile, the least share of the time of a layer in a row, and the layers that the page names."""
WITHIN, AGREES, LEAST_NS = 0.01, 0.99, 1e6
GOAL, ALIKE = 2.0, 1.02
OWN, OTHER = "ortune", "ortune, another package"
ELSEWHERE = ("OpenVINO as it comes", "NNCF", "NNCF on OpenVINO")
ON_OPENVINO = ("OpenVINO as it comes", "NNCF on OpenVINO")
OPENVINO = "OpenVINOExecutionProvider"
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


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A model, and where it runs.

    Attributes:
        path: The model, or a bundle with its ``load.py``.
        python: The interpreter.
        provider: The execution provider of a model.
    """

    path: Path
    python: str = sys.executable
    provider: str = "CPUExecutionProvider"


class Process:
    """A process of ``precision_process.py``."""

    def __init__(self, runs: Runs, feeds: list[Path]) -> None:
        place = {"bundle": str(runs.path)} if runs.path.is_dir() else {"model": str(runs.path)}
        about = {**place, "provider": runs.provider, "feeds": [str(path) for path in feeds]}
        command = [runs.python, str(Path(__file__).with_name("precision_process.py")), json.dumps(about)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._answer("ready")

    def _answer(self, wanted: str = "") -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not wanted or line.strip() == wanted:
                return line.strip()
        raise OSError(f"the process of the model ended with exit code {self._process.wait()}")

    def _ask(self, command: str, wanted: str = "") -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer(wanted)

    def turn(self) -> float:
        """Median seconds of a run."""
        return float(self._ask(f"turn {TURN_S} {SETTLE_S}"))

    def outputs(self, path: Path) -> list[list[np.ndarray]]:
        """What the model gives for each input."""
        self._ask(f"outputs {path}", "written")
        found: dict[int, list[np.ndarray]] = {}
        with np.load(path) as arrays:
            for name in sorted(arrays, key=lambda name: tuple(map(int, name.split(".")))):
                found.setdefault(int(name.partition(".")[0]), []).append(arrays[name])
        return list(found.values())

    def end(self) -> None:
        """End it, and wait until it has ended."""
        self._process.kill()
        self._process.wait()


def timed(processes: dict[str, Process], failed: dict[str, str]) -> dict[str, list[float]]:
    """Median seconds of a run, a number for each round, in turns of random order.

    A process that ends meanwhile is left out, and ``failed`` has its reason. Threads are as each runtime has them by
    default. They spin after a run, so a turn begins with runs that do not count: by then those of the process before
    it sleep.
    """
    found: dict[str, list[float]] = {name: [] for name in processes}
    for _ in range(ROUNDS):
        order = list(found)
        rng.shuffle(order)
        for name in order:
            try:
                found[name].append(processes[name].turn())
            except OSError as error:
                failed[name] = f"it ended while it was timed: {error}"
                del found[name]
    return found


def peers(
    model: Path, shown: list[Feeds], data: Path, folder: Path
) -> tuple[dict[str, Runs], dict[str, str]]:
    """What others make of a model, and why they make nothing."""
    found = {name: Runs(path=path) for name, path in own_settings(model, shown, folder).items()}
    failed: dict[str, str] = {}
    try:
        openvino = made.require_installed("openvino", print_error).runtime.python
        found["OpenVINO as it comes"] = Runs(path=model, python=openvino, provider=OPENVINO)
    except OrtuneError as error:
        failed["OpenVINO as it comes"] = error.what
    try:
        made.require_installed("nncf", print_error)
    except OrtuneError as error:
        return found, failed | {"NNCF": error.what}
    path = folder / "nncf.onnx"
    # However large its error is: the race judges it.
    words = ["rewrite", str(model), "nncf-int8", "--inputs", str(data), "--output", str(path), "--force"]
    words += ["--tolerance", "1000"]
    _, why = ortune(*words)
    if not path.is_file():
        return found, failed | {"NNCF": why or "it wrote no model"}
    found["NNCF"] = Runs(path=path)
    if "OpenVINO as it comes" in found:
        found["NNCF on OpenVINO"] = Runs(path=path, python=openvino, provider=OPENVINO)
    return found, failed


def print_error(text: str) -> None:
    """Progress of what is installed."""
    print(text, file=sys.stderr, flush=True)


def judged(
    kind: str, reference: list[list[np.ndarray]], new: list[list[np.ndarray]], truths: list[Any]
) -> dict[str, float]:
    """The largest relative L2 of an output and of a slice of its last axis, and how well the task is done.

    ``task`` is a share: of rows with the same largest score, of regions that are there again, or the correlation of
    ranks; of notes, the F1 score relative to that of float; 1 where outputs are waveforms, or mean nothing.
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
    if kind == "notes":
        task = found_notes([values[1] for values in new], truths)
        return {
            "relative_l2": whole, "slice_l2": piece,
            "task": task / found_notes([values[1] for values in reference], truths), "f1": task,
        }  # fmt: skip
    return {"relative_l2": whole, "slice_l2": piece, "task": TASKS[kind](pairs)}


def found_notes(scores: list[np.ndarray], truths: list[np.ndarray]) -> float:
    """The F1 score of all pitches in all frames."""
    return precision_notes.score(np.stack([each[0] for each in scores]), np.stack(truths) > 0)


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
    "symbols": same_best,
    "boxes": same_regions,
    "ranks": same_ranks,
    "l2": lambda pairs: 1.0,
    "time": lambda pairs: 1.0,
}


def begun(name: str, campaign: str) -> dict[str, Any]:
    """What each row has."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "campaign": campaign, "model": name, "ort": ort.__version__,
        "processor": processor(),
    }  # fmt: skip


def ortune(*words: str) -> tuple[dict[str, Any] | None, str]:
    """The result of a command, and ""; None and its last line where it fails."""
    command = [sys.executable, "-m", "ortune", *words, "--json"]
    here = Path(__file__).resolve().parent  # where its metrics are
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)
    try:
        document = json.loads(done.stdout)
    except ValueError:  # it ended in an internal error
        return None, (done.stderr.strip().splitlines() or ["ortune said nothing"])[-1]
    if document["result"] is None:
        return None, document["error"]["what"]
    return document["result"], ""


def shown_and_held(name: str) -> tuple[Path, list[Feeds], list[Feeds]]:
    """A model, the inputs that ortune gets, and those that it never gets."""
    case = CASES[name]
    n_shown, n_held = FEW if case.kind == "time" else (SHOWN, HELD_OUT)
    model, feeds = case.model().resolve(), list(case.feeds(n_shown + n_held))
    rng.shuffle(feeds)
    return model, feeds[:n_shown], feeds[n_shown:]


def one(name: str, budget_s: float, campaign: str) -> dict[str, Any]:
    """A model's row; why there is none, where it cannot be."""
    case = CASES[name]
    row = begun(name, campaign)
    try:
        model, shown, held_out = shown_and_held(name)
    except (Missing, ZooError) as error:
        return row | {"failed": str(error)}
    with tempfile.TemporaryDirectory(prefix="ortune-precision-") as text:
        folder = Path(text)
        saved(shown, folder / "data")
        truths = [values.get(LABEL) for values in held_out]
        shown, held_out = unlabelled(shown), unlabelled(held_out)
        data, held = saved(shown, folder / "bare"), saved(held_out, folder / "held")
        others, row["not_made"] = peers(model, shown, folder / "bare", folder)
        models = {"float": Runs(path=model), **others}
        # One store for both, as a user has: the second search skips what the first has shown to be worse.
        words = ["quantize", str(model), "--data", str(folder / "data"), *TOLERANCES[case.kind]]
        words += ["--budget", f"{budget_s / 2:.0f}s", "--store", str(folder / "store")]
        results: dict[str, Any] = {}
        for label, target in {OWN: "cpu", OTHER: "openvino"}.items():
            if label == OTHER and "OpenVINO as it comes" not in models:
                row["not_made"][label] = "OpenVINO is missing"
                continue
            print(f"{name}: {label}", file=sys.stderr, flush=True)
            result, why = ortune(*words, "--targets", target, "--output", str(folder / target))
            if result is None:
                row["not_made"][label] = why
                continue
            results[label] = result
            if result["bundle"]:
                on_other = bool(result["winner"].get("providers"))
                python = models["OpenVINO as it comes"].python if on_other else sys.executable
                models[label] = Runs(path=Path(result["bundle"]), python=python)
        if OWN not in results:
            return row | {"failed": row["not_made"][OWN]}
        given, times, stopped = raced(models, held, folder)
        row["not_made"] |= stopped
        if "float" in stopped:
            return row | {"failed": f"float: {stopped['float']}"}
        row |= {"budget_s": round(budget_s / 2), "kind": case.kind, "threads": "default"}
        row["headline"] = {label: result["headline"] for label, result in results.items()}
        row["command"] = f"ortune quantize {name}.onnx --data data " + " ".join(
            f"'{word}'" if "=" in word else word for word in TOLERANCES[case.kind]
        )
        calibration = results[OWN]["calibration"]
        row["inputs"], row["checked"] = calibration["inputs"], calibration["checked"]
        kept = {label: kept_in_float(result) for label, result in results.items()}
        row["tested"] = {label: tested(result) for label, result in results.items()}
        row["kept"], row["kept_with_another_package"] = kept[OWN], kept.get(OTHER, [])
        row["models"] = {
            label: {
                "ns": 1e9 * statistics.median(seen),
                "ratio": statistics.median(ratios := [a / b for a, b in zip(seen, times["float"], strict=True)]),
                "lowest": min(ratios), "highest": max(ratios),
                **judged(case.kind, given["float"], given[label], truths),
            }
            for label, seen in times.items()
        }  # fmt: skip
        if misses(row):
            best = best_label(row, OTHER)
            row["best"] = best
            row["layers"], row["layers_note"] = slowest_layers(models[best].path, data[0], folder)
    return row


def unlabelled(feeds: list[Feeds]) -> list[Feeds]:
    """The inputs that a model reads."""
    return [{name: values for name, values in each.items() if name != LABEL} for each in feeds]


def saved(feeds: list[Feeds], folder: Path) -> list[Path]:
    """The inputs as files."""
    folder.mkdir()
    paths = [folder / f"{number:03d}.npz" for number in range(len(feeds))]
    for path, values in zip(paths, feeds, strict=True):
        np.savez(path, **values)
    return paths


def raced(
    models: dict[str, Runs], feeds: list[Path], folder: Path
) -> tuple[dict[str, list[list[np.ndarray]]], dict[str, list[float]], dict[str, str]]:
    """The outputs and the times of each model that runs, and why the others do not."""
    processes: dict[str, Process] = {}
    given: dict[str, list[list[np.ndarray]]] = {}
    failed: dict[str, str] = {}
    try:
        for label, runs in models.items():
            try:
                processes[label] = Process(runs, feeds)
                given[label] = processes[label].outputs(folder / "outputs.npz")
            except OSError as error:
                failed[label] = str(error)
        times = timed({label: processes[label] for label in given}, failed)
        for label, why in failed.items():
            print_error(f"{label}: {why}")
        return given, times, failed
    finally:
        for process in processes.values():
            process.end()


def kept_in_float(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The groups of layers that a winner keeps in float."""
    return [
        {key: layer.get(key) for key in ("name", "error_ratio", "time_ratio", "reason")}
        for layer in result["layers"]
        if layer.get("n_kept")
    ]


def tested(result: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """The number types and the quantized files that were tested on each provider, and those without time."""
    found: dict[str, dict[str, list[str]]] = {}
    for method in result["methods"]:
        plan = method["plan"]
        where = next((provider["name"] for provider in plan.get("providers", ())), "CPUExecutionProvider")
        of = found.setdefault(where, {"types": [], "files": [], "untested": []})
        types = [str(value) for name, value in plan.get("settings", {}).items() if "precision" in name]
        spec = (plan.get("rewrites") or [None])[-1]
        name = spec["name"] if spec else "+".join(types)
        of["untested" if not method.get("tested", True) else "files" if spec else "types"].append(name)
    return found


def slowest_layers(model: Path, feed: Path, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """The layers of a model with their number types and shares of the time, slowest first; [] and why without them."""
    words = ["profile", str(model), "--inputs", str(feed), "--budget", PROFILE, "--no-peak"]
    result, why = ortune(*words, "--store", str(folder / "store"))
    if result is None:
        return [], why
    compiled = result.get("compiled")
    if compiled:
        rows = [
            (layer["name"], layer["kind"], layer["precision"], layer["time_ns"])
            for layer in compiled["layers"]
        ]
    elif any("subgraph" in node["op_type"] for node in result["nodes"]):
        return [], "; ".join(result.get("notes", []))
    else:
        rows = [
            (node["name"], node["op_type"], node.get("precision", ""), node["time_ns"])
            for node in result["nodes"]
        ]
    whole = sum(ns for *_, ns in rows) or 1.0
    rows.sort(key=lambda row: -row[3])
    layers = [
        {"name": name, "kind": kind, "type": precision, "share": ns / whole}
        for name, kind, precision, ns in rows
        if ns >= LEAST_SHARE * whole
    ]
    return layers, ""


def processor() -> str:
    """This processor by its name, with the instructions that integer kernels use."""
    host = platform.host()
    sets = {"VNNI": ("avx512_vnni", "avx_vnni"), "AMX": ("amx_int8",), "dot products": ("asimddp",)}
    there = [name for name, features in sets.items() if set(features) & set(host.features)]
    widest = [name for name in ("AVX512", "AVX2") if {name.lower(), f"{name.lower()}f"} & set(host.features)]
    words = [*widest[:1], *there]
    return f"{host.cpu} with {', '.join(words)}" + ("" if there else ", without VNNI")


def is_right(seen: dict[str, float], kind: str) -> bool:
    """Whether a model keeps what was asked for."""
    if kind == "time":
        return True
    far = max(seen["relative_l2"], seen["slice_l2"])
    return far <= WITHIN if kind == "l2" else seen["task"] >= AGREES


def best_own(row: dict[str, Any]) -> str:
    """The fastest standard configuration of ONNX Runtime's quantizers that is right; "float" where none is faster."""
    right = [
        label
        for label, seen in row["models"].items()
        if label not in (OWN, OTHER, *ELSEWHERE) and is_right(seen, row["kind"])
    ]
    return min(right, key=lambda label: row["models"][label]["ratio"])


def speed_up(row: dict[str, Any], label: str) -> str:
    """How many times as fast as float a model is, with a mark if it is beyond the tolerance; "-" for none."""
    seen = row["models"].get(label)
    if seen is None:
        return "-"
    return f"{1 / seen['ratio']:.2f}x" + ("" if is_right(seen, row["kind"]) else " (wrong)")


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each model: float, ONNX Runtime's best standard configuration, other peers, and what ortune made."""
    lines = [
        "| model | judged by | float | best standard configuration | OpenVINO | NNCF | NNCF on OpenVINO "
        "| ortune quantize | with another package | error (L2) | task |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "models" not in row:
            lines.append(f"| {row['model']} | not measured: {row['failed']} | | | | | | | | | |")
            continue
        models, own = row["models"], best_own(row)
        mine = models.get(OWN, models["float"])
        single = (
            f"{own}: {1 / models[own]['ratio']:.2f}x" if own != "float" else "none is accurate and faster"
        )
        error, done = (
            (f"{mine['relative_l2']:.2g}", f"{mine['task']:.4f}") if row["kind"] != "time" else ("", "")
        )
        kind = "time alone" if row["kind"] == "time" else row["kind"]
        peers_of = " | ".join(speed_up(row, label) for label in ELSEWHERE)
        made_of = f"{made_in(row, OWN)} | {made_in(row, OTHER)}"
        lines.append(
            f"| {row['model']} | {kind} | {models['float']['ns'] / 1e6:.3g} ms | {single} | {peers_of} | {made_of} "
            f"| {error} | {done} |"
        )
    return lines


def made_in(row: dict[str, Any], label: str) -> str:
    """The speed-up of what ortune made, with its error where another package runs it; "-" where that is not here."""
    models = row["models"]
    if label in models:
        error = models[label]["relative_l2"]
        more = f", error {error:.2g}" if label == OTHER and row["kind"] != "time" else ""
        return speed_up(row, label) + more
    if label in row.get("not_made", ()):
        return "-"
    return "float kept" if label == OWN or ELSEWHERE[0] in models else "-"


def goals(rows: list[dict[str, Any]]) -> list[str]:
    """What the rows say of the goals, a sentence each."""
    measured = [row for row in rows if "models" in row]
    sentences = []
    for label, words in ((OWN, "in your own onnxruntime"), (OTHER, "with another package")):
        speeds = {
            row["model"]: (row["kind"], 1 / best_made(row, label)["ratio"])
            for row in measured
            if row["models"]["float"]["ns"] >= LEAST_NS
        }
        real = [speed for kind, speed in speeds.values() if kind != "time"]
        # Its error as L2 is beyond 1 %; the F1 score of its notes is not.
        other = [speed for kind, speed in speeds.values() if kind not in ("time", "notes")]
        without = f", without basic-pitch {mean(other)}" if len(other) < len(real) else ""
        sentences.append(
            f"Geometric mean {words}, over models of 1 ms or more, with real inputs: {mean(real)} (goal: {GOAL:g}x)"
            f"{without}; time alone: {mean([speed for kind, speed in speeds.values() if kind == 'time'])}."
        )
    wrong = [
        row["model"]
        for row in measured
        if not is_right(row["models"].get(OWN, row["models"]["float"]), row["kind"])
    ]
    slower = [
        row["model"] for row in measured if row["models"].get(OWN, row["models"]["float"])["ratio"] > ALIKE
    ]
    return [
        *sentences,
        f"Beyond the tolerance on held-out inputs: {', '.join(wrong) or 'none'}.",
        f"Slower than an accurate peer: {', '.join(filter(None, map(behind, measured))) or 'none'}.",
        f"Slower than float: {', '.join(slower) or 'none'}.",
        *filter(None, map(missed, measured)),
    ]


def mean(of: list[float]) -> str:
    """The geometric mean in words."""
    return f"{statistics.geometric_mean(of):.2f}x over {len(of)} models" if of else "no model"


def best_label(row: dict[str, Any], label: str) -> str:
    """What ortune made, with another package the faster one of both; float if nothing accurate was made."""
    models = row["models"]
    made = [each for each in (OWN, label) if each in models and is_right(models[each], row["kind"])]
    # Where no model was made in the user's own onnxruntime, float is what the user has there.
    candidates = made if OWN in made else ["float", *made]
    return min(candidates, key=lambda each: models[each]["ratio"])


def best_made(row: dict[str, Any], label: str) -> dict[str, Any]:
    """The figures of it."""
    figures: dict[str, Any] = row["models"][best_label(row, label)]
    return figures


def behind(row: dict[str, Any]) -> str:
    """The accurate peers that are faster than what ortune made where they run; "" if none is."""
    models, faster = row["models"], []
    for peer in (best_own(row), *ELSEWHERE):
        mine = best_made(row, OTHER if peer in ON_OPENVINO else OWN)
        seen = models.get(peer)
        if seen is not None and is_right(seen, row["kind"]) and mine["ratio"] > ALIKE * seen["ratio"]:
            faster.append(f"{peer} {1 / seen['ratio']:.2f}x against {1 / mine['ratio']:.2f}x")
    return f"{row['model']} ({'; '.join(faster)})" if faster else ""


def misses(row: dict[str, Any]) -> bool:
    """Whether a model with real inputs stays below the goal."""
    models = row["models"]
    slow = models["float"]["ns"] >= LEAST_NS and 1 / best_made(row, OTHER)["ratio"] < GOAL
    return slow and row["kind"] != "time"


def missed(row: dict[str, Any]) -> str:
    """Why a model stays below the goal: its layers with number types and times, and why layers are in float."""
    if not misses(row):
        return ""
    parts = []
    if row.get("layers"):
        shares: dict[str, float] = {}
        for layer in row["layers"]:
            shares[layer["type"] or "no type"] = shares.get(layer["type"] or "no type", 0.0) + layer["share"]
        types = ", ".join(
            f"{100 * share:.0f} % in {name}"
            for name, share in sorted(shares.items(), key=lambda pair: -pair[1])
        )
        slowest = ", ".join(
            f"`{shorten(layer['name'], 60)}` ({layer['kind']} in {layer['type'] or 'no type'}, "
            f"{100 * layer['share']:.0f} %)"
            for layer in row["layers"][:MOST_LAYERS]
        )
        parts.append(f"its time is {types}; the slowest layers are {slowest}")
    elif row.get("layers_note"):
        parts.append(f"the times of its layers are unknown ({row['layers_note']})")
    reasons: dict[str, float] = {}
    best = row.get("best", OWN)
    for layer in row["kept_with_another_package"] if best == OTHER else row["kept"]:
        reasons[layer["reason"]] = reasons.get(layer["reason"], 0.0) + (layer["time_ratio"] or 0.0)
    parts += [
        f"{100 * share:.0f} % of the time of float is in layers that stay in float, because {WORDS[reason]}"
        if share
        else f"layers stay in float, because {WORDS[reason]}"
        for reason, share in reasons.items()
        if reason in WORDS
    ]
    why = "; ".join(parts) or "no layer was kept in float, so the kernels themselves gain no more"
    return f"{row['model']} is below the goal at {1 / best_made(row, OTHER)['ratio']:.2f}x: {why}."


WORDS = {
    "no-gain": "8 bits save no time",
    "error": "8 bits add too much error",
    "not-quantized": "this method does not quantize them",
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
    label = min(
        (each for each in models if each not in (OWN, OTHER, *ELSEWHERE)),
        key=lambda each: models[each]["ratio"],
    )
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
        "per tensor); the fastest accurate one is named. Each model ran in a process of its own, in turns."
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
    kept = [line for row in seen if OWN in row["models"] for line in kept_layers(row)]
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


def wanted(text: str) -> list[str]:
    """The names of models in a list."""
    names = text.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no model {', '.join(unknown)}; there are {', '.join(CASES)}")
    return names


def fetch(names: Sequence[str]) -> int:
    """Gets everything that measuring needs."""
    missing = 0
    for name in names:
        try:
            model, shown, held_out = shown_and_held(name)
            print(f"{name}: {model}, {len(shown) + len(held_out)} inputs", flush=True)
        except (Missing, ZooError) as error:
            print(f"{name} is MISSING: {error}", flush=True)
            missing += 1
    for name in ("openvino", "nncf"):
        try:
            print(f"{name}: {made.require_installed(name, print_error).runtime.python}", flush=True)
        except OrtuneError as error:
            print(f"{name} is MISSING: {error}", flush=True)
            missing += 1
    return 1 if missing else 0


def rows_of(file: Path, campaign: str) -> list[dict[str, Any]]:
    """The rows with figures of a campaign on this kind of processor."""
    if not file.is_file():
        return []
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [
        row
        for row in rows
        if row.get("campaign") == campaign and row["processor"] == processor() and "models" in row
    ]


def main() -> int:
    """Measures each model, and prints all rows as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=wanted, default=list(CASES), help="names, joined by commas")
    parser.add_argument("--minutes", type=float, default=120.0, help="for everything")
    parser.add_argument("--campaign", default=f"{datetime.now(UTC):%Y-%m-%d}", help="rows of it are kept")
    parser.add_argument("--rows", type=Path, default=KEPT)
    parser.add_argument("--fetch", action="store_true", help="get models and packages; measure nothing")
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
    if asked.fetch:
        return fetch(asked.models)
    end = time.monotonic() + 60 * asked.minutes
    there = {row["model"] for row in rows_of(asked.rows, asked.campaign)}
    names = [name for name in asked.models if name not in there]
    for number, name in enumerate(names):
        weights = [CASES[other].weight for other in names[number:]]
        left_s = (end - time.monotonic()) * weights[0] / sum(weights)
        # A model with too short a part takes that of those after it, which are less worth.
        budget_s = min(MOST_S, max(left_s, min(LEAST_S + OWN_S, end - time.monotonic())) - OWN_S)
        if budget_s < LEAST_S:
            print_error(f"the time is over; not measured: {', '.join(names[number:])}")
            break
        print_error(f"{name}: {budget_s:.0f} s for ortune")
        row = one(name, budget_s, asked.campaign)
        if "failed" in row:
            print_error(f"{name} HAS NO ROW: {row['failed']}")
        asked.rows.parent.mkdir(parents=True, exist_ok=True)
        with asked.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if not asked.no_page:
            write_page(page(newest(asked.rows)))
    rows = rows_of(asked.rows, asked.campaign)
    print("\n".join([*table(rows), "", *goals(rows)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
