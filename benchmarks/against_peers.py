"""What others and ortune make of real models, in the same blocks. By hand, quietly; two to four minutes a model.

    python benchmarks/against_peers.py --make      # the models of the peers alone, which needs no quiet machine
    python benchmarks/against_peers.py [--models ppocrv4-rec,magika] [--budget 60] [--tune 66]
    python benchmarks/against_peers.py --table     # the tables alone
    python benchmarks/against_peers.py --worth [--models ...] [--budget 20]

A model as it is, as onnxslim, onnxsim and Olive make it, under OpenVINO's runtime at float32, and as ``ortune tune
--targets auto`` delivers it take turns in the same blocks of ``ortune compare``. ``--worth`` asks instead what each
exact rewrite is worth, 20 s a comparison of up to five of them: alone against the model as it is, and all of them
without one against all of them. The peers are installed at pinned versions into environments of their own below
``.cache``, and so are the models that they make. Rows are kept in a file, so a run that was stopped goes on: what this
processor measured before, with the same builds and the same targets, is not measured again. The tables, one for each
processor and build, are written into docs/results.md between two marks.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ortune
from common import model_path, write_between
from ortune import platform, rewrites
from ortune.errors import OrtuneError
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.records import Envelope
from ortune.runtimes.runtimes import find_runtime
from ortune.show.numbers import duration
from ortune.show.rewrite_words import spec as words
from ortune.verbs.compare.result import ComparedSide, CompareResult
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
EXACT = {"runtime": "openvino", "set": ["openvino_precision=f32"]}
"""OpenVINO with outputs like the CPU's: on processors with bfloat16 its own default computes in that."""
TARGETS = "auto"
OLD = "onnxruntime-openvino 1.24.1 as it is, `tune` on the CPU alone"
"""What rows were measured with that do not name it."""
MARKS = "<!-- against_peers -->", "<!-- end of against_peers -->"
LETTERS = "bcdef"
"""Names of the sides beside the base; more of them in one block make each wait long for its turn."""

NOT_MEASURED = ("logreg-iris", "mul-1", "sigmoid")  # nothing in them takes time
RACE_S = 60.0  # a comparison of the peers: five sides need more than seven blocks for an interval
WORTH_S = 20.0  # a comparison of rewrites
IDLE = "alone there is nothing for it to do"


def main() -> None:
    """Measures what is not there yet, prints Markdown, and writes the tables of the peers into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [name for name in (*MODELS, *EXPORTED) if name not in NOT_MEASURED]
    parser.add_argument("--models", default=",".join(names))
    parser.add_argument(
        "--budget", type=float, help=f"seconds a comparison: {RACE_S:.0f}, {WORTH_S:.0f} with --worth"
    )
    parser.add_argument("--tune", type=float, default=66.0, help="seconds that ortune tune has")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--worth", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "rows" / "against_peers.jsonl")
    asked = parser.parse_args()
    budget = asked.budget or (WORTH_S if asked.worth else RACE_S)
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    kinds = () if asked.table else ("alone", "left out") if asked.worth else ("peers",)
    here = setup() if kinds == ("peers",) else ""
    done = {(row["model"], row["kind"], row["set"]) for row in with_sets(rows)}
    for name in asked.models.split(",") if kinds else ():
        try:
            model = model_path(name)
        except ZooError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        for kind in kinds:
            if (name, kind, here) in done and not asked.make:
                continue
            began = time.monotonic()
            if asked.make:
                made = [by_peer(peer, name, model) for peer in PEERS]
                told = ", ".join(f"{side.name}: {side.why or 'a model'}" for side in made)
                print(f"{name}: {told}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
                continue
            with tempfile.TemporaryDirectory(prefix="ortune-peers-") as folder:
                new = [
                    {"model": name, "kind": kind, "set": here, **row}
                    for row in measured(name, model, kind, budget, asked.tune, Path(folder))
                ]
            rows += new
            # Whole or not at all: half a model's rows would pass for all of them.
            with asked.rows.open("a") as file:
                file.write("".join(json.dumps(row) + "\n" for row in new))
            print(f"{name}: {kind}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if asked.make:
        return
    if asked.worth:
        print(worth_part(rows))
        return
    text = "\n\n".join(peers_part(mine) for mine in sets(rows))
    print(text)
    if asked.rows == parser.get_default("rows"):
        write_between(MARKS, text)


def setup() -> str:
    """What decides the rows of this machine: its processor, the builds, and where ortune looks for a winner."""
    host = platform.host()
    runtime = ortune.runtime("add", OPENVINO.lower()).result
    openvino = next(one.runtime for one in runtime.runtimes if one.name == OPENVINO.lower())
    wheel = next(iter(openvino.plugins.values()), openvino.build)
    tuned = f"`tune --targets {TARGETS}`"
    return f"{host.cpu} with {host.effective_cpus} cores, {find_runtime().build}, {wheel} at float32, {tuned}"


def with_sets(rows: Sequence[Row]) -> list[Row]:
    """The rows, each with what it was measured with, which the oldest have in the row of the default alone."""
    old = {
        row["model"]: f"{row['cpu'].replace(', 2', ' with 2')}, {row['runtime']}, {OLD}"
        for row in rows
        if "cpu" in row and row["kind"] == "peers"
    }
    return [{"set": old.get(row["model"], "") if row["kind"] == "peers" else "", **row} for row in rows]


def sets(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of the peers by what they were measured with, the newest first; each model in its newest alone."""
    found: dict[str, list[Row]] = {}
    for row in with_sets(rows):
        if row["kind"] == "peers":
            found.setdefault(row["set"], []).append(row)
    told: set[str] = set()
    parts = []
    for mine in sorted(found.values(), key=lambda own: max(r.get("when", "") for r in own), reverse=True):
        parts.append([row for row in mine if row["model"] not in told])
        told |= {row["model"] for row in mine}
    return [part for part in parts if part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What is held against the base: its name, its model or bundle, what it runs with, or why it is not there."""

    name: str
    path: Path
    options: Row = field(default_factory=dict)
    why: str = ""
    more: Row = field(default_factory=dict)


def measured(
    name: str, model: Path, kind: str, budget_s: float, tune_s: float, folder: Path
) -> Iterator[Row]:
    """The rows of one model; one that says why where there is nothing to measure."""
    given: Row = {"budget": budget_s, "no_why": True, "store": folder / "store"}
    if kind == "peers":
        sides = list(peers(name, model, tune_s, folder))
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
        }
    for letter, side in zip(LETTERS, sides, strict=False):
        yield {"name": side.name, **figures(arms[letter], side.path), **side.more}


def comparison(model: Path, sides: Sequence[Side], given: Row) -> Envelope[CompareResult]:
    more = {f"{x}_{key}": v for x, s in zip(LETTERS, sides, strict=False) for key, v in s.options.items()}
    return ortune.compare(model, *(side.path for side in sides), **given, **more)


def peers(name: str, model: Path, tune_s: float, folder: Path) -> Iterator[Side]:
    """The model by each peer, and by ortune."""
    for peer in PEERS:
        yield by_peer(peer, name, model)
    yield Side(name=OPENVINO, path=model, options=EXACT)
    store = folder / "store"
    try:
        won = ortune.tune(model, targets=TARGETS, budget=tune_s, output=folder / "tuned", store=store).result
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


def by_peer(name: str, model_name: str, model: Path) -> Side:
    """The model that a peer makes, or why it makes none; both are kept."""
    peer, place = PEERS[name], cache_folder().parent / "peers" / name.lower()
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    packages, wanted = place / "packages", "\n".join(peer.packages)
    if not packages.exists() or packages.read_text() != wanted:
        shutil.rmtree(place / "made", ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", *peer.packages],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return Side(name=name, path=model, why=f"cannot be installed: {last(done.stderr)}")
        packages.write_text(wanted)
    folder = place / "made" / model_name
    why = folder / "why"
    if not why.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        why.write_text(refused(peer, python, model, folder))
    made = next(folder.rglob("*.onnx"), model)
    return Side(name=name, path=made, why=why.read_text())


def refused(peer: Peer, python: Path, model: Path, folder: Path) -> str:
    """Runs a peer; why it makes no model, "" where it made one."""
    try:
        done = subprocess.run(
            [python, *(word.format(model=model, folder=folder) for word in peer.command)],
            capture_output=True, text=True, check=False, timeout=PEER_S, cwd=folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done after {PEER_S} s"
    if done.returncode or next(folder.rglob("*.onnx"), None) is None:
        return f"makes no model: {last(done.stderr or done.stdout)}"
    return ""


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
    runtime, provider = arm.side.runtime, arm.side.plan.provider_names[0]
    row: Row = {"bytes": size(path), "runtime": runtime.plugins.get(provider, runtime.build)}
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


def wrapped(text: str) -> str:
    return textwrap.fill(text, 118, break_on_hyphens=False, subsequent_indent="  " * text.startswith("- "))


def head(rows: Sequence[Row]) -> str:
    """When and with what these rows were measured."""
    days = sorted({row["when"] for row in rows if "when" in row})
    packages = ", ".join(peer.packages[0].replace("==", " ") for peer in PEERS.values())
    when = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "not timed"
    return f"**{when}**, {rows[0]['set']}, {packages}:"


def peers_part(rows: Sequence[Row]) -> str:
    """Markdown: speed, then files and outputs, then what failed, then what follows from it."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row["model"], {})[row["name"]] = row
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
    told = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    told = ["```text", *told, "```"] if told else []
    parts = [wrapped(head(rows)), "\n".join(fast), "\n".join(told), "\n".join(files), conclusions(by_model)]
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
    notes.append(note)
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
        lines.append(f"- ortune against {other}, models compared with it: {held}; {told}.")
    return "\n".join(map(wrapped, [*lines, *against_the_fastest(by_model), means(by_model)]))


def against_the_fastest(by_model: dict[str, dict[str, Row]]) -> Iterator[str]:
    """ortune against whichever exact side of a model is fastest by its estimate, the default among them."""
    gains, behind = [], []
    for name, sides in by_model.items():
        mine = limits(sides.get(ORTUNE, {}))
        others = filter(None, (limits(sides.get(other, {})) for other in ("default", *SIDES[:-1])))
        best = min(others, default=None)
        if mine is None or best is None:
            continue
        gains.append(best[0] / mine[0])
        sure = "confirmed" if best[2] < mine[1] else "intervals overlap"
        # The least of five estimates is below what that side really takes.
        slower = best[2] < mine[1] or mine[0] > 1.05 * best[0]
        behind += [f"{name} ({mine[0] / best[0]:.2f}x, {sure})"] if slower else []
    if gains:
        mean = statistics.geometric_mean(gains)
        which = f": {', '.join(behind)}" if behind else ""
        told = f"at least 5 % slower, or confirmed to be slower, on {len(behind)}{which}"
        yield f"- ortune against the fastest exact alternative of each model: {mean:.2f}x as fast; {told}."


def means(by_model: dict[str, dict[str, Row]]) -> str:
    """The geometric mean of each side's speed-ups; a side without exact outputs leaves a user with the default."""
    found = {
        side: statistics.geometric_mean(
            [1 / (limits(s.get(side, {})) or [1.0])[0] for s in by_model.values()]
        )
        for side in SIDES
    }
    told = ", ".join(f"{side} {mean:.3f}x" for side, mean in found.items())
    return f"- Geometric means over the default on {len(by_model)} models (1x without exact outputs): {told}."


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
