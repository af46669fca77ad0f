"""What others and ortune make of real models, in the same blocks. By hand, quietly; two to four minutes a model.

    python benchmarks/against_peers.py [--models ppocrv4-rec,magika] [--budget 90] [--tune 60] [--worth] [--table]

A model as it is, as onnxslim, onnxsim and Olive make it, under OpenVINO's runtime, and as ``ortune tune`` delivers it
(exact rewrites and settings) take turns in the same blocks of ``ortune compare``. ``--worth`` asks instead what each
exact rewrite is worth, 20 s a comparison of up to five of them: alone against the model as it is, and all of them
without one against all of them. The peers are installed at pinned versions into environments of their own below
``.cache``. Rows are kept in a file: what was measured before is not measured again. ``--table`` only prints what is
there.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ortune
from common import model_path
from ortune import rewrites
from ortune.errors import OrtuneError
from ortune.fleet.runtimes import find_runtime
from ortune.inputs import workload
from ortune.model.open import open_model
from ortune.records import ComparedSide, CompareResult, Envelope
from ortune.report.numbers import duration
from ortune.report.rewrite_words import spec as words
from zoo import EXPORTED, MODELS, ZooError, cache_folder

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A tool that makes a model of a model.

    Attributes:
        packages: The tool first, then what it needs besides what it names itself.
        command: What its Python is given; {model} is read, {folder} is where the result is written.
    """

    packages: tuple[str, ...]
    command: tuple[str, ...]


PEERS = {
    "onnxslim": Peer(
        packages=("onnxslim==0.1.98", "onnxruntime==1.32.0"),
        command=(
            "-c",
            "import sys, onnxslim; onnxslim.slim(sys.argv[1], sys.argv[2])",
            "{model}",
            "{folder}/model.onnx",
        ),
    ),
    "onnxsim": Peer(
        packages=("onnxsim==0.8.1", "onnxruntime==1.32.0"),
        command=(
            "-c",
            "import sys, onnx, onnxsim\nmade, fine = onnxsim.simplify(onnx.load(sys.argv[1]))\n"
            "assert fine, 'the check of its own result fails'\nonnx.save(made, sys.argv[2])",
            "{model}",
            "{folder}/model.onnx",
        ),
    ),
    "Olive": Peer(
        # Without requests, which it does not name, not even its help is shown.
        packages=("olive-ai==0.13.0", "requests==2.32.5", "torch==2.13.0", "onnxruntime==1.32.0"),
        command=(
            *("-m", "olive", "optimize", "--model_name_or_path", "{model}", "--output_path", "{folder}"),
            *("--provider", "CPUExecutionProvider", "--device", "cpu", "--precision", "fp32"),
            "--disable_telemetry",
        ),
    ),
}
PEER_S = 120  # that a peer may take
OPENVINO, ORTUNE = "OpenVINO", "ortune"
SIDES = (*PEERS, OPENVINO, ORTUNE)
LETTERS = "bcdef"
"""Names of the sides beside the base; more of them in one block make each wait long for its turn."""

NOT_MEASURED = ("logreg-iris", "mul-1", "sigmoid")  # nothing in them takes time
RACE_S = 90.0  # a comparison of the peers: five sides need more than seven blocks for an interval
WORTH_S = 20.0  # a comparison of rewrites
IDLE = "alone there is nothing for it to do"


def main() -> None:
    """Measures what is not there yet, and prints Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [name for name in (*MODELS, *EXPORTED) if name not in NOT_MEASURED]
    parser.add_argument("--models", default=",".join(names))
    parser.add_argument(
        "--budget", type=float, help=f"seconds a comparison: {RACE_S:.0f}, {WORTH_S:.0f} with --worth"
    )
    parser.add_argument("--tune", type=float, default=60.0, help="seconds that ortune tune has")
    parser.add_argument("--worth", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "rows" / "against_peers.jsonl")
    asked = parser.parse_args()
    budget = asked.budget or (WORTH_S if asked.worth else RACE_S)
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    for name in [] if asked.table else asked.models.split(","):
        for kind in ("alone", "left out") if asked.worth else ("peers",):
            if any((row["model"], row["kind"]) == (name, kind) for row in rows):
                continue
            began = time.monotonic()
            try:
                model = model_path(name)
            except ZooError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            with tempfile.TemporaryDirectory(prefix="ortune-peers-") as folder:
                made = [
                    {"model": name, "kind": kind, **row}
                    for row in measured(model, kind, budget, asked.tune, Path(folder))
                ]
            rows += made
            # Whole or not at all: half a model's rows would pass for all of them.
            with asked.rows.open("a") as file:
                file.write("".join(json.dumps(row) + "\n" for row in made))
            print(f"{name}: {kind}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print("\n\n".join(part for part in (head(rows), peers_part(rows), worth_part(rows)) if part))


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What is held against the base: its name, its model or bundle, what it runs with, or why it is not there."""

    name: str
    path: Path
    options: Row = field(default_factory=dict)
    why: str = ""
    more: Row = field(default_factory=dict)


def measured(model: Path, kind: str, budget_s: float, tune_s: float, folder: Path) -> Iterator[Row]:
    """The rows of one model; one that says why where there is nothing to measure."""
    given: Row = {"budget": budget_s, "no_why": True, "store": folder / "store"}
    if kind == "peers":
        sides = list(peers(model, tune_s, folder))
    else:
        row, by_tools = exact(model)
        sides = without_one(model, row) if kind == "left out" else each_alone(model, [*row, *by_tools])
        given |= {"a_rewrite": row} if kind == "left out" else {}
    for side in sides:
        if side.why:
            yield {"name": side.name, "what": side.why, **side.more}
    live = [side for side in sides if not side.why]
    if not sides:
        yield {"name": "", "what": "nothing to measure"}
    for start in range(0, len(live), len(LETTERS)):
        yield from compared(model, live[start : start + len(LETTERS)], given, first=start == 0)


def compared(model: Path, sides: Sequence[Side], given: Row, *, first: bool) -> Iterator[Row]:
    """Rows of sides that stand in the same blocks, the base's own before them where they are the first."""
    try:
        found = comparison(model, sides, given)
    except OrtuneError as error:
        # One that cannot even be read ends the comparison of all; the others are held against the base without it.
        unfit = {side.name: short(error.what) for side in sides} if len(sides) == 1 else {}
        for side in sides if len(sides) > 1 else ():
            try:
                comparison(model, [side], {**given, "budget": 1.0})
            except OrtuneError as its_own:
                unfit[side.name] = short(its_own.what)
        fit = [side for side in sides if side.name not in unfit]
        if not unfit:
            unfit, fit = {side.name: short(error.what) for side in sides}, []
        yield from ({"name": name, "what": what} for name, what in unfit.items())
        if fit:
            yield from compared(model, fit, given, first=first)
        return
    result = found.result
    arms = {arm.name.lower(): arm for arm in result.candidates or (alone(result),)}
    if first:
        base = result.base_figures
        yield {
            "name": "default",
            "ms": base.latency_ns / 1e6 if base else None,
            "bytes": size(model),
            "when": f"{datetime.now(UTC):%Y-%m-%d}",
            "runtime": f"{result.base.runtime.package} {result.base.runtime.ort_version}",
            "cpu": f"{found.host.cpu}, {found.host.effective_cpus} cores",
        }
    for letter, side in zip(LETTERS, sides, strict=False):
        yield {"name": side.name, **figures(arms[letter], side.path), **side.more}


def comparison(model: Path, sides: Sequence[Side], given: Row) -> Envelope[CompareResult]:
    more = {f"{x}_{key}": v for x, s in zip(LETTERS, sides, strict=False) for key, v in s.options.items()}
    return ortune.compare(model, *(side.path for side in sides), **given, **more)


def peers(model: Path, tune_s: float, folder: Path) -> Iterator[Side]:
    """The model by each peer, and by ortune."""
    for name, peer in PEERS.items():
        yield by_peer(name, peer, model, folder / name)
    try:
        ortune.runtime("add", "openvino")
        why = ""
    except OrtuneError as error:
        why = short(error.what)
    yield Side(name=OPENVINO, path=model, options={"runtime": "openvino"}, why=why)
    try:
        won = ortune.tune(model, budget=tune_s, output=folder / "tuned", store=folder / "store").result
    except OrtuneError as error:
        yield Side(name=ORTUNE, path=model, why=short(error.what))
        return
    if won.bundle and won.changes:
        yield Side(name=ORTUNE, path=Path(won.bundle), more={"plan": won.winner.describe()})
    else:  # the same twice in a block tells nothing
        yield Side(name=ORTUNE, path=model, why="keeps the default", more={"kept": True})


def exact(model: Path) -> tuple[list[str], list[str]]:
    """The exact rewrites that the model calls for: one after another in memory, and those by tools."""
    opened = open_model(model)
    work = workload.propose(opened.ir)
    row = rewrites.pipeline(opened.ir, workload=work, objective="latency")
    packages = find_runtime().packages
    found = rewrites.proposals(opened.ir, workload=work, objective="latency", packages=packages)
    by_tools = [spec for spec, _ in found if rewrites.find(spec.name).task]
    return [words(spec) for spec in row], [words(spec) for spec in by_tools]


def each_alone(model: Path, texts: Sequence[str]) -> list[Side]:
    """Each against the model as it is; what has nothing to do there before another was applied is not timed."""
    opened = open_model(model)
    sides = []
    for text in dict.fromkeys(texts):
        spec = rewrites.parse(text)
        rewrite = rewrites.find(spec.name)
        idle = not rewrite.task and not rewrite.apply(opened.ir.clone(), spec.params).modified
        why = IDLE if idle else ""
        sides.append(Side(name=text, path=model, options={"rewrite": [text]}, why=why))
    return sides


def without_one(model: Path, texts: Sequence[str]) -> list[Side]:
    if len(texts) < 2:
        return []  # without its only rewrite a model is as it was
    rest = {text: [each for each in texts if each != text] for text in texts}
    return [Side(name=text, path=model, options={"rewrite": others}) for text, others in rest.items()]


def by_peer(name: str, peer: Peer, model: Path, folder: Path) -> Side:
    """The model that a peer makes, or why it makes none."""
    folder.mkdir()
    place = cache_folder().parent / "peers" / name.lower()
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    packages, wanted = place / "packages", "\n".join(peer.packages)
    if not packages.exists() or packages.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", *peer.packages],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return Side(name=name, path=model, why=f"cannot be installed: {last(done.stderr)}")
        packages.write_text(wanted)
    try:
        done = subprocess.run(
            [python, *(word.format(model=model, folder=folder) for word in peer.command)],
            capture_output=True, text=True, check=False, timeout=PEER_S, cwd=folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Side(name=name, path=model, why=f"not done after {PEER_S} s")
    made = next(folder.rglob("*.onnx"), None)
    if done.returncode or made is None:
        return Side(name=name, path=model, why=f"makes no model: {last(done.stderr or done.stdout)}")
    return Side(name=name, path=made)


def short(text: str) -> str:
    return text.splitlines()[0][:160]


def last(text: str) -> str:
    return (text.strip().splitlines() or ["without a word"])[-1][:160]


def alone(result: CompareResult) -> ComparedSide:
    """The one new side of a comparison of two."""
    given = {name: getattr(result, name) for name in ("name", "comparison", "outputs", "failures")}
    return ComparedSide(side=result.new, **given)


def size(path: Path) -> int:
    """Bytes of a model with its external data, or of that in a bundle."""
    model = path if path.is_file() else next(iter(path.glob("*.onnx")), path)
    return sum(file.stat().st_size for file in (model, *model.parent.glob(f"{model.name}.data")))


def figures(arm: ComparedSide, path: Path) -> Row:
    """What a row holds of one side."""
    row: Row = {"bytes": size(path), "runtime": f"{arm.side.runtime.package} {arm.side.runtime.ort_version}"}
    if arm.outputs is not None:
        row |= {
            "error": arm.outputs.relative_l2,
            "same": arm.outputs.ok,
            "random": arm.outputs.compared_as == "moments",
            "outputs": short(arm.outputs.what) if arm.outputs.what else "",
        }
    if arm.comparison is None:
        said = arm.failures[0].what if arm.failures else arm.outputs.what if arm.outputs else ""
        return {**row, "what": short(said or "not measured")}
    c = arm.comparison
    return {
        **row, "ratio": c.ratio, "low": c.ratio_low, "high": c.ratio_high, "verdict": c.verdict, "blocks": c.n_blocks,
    }  # fmt: skip


def head(rows: Sequence[Row]) -> str:
    """When, where and with what it was measured."""
    seen: dict[str, None] = {}
    for row in rows:
        if row["name"] == "default":
            seen[f"{row['when']}, {row['runtime']}, {row['cpu']}"] = None
    packages = [peer.packages[0].replace("==", " ") for peer in PEERS.values()]
    packages += list(dict.fromkeys(r["runtime"] for r in rows if r["name"] == OPENVINO and "runtime" in r))
    return "\n".join([*seen, "", f"Beside it: {', '.join(packages)}."]) if seen else ""


def peers_part(rows: Sequence[Row]) -> str:
    """Markdown: speed, then files and outputs, then what failed, then what follows from it."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["kind"] == "peers":
            by_model.setdefault(row["model"], {})[row["name"]] = row
    if not by_model:
        return ""
    notes: list[str] = []
    fast = [f"| model | default | {' | '.join(SIDES)} | ortune's changes |", "|---|---:|" + "---|" * 6]
    files = [f"| model | default | {' | '.join(SIDES)} |", "|---|---:|" + "---:|" * 5]
    for name, sides in by_model.items():
        base, plan = sides.get("default", {}), sides.get(ORTUNE, {}).get("plan", "")
        took = duration(1e6 * base["ms"]) if base.get("ms") else ""
        cells = [speed_cell(name, sides.get(side, {}), notes) for side in SIDES]
        fast.append(f"| {name} | {took} | {' | '.join(cells)} | {plan} |")
        whole = f"{base['bytes'] / 1e6:.1f}" if "bytes" in base else ""
        files.append(f"| {name} | {whole} | {' | '.join(file_cell(sides.get(s, {})) for s in SIDES)} |")
    told = "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))
    parts = ["\n".join(fast), told, "\n".join(files), conclusions(by_model)]
    return "\n\n".join(part for part in parts if part)


def speed_cell(model: str, row: Row, notes: list[str]) -> str:
    """The speed-up over the default with its interval, in bold where it is proven; a note where more is to be said."""
    if row.get("kept"):
        return "the default"
    if "ratio" not in row:
        return noted(f"{row['name']} on {model}: {row['what']}", "none", notes) if row else ""
    text = times(row["ratio"], row["low"], row["high"])
    if not row["same"]:
        return noted(f"{row['name']} on {model}: {row['outputs']}", f"({text})", notes)
    return f"**{text}**" if row["verdict"] in ("faster", "slower") else text


def noted(note: str, text: str, notes: list[str]) -> str:
    notes.append(note.replace("|", "/"))
    return f"{text} [{len(notes)}]"


def times(ratio: float, low: float, high: float | None) -> str:
    """A time ratio and its interval as a speed-up: "1.38x (1.24-1.40)"."""
    if not low or high in (None, math.inf):
        return f"{1 / ratio:.2f}x (too few blocks)"
    return f"{1 / ratio:.2f}x ({1 / high:.2f}-{1 / low:.2f})"


def file_cell(row: Row) -> str:
    """Size in MB and how far outputs are from the default's."""
    if row.get("kept"):
        return "the default"
    if "bytes" not in row:
        return ""
    error = "" if "error" not in row else ", random" if row["random"] else f", {row['error']:.0e}"
    return f"{row['bytes'] / 1e6:.1f}{error}".replace(", 0e+00", ", equal").replace("e-0", "e-")


def conclusions(by_model: dict[str, dict[str, Row]]) -> str:
    """How often ortune is faster and slower than each, where the intervals leave no doubt."""
    lines = []
    for other in ("default", *SIDES[:-1]):
        faster, slower, held = [], [], 0
        for name, sides in by_model.items():
            mine, theirs = limits(sides.get(ORTUNE, {})), limits(sides.get(other, {}))
            if mine is None or theirs is None:
                continue
            held += 1
            by = f"{name} ({max(theirs[0] / mine[0], mine[0] / theirs[0]):.2f}x)"
            faster += [by] if mine[2] < theirs[1] else []
            slower += [by] if theirs[2] < mine[1] else []
        told = f"faster on {len(faster)}, slower on {len(slower)}{': ' if slower else ''}{', '.join(slower)}"
        lines.append(f"- ortune against {other}, models held against it: {held}; {told}.")
    return "\n".join(lines)


def limits(row: Row) -> tuple[float, float, float] | None:
    """Ratio to the default with its limits; None where there is none, or it is of other outputs."""
    if row.get("kept") or row.get("name") == "default":
        return 1.0, 1.0, 1.0
    if "ratio" not in row or not row["same"]:
        return None
    return row["ratio"], row["low"], row["high"] or math.inf


def worth_part(rows: Sequence[Row]) -> str:
    """Markdown: what each rewrite is worth on each model, alone and beside the others."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row["kind"] != "peers" and row["name"] not in ("", "default"):
            found.setdefault((row["name"], row["model"]), {})[row["kind"]] = row
    if not found:
        return ""
    lines = ["| rewrite | model | alone | with the others |", "|---|---|---:|---:|"]
    for (text, model), kinds in sorted(found.items()):
        cells = (worth_cell(kinds.get(kind)) for kind in ("alone", "left out"))
        lines.append(f"| {text} | {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def worth_cell(row: Row | None) -> str:
    """The speed-up by a rewrite, in bold where its interval leaves no doubt."""
    if row is None or "ratio" not in row:
        return "" if row is None or row["what"] == IDLE else row["what"]
    ratio, low, high = worth(row)
    if not row["low"] or row["high"] is None:
        return f"{1 / ratio:.2f}x ({row['blocks']} blocks)"
    text = times(ratio, low, high)
    return f"**{text}**" if high < 1 or low > 1 else text


def worth(row: Row) -> tuple[float, float, float]:
    """The time with a rewrite over that without it, and its limits."""
    ratio, low, high = row["ratio"], row["low"], row["high"] or math.inf
    return (
        (ratio, low, high) if row["kind"] == "alone" else (1 / ratio, 1 / high, 1 / low if low else math.inf)
    )


if __name__ == "__main__":
    main()
