"""Does precision layer by layer pay, on real inputs? Run by hand, on a quiet machine; some minutes a model.

    python benchmarks/precision.py [--budget 300] [--page] [magika ppocrv4-rec ...]

`ortune quantize` makes a model of each. Everything else is other code than its own: inputs are made here (files of this
machine, rendered text), of which a part is never shown to it; ONNX Runtime's own quantizers are called with each single
setting that they are known for; all models then run in one process, in turns of random order, and are compared with the
float model by numpy alone. Rows are kept in a file: what was measured before is not measured again. With --page the row
of magika becomes the worked example of docs/precision.md.

The goals: at least 1.5x within 1 % in the geometric mean over models of 1 ms and more, never below ONNX Runtime's own
best single setting that keeps the same error, and no model slower than float.
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
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime import quantization

from common import model_path

Feeds = dict[str, np.ndarray]
KEPT = Path(__file__).resolve().parent / "rows" / "precision.jsonl"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "precision.md"
BEGIN, END = "<!-- example: benchmarks/precision.py --page -->", "<!-- end of the example -->"
EXAMPLE = "magika"
SHOWN, HELD_OUT = 48, 24
ROUNDS, TURN_S = 12, 0.25
rng = random.Random(5)


def file_bytes(count: int) -> Iterator[Feeds]:
    """The beginning and the end of files of this machine, as magika reads them."""
    places = [*sys.path, "/usr/share", "/usr/lib", "/etc"]
    files = [p for place in places for p in Path(place).glob("*/*") if p.is_file()]
    kinds: dict[str, list[Path]] = {}
    for path in files:
        kinds.setdefault(path.suffix, []).append(path)
    for one in kinds.values():
        rng.shuffle(one)
    order = [path for row in zip(*(one[:8] * 8 for one in kinds.values()), strict=False) for path in row]
    made = 0
    for path in order:
        try:
            data = path.read_bytes().strip()
        except OSError:
            continue
        if len(data) < 16:
            continue
        values = np.full(2048, 256, np.int32)
        head, tail = data[:1024], data[-1024:]
        values[: len(head)] = list(head)
        values[2048 - len(tail) :] = list(tail)
        yield {"bytes": values[None]}
        made += 1
        if made == count:
            return


TEXT = (
    "the quick brown fox jumps over a lazy dog invoice total amount due date number payment Berlin 2024 1,250.00 EUR "
    "price order customer street city reference account bank transfer item quantity unit"
)


def text_lines(count: int) -> Iterator[Feeds]:
    """Lines of rendered text, as a recogniser gets them from a detector; needs Pillow and DejaVu fonts."""
    from PIL import Image, ImageDraw, ImageFont

    fonts = [p for p in Path("/usr/share/fonts/truetype/dejavu").glob("*.ttf") if "Math" not in p.name]
    for _ in range(count):
        font = ImageFont.truetype(str(rng.choice(fonts)), rng.randint(24, 32))
        text = " ".join(rng.choice(TEXT.split()) for _ in range(3))[:22]
        image = Image.new("RGB", (320, 48), (rng.randint(220, 255),) * 3)
        place = (rng.randint(2, 10), rng.randint(4, 10))
        ImageDraw.Draw(image).text(place, text, fill=(rng.randint(0, 60),) * 3, font=font)
        pixels = (np.asarray(image, np.float32)[:, :, ::-1] / 255 - 0.5) / 0.5
        yield {"x": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])}


def text_pages(count: int) -> Iterator[Feeds]:
    """Pages with lines of text, as a detector gets them; needs Pillow and DejaVu fonts."""
    from PIL import Image, ImageDraw, ImageFont

    fonts = [p for p in Path("/usr/share/fonts/truetype/dejavu").glob("*.ttf") if "Math" not in p.name]
    for _ in range(count):
        image = Image.new("RGB", (320, 320), (rng.randint(220, 255),) * 3)
        draw = ImageDraw.Draw(image)
        for y in range(10, 290, rng.randint(28, 60)):
            font = ImageFont.truetype(str(rng.choice(fonts)), rng.randint(12, 24))
            text = " ".join(rng.choice(TEXT.split()) for _ in range(3))
            draw.text((rng.randint(5, 60), y), text, fill=(rng.randint(0, 90),) * 3, font=font)
        pixels = np.asarray(image, np.float32)[:, :, ::-1] / 255
        pixels = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        yield {"x": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32)}


MODELS: dict[str, tuple[Callable[[int], Iterator[Feeds]], list[str], bool]] = {
    "magika": (file_bytes, [], True),
    "ppocrv4-rec": (text_lines, ["--shape", "x:1x3x48x320"], True),
    "ppocrv2-cls": (text_lines, ["--shape", "x:1x3x48x320"], True),
    "ppocrv4-det": (text_pages, ["--shape", "x:1x3x320x320"], False),
}
"""Of each its inputs, its shape, and whether the task is the largest of several scores."""
WITHIN, TOP1, LEAST_NS = 0.01, 0.99, 1e6


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
    """ONNX Runtime's quantizers with each single setting, as its documentation has them."""
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
        "static U8S8 by channel": static(u8, True),
        "static S8S8 by channel": static(s8, True),
        "static U8S8 by tensor": static(u8, False),
    }
    for name, make in settings.items():
        out = folder / f"{name.replace(' ', '-')}.onnx"
        with contextlib.suppress(Exception):  # what it cannot make has no row
            make(out)
            ort.InferenceSession(str(out), providers=["CPUExecutionProvider"])
            made[name] = out
    return made


def timed(models: dict[str, Path], feeds: Feeds) -> dict[str, list[float]]:
    """Median seconds of a run, a number for each round: all models in one process, in random order."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    sessions = {
        name: ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for name, path in models.items()
    }
    found: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        order = list(sessions)
        rng.shuffle(order)
        for name in order:
            run, times = sessions[name].run, []
            run(None, feeds)
            end = time.perf_counter() + TURN_S
            while time.perf_counter() < end or len(times) < 3:
                began = time.perf_counter()
                run(None, feeds)
                times.append(time.perf_counter() - began)
            found[name].append(statistics.median(times))
    return found


def errors(path: Path, reference: list[list[np.ndarray]], feeds: list[Feeds]) -> dict[str, float]:
    """The largest relative L2 of an output and of a slice of its last axis, and the share of equal largest elements."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    whole, piece, equal, rows = 0.0, 0.0, 0, 0
    for values, inputs in zip(reference, feeds, strict=True):
        for old, new in zip(values, session.run(None, inputs), strict=True):
            far = np.linalg.norm(new - old)
            whole = max(whole, float(far / max(np.linalg.norm(old), 1e-12)))
            if old.ndim > 1 and old.shape[-1] <= 64:
                columns = old.reshape(-1, old.shape[-1])
                apart = np.linalg.norm((new - old).reshape(columns.shape), axis=0)
                own = np.maximum(np.linalg.norm(columns, axis=0), 1e-2 * np.linalg.norm(columns))
                piece = max(piece, float((apart / np.maximum(own, 1e-12)).max()))
            best = old.reshape(-1, old.shape[-1]).argmax(1) == new.reshape(-1, new.shape[-1]).argmax(1)
            equal, rows = equal + int(best.sum()), rows + best.size
    return {"relative_l2": whole, "slice_l2": piece, "top1": equal / max(1, rows)}


def one(name: str, budget: float) -> dict[str, object]:
    """A model's row; why there is none, where it cannot be."""
    make, shape, scores = MODELS[name]
    row: dict[str, object] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "model": name, "ort": ort.__version__}
    try:
        feeds = list(make(SHOWN + HELD_OUT))
    except ImportError as error:
        return row | {"failed": f"its inputs need {error.name}"}
    rng.shuffle(feeds)
    shown, held_out, model = feeds[:SHOWN], feeds[SHOWN:], model_path(name)
    with tempfile.TemporaryDirectory(prefix="ortune-precision-") as text:
        folder = Path(text)
        (folder / "data").mkdir()
        for number, values in enumerate(shown):
            np.savez(folder / "data" / f"{number:03d}.npz", **values)
        tolerance = "top1>=0.99" if scores else "0.01"
        words = ["quantize", str(model), "--data", str(folder / "data"), "--tolerance", tolerance, *shape]
        words += ["--budget", f"{budget:.0f}s", "--output", text, "--store", str(folder / "store"), "--json"]
        command = [sys.executable, "-m", "ortune", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return row | {"failed": done.stderr.strip().splitlines()[-1]}
        result = json.loads(done.stdout)["result"]
        models = {"float": Path(model), **own_settings(Path(model), shown, folder)}
        if result["bundle"]:
            bundle = Path(result["bundle"])
            models["ortune"] = bundle / json.loads((bundle / "ortune.json").read_text())["model"]
        session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        reference = [session.run(None, values) for values in held_out]
        times = timed(models, held_out[0])
        row["headline"] = result["headline"]
        row["command"] = (
            f"ortune quantize {name}.onnx --data data --tolerance '{tolerance}' {' '.join(shape)}".strip()
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
                **errors(path, reference, held_out),
            }
            for label, path in models.items()
        }
    return row


def table(row: dict[str, Any]) -> list[str]:
    """The lines of a row's models."""
    lines = []
    for label, seen in row.get("models", {}).items():
        speed = f"{seen['ns'] / 1e6:.3g} ms ({1 / seen['ratio']:.2f}x)"
        lines.append(
            f"| {row['model']} | {label} | {speed} | {seen['relative_l2']:.2g} | {seen['top1']:.4f} |"
        )
    return lines


def goals(rows: list[dict[str, Any]]) -> list[str]:
    """What the rows say of the goals, a sentence each."""
    speeds, below, slower = [], [], []
    for row in rows:
        models, scores = row.get("models", {}), MODELS[row["model"]][2]
        if not models:
            continue

        def right(seen: dict[str, float], scores: bool = scores) -> bool:
            return seen["top1"] >= TOP1 if scores else max(seen["relative_l2"], seen["slice_l2"]) <= WITHIN

        mine = models.get("ortune", models["float"])
        own = min((s["ratio"] for n, s in models.items() if n != "ortune" and right(s)), default=1.0)
        if models["float"]["ns"] >= LEAST_NS:
            speeds.append(1 / mine["ratio"] if right(mine) else 1.0)
        below += [row["model"]] if mine["ratio"] > 1.02 * own else []
        slower += [row["model"]] if mine["ratio"] > 1.02 else []
    mean = statistics.geometric_mean(speeds) if speeds else 1.0
    return [
        f"geometric mean over {len(speeds)} models of 1 ms and more: {mean:.2f}x",
        f"slower than ONNX Runtime's best single setting of the same error: {', '.join(below) or 'none'}",
        f"slower than float: {', '.join(slower) or 'none'}",
    ]


def write_page(row: dict[str, Any]) -> None:
    """Puts a row into the page as its worked example."""
    kept = [
        f"- `{layer['name']}`: {layer['reason']}"
        + (f", {layer['error_ratio']:.0%} of the error" if layer["error_ratio"] is not None else "")
        + (f", {layer['time_ratio']:.0%} of the time" if layer["time_ratio"] is not None else "")
        for layer in row["kept"]
    ]
    lines = [
        BEGIN,
        "## 5. An example",
        "",
        f"`{row['model']}`, measured {row['date']} with onnxruntime {row['ort']}: {SHOWN} inputs in `data/`, of which "
        f"{row['inputs']} calibrate and {row['checked']} show the error.",
        "",
        f"```\n{row['command']}\n```",
        "",
        f"> {row['headline']}",
        "",
        *(["Kept in float:", "", *kept, ""] if kept else []),
        f"All models on {HELD_OUT} further inputs, in one process, in turns of random order:",
        "",
        "| model | run | time | error (L2) | top-1 |\n|---|---|---|---|---|",
        *table(row),
        END,
    ]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2].strip()
    PAGE.write_text("\n".join([before.rstrip(), "", *lines, after]).rstrip() + "\n", encoding="utf-8")


def main() -> int:
    """Measures what has no row yet, and prints all rows as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--budget", type=float, default=300.0)
    parser.add_argument("--rows", type=Path, default=KEPT)
    parser.add_argument("--page", action="store_true", help="write the worked example into docs/precision.md")
    asked = parser.parse_args()
    kept = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.is_file() else []
    for name in asked.models:
        if any(
            row["model"] == name and row["ort"] == ort.__version__ and "failed" not in row for row in kept
        ):
            continue
        row = one(name, asked.budget)
        kept.append(row)
        with asked.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    print("| model | run | time | error (L2) | top-1 |\n|---|---|---|---|---|")
    for row in kept:
        if "failed" in row:
            print(f"| {row['model']} | {row['failed']} | | | |")
        print("\n".join(table(row)))
    print("\n".join(["", *goals(kept)]))
    if asked.page:
        write_page(next(row for row in reversed(kept) if row["model"] == EXAMPLE and "models" in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
