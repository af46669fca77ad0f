"""How fast a trace is read, beside `json.load` and pandas, in fresh processes, in turn.

    python benchmarks/trace_reader.py [--bytes 1e9] [--rounds 3] [--peer PYTHON] [--trace FILE] [--work FOLDER]

Needs pandas in the interpreter of the peer (the default is this one; `--peer` names another, with a venv of its own).
The trace is a real one (`--trace`; else the classifier of PP-OCRv2 is profiled here for three runs), its runs repeated
with later times until the file has the size. Both sides sum the time of each operator on each provider; the sums must
agree. Times are of whole processes without their imports; memory is the most that a process held (VmHWM).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

OURS = """
import json, sys, time
from pathlib import Path
from ortune.trace.operators import by_operator, groups
from ortune.trace.read import read_trace
import numpy as np
began = time.perf_counter()
trace = read_trace(Path(sys.argv[1]))
read = time.perf_counter()
operators = by_operator(trace)
done = time.perf_counter()
keys, rows = groups(trace.op_type, trace.provider)
sums = np.bincount(rows, weights=trace.duration_ns)
totals = {" ".join(key): round(ns / 1000) for key, ns in zip(keys, sums.tolist(), strict=True)}
"""
PEER = """
import json, sys, time
import pandas as pd
began = time.perf_counter()
with open(sys.argv[1]) as file:
    events = json.load(file)
read = time.perf_counter()
nodes = [e for e in events if e["cat"] == "Node" and e["name"].endswith("_kernel_time")]
frame = pd.DataFrame({
    "name": [e["name"] for e in nodes], "ts": [e["ts"] for e in nodes], "dur": [e["dur"] for e in nodes],
    "op": [e["args"]["op_name"] for e in nodes], "provider": [e["args"]["provider"] for e in nodes],
})
sums = frame.groupby(["op", "provider"])["dur"].sum().sort_values(ascending=False)
done = time.perf_counter()
totals = {" ".join(key): int(us) for key, us in sums.items()}
"""
TOLD = """
with open("/proc/self/status") as status:
    held = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"read_s": read - began, "all_s": done - began, "held_bytes": 1024 * held, "totals": totals}))
"""


def real_trace(folder: Path) -> Path:
    """A profile of a real model, taken here."""
    import numpy as np
    import onnxruntime as ort

    from common import model_path

    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = ort.InferenceSession(
        str(model_path("ppocrv2-cls")), options, providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name
    for _ in range(3):
        session.run(None, {name: np.zeros((1, 3, 48, 192), np.float32)})
    return Path(session.end_profiling())


def repeat(trace: Path, path: Path, size: int) -> None:
    """Writes the trace again and again, each time later, until the file is that large."""
    events = [line.rstrip(b",") for line in trace.read_bytes().splitlines() if line.startswith(b"{")]
    cut = [re.fullmatch(rb'(.*?"ts" :)(\d+)(,.*)', event) for event in events]
    parts = [(m[1], int(m[2]), m[3]) for m in cut if m]
    assert len(parts) == len(events), "not as ONNX Runtime writes it"
    session = [
        p
        for p, event in zip(parts, events, strict=True)
        if b"model_loading" in event or b"_initialization" in event
    ]
    runs = [p for p in parts if p not in session]
    span = max(ts for _, ts, _ in parts) + 100_000
    with path.open("wb") as file:
        file.write(b"[\n" + b",\n".join(b"%b%d%b" % p for p in session))
        later = 0
        while file.tell() < size:
            file.write(b",\n" + b",\n".join(b"%b%d%b" % (head, ts + later, tail) for head, ts, tail in runs))
            later += span
        file.write(b"\n]\n")


def measured(python: str, code: str, path: Path) -> dict[str, object]:
    done = subprocess.run([python, "-c", code + TOLD, path], check=True, stdout=subprocess.PIPE)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=float, default=1e9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", default=sys.executable)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--work", type=Path)
    asked = parser.parse_args()
    if subprocess.run([asked.peer, "-c", "import pandas"], check=False, stderr=subprocess.DEVNULL).returncode:
        sys.exit(f"pandas is not in {asked.peer}: name an interpreter that has it with --peer")
    with tempfile.TemporaryDirectory(dir=asked.work) as folder:
        path = Path(folder) / "trace.json"
        repeat(asked.trace or real_trace(Path(folder)), path, int(asked.bytes))
        size = path.stat().st_size
        sides = {"ortune: read_trace, by_operator": (sys.executable, OURS),
                 "json.load, pandas: groupby": (asked.peer, PEER)}  # fmt: skip
        found: dict[str, list[dict[str, object]]] = {name: [] for name in sides}
        for _ in range(asked.rounds):
            for name, (python, code) in sides.items():
                found[name].append(measured(python, code, path))
    ours, peer = found.values()
    assert ours[0]["totals"] == peer[0]["totals"], "the sums differ"
    times = {name: [float(str(each["all_s"])) for each in rows] for name, rows in found.items()}
    held = {name: max(int(str(each["held_bytes"])) for each in rows) for name, rows in found.items()}
    ratios = sorted(b / a for a, b in zip(*times.values(), strict=True))
    print(f"{size / 1e9:.2f} GB, {len(ours[0]['totals'])} operators, {asked.rounds} rounds\n")  # type: ignore[arg-type]
    print("| | time, s (least - most) | MB/s | most memory, MB | memory / file |")
    print("|---|---|---|---|---|")
    for name in sides:
        t, m = times[name], held[name]
        print(
            f"| {name} | {median(t):.1f} ({min(t):.1f} - {max(t):.1f}) | {size / 1e6 / median(t):.0f} "
            f"| {m / 1e6:.0f} | {m / size:.2f} |"
        )
    print(f"| ratio of times | {median(ratios):.1f} ({ratios[0]:.1f} - {ratios[-1]:.1f}) | | | |")


if __name__ == "__main__":
    main()
