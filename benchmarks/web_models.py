"""What a browser makes of real models, with two onnxruntime-web. Run by hand, on a quiet machine; over an hour.

    python benchmarks/web_models.py [--budget 360] [--ort-web 1.22.0] [--native PYTHON] [ppocrv2-cls ...]

Each model is tuned as by `ortune tune MODEL --target web`: WebAssembly is raced, and what else the browser offers runs
it for its outputs and its placement at least. Rows are kept in a file: what was measured before is not measured again.
``--native`` names an interpreter that has onnxruntime and onnxruntime-ep-webgpu: which nodes the same provider has
outside of a browser. Without a GPU: ``VK_ICD_FILENAMES=/usr/lib/chromium/vk_swiftshader_icd.json
ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1``, with Debian's libvulkan1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import ortune
from common import model_path
from ortune.errors import OrtuneError
from ortune.records import BrowserPlace
from ortune.show.numbers import duration
from ortune.show.placement_words import STATES
from ortune.targets.browser.page_report import placement_of
from ortune.verbs.tune.result import TuneResult

MODELS: dict[str, dict[str, list[str]]] = {
    "ppocrv2-cls": {},
    "ppocrv4-det": {"shape": ["x:1x3x160x160"]},  # a page's frame, not a document's
    "ppocrv4-rec": {},
    "silero-vad-16k-op15": {},
    "magika": {},
    "minilm-int8": {},
    "basic-pitch": {},
    "oww-embedding": {},
}
"""By what a browser is to run in each: characters, speech, files, sentences, notes, words to wake by."""
VERSIONS = ("1.22.0", "1.30.0")


def one(name: str, version: str, budget: float) -> dict[str, object]:
    """One tuning as a row; why there is none, where it cannot be."""
    began = time.monotonic()
    row: dict[str, object] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "model": name, "ort_web": version}
    with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
        try:
            result = ortune.tune(
                model_path(name),
                target="web",
                ort_web=version,
                budget=budget,
                bundle=False,
                store=Path(folder),
                **MODELS.get(name, {}),
            ).result
        except OrtuneError as error:
            return row | {"failed": error.what, "seconds": time.monotonic() - began}
    assert isinstance(result, TuneResult)
    claim, first = result.against_default, result.default_figures
    return row | {
        "default_ns": first.latency_ns if first else None,
        "interval_ns": [first.latency_low_ns, first.latency_high_ns] if first else None,
        "load_ns": first.load_ns if first else None,
        "answer": result.winner.describe() if result.changes else "the default",
        "claim": [claim.ratio, claim.ratio_low, claim.ratio_high] if claim and result.changes else None,
        "trials": result.budget.n_trials,
        "places": {place.target: told(place) for place in result.places},
        "seconds": time.monotonic() - began,
    }


NATIVE = """
import sys, onnxruntime as ort, onnxruntime_ep_webgpu as plugin
ort.register_execution_provider_library("webgpu", plugin.get_library_path())
options = ort.SessionOptions()
options.log_severity_level = 0
found = [d for d in ort.get_ep_devices() if d.ep_name == "WebGpuExecutionProvider"]
options.add_provider_for_devices(found[:1], {})
ort.InferenceSession(sys.argv[1], options)
"""


def natively(python: str, model: Path) -> dict[str, int]:
    """Nodes of each execution provider outside of a browser; empty where no session can be made."""
    done = subprocess.run([python, "-c", NATIVE, str(model)], capture_output=True, text=True, check=False)
    return {each.provider: each.n_nodes for each in placement_of(done.stderr.splitlines())}


def told(place: BrowserPlace) -> dict[str, object]:
    """One of the places where the browser could run it."""
    return {
        "state": place.state,
        "why": place.why,
        "nodes": {part.provider: part.n_nodes for part in place.placement},
        "outputs_ok": None if place.outputs is None else place.outputs.ok,
    }


def table(rows: list[dict[str, object]], native: dict[str, dict[str, int]]) -> str:
    """A row a model and version, as Markdown; ``native`` has the nodes of each provider outside of a browser."""
    lines = [
        "| model | onnxruntime-web | p50, default | load | fastest | faster | WebGPU | the same natively | WebGL |",
        "|---|---|---:|---:|---|---:|---|---|---|",
    ]
    for r in sorted(rows, key=lambda row: (str(row["model"]), str(row["ort_web"]))):
        if "failed" in r:
            why = str(r["failed"]).splitlines()[0]
            lines.append(f"| {r['model']} | {r['ort_web']} | | | does not run: {why} | | | | |")
            continue
        times = [duration(float(str(ns))) if (ns := r[key]) else "" for key in ("default_ns", "load_ns")]
        answer = r["answer"] if r["trials"] else "(the budget held no race)"
        cells = [r["model"], r["ort_web"], *times, answer, speedup(r["claim"])]
        places = r["places"]
        assert isinstance(places, dict)
        cells += [
            place(places.get("web-webgpu")),
            on_gpu(native.get(str(r["model"]), {})),
            place(places.get("web-webgl")),
        ]
        lines.append(f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |")
    return "\n".join(lines)


def place(found: dict[str, object] | None) -> str:
    """What became of the model there, in few words."""
    if found is None:
        return ""
    nodes, ok = found["nodes"], found["outputs_ok"]
    assert isinstance(nodes, dict)
    where, outputs = on_gpu(nodes), "" if ok is None else "outputs correct" if ok else "outputs WRONG"
    why = str(found["why"]) if found["state"] in ("failed", "absent") else ""
    state = STATES[str(found["state"])].partition(":")[0]
    return "; ".join(part for part in (state, why.splitlines()[0] if why else "", where, outputs) if part)


def on_gpu(nodes: dict[str, int]) -> str:
    """How many of the nodes the CPU does not have."""
    there = sum(n for name, n in nodes.items() if name != "CPUExecutionProvider")
    return f"{there} of {sum(nodes.values())} nodes" if nodes else ""


def speedup(ratios: object) -> str:
    """A ratio with its interval, as times faster."""
    if not isinstance(ratios, list):
        return ""
    middle, low, high = (float(r) for r in ratios)
    return f"{1 / middle:.2f}x ({1 / high:.2f}-{1 / low:.2f})"


def main() -> None:
    """Measures what is missing and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--ort-web", action="append", default=[], help="a version of npm; may be repeated")
    parser.add_argument("--budget", type=float, default=360, help="seconds each")
    parser.add_argument("--native", help="an interpreter with onnxruntime-ep-webgpu")
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "rows" / "web_models.jsonl")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    for name in asked.models:
        for version in asked.ort_web or VERSIONS:
            if any((row["model"], row["ort_web"]) == (name, version) for row in rows):
                continue
            print(f"{name} with onnxruntime-web {version}", flush=True)
            rows.append(one(name, version, asked.budget))
            with asked.rows.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    native = {name: natively(asked.native, model_path(name)) for name in asked.models if asked.native}
    print(f"\n{datetime.now(UTC):%Y-%m-%d}\n\n{table(rows, native)}")


if __name__ == "__main__":
    main()
