"""What ortune's exact winner, other simplifiers and OpenVINO make of real models, in one run. Takes hours; by hand.

    python benchmarks/against_peers.py [--models ppocrv4-rec,magika] [--budget 120] [--tune 300] [--worth] [--table]

A model as it is, as onnxslim and as onnxsim simplify it, under OpenVINO's runtime, and as ``ortune tune`` delivers it
stand in the same blocks of ``ortune compare``. ``--worth`` asks instead what each exact rewrite is worth: alone against
the model as it is, and all of them without one against all of them. The simplifiers are installed into environments of
their own. Rows are kept in a file: what was measured before is not measured again. ``--table`` prints what is there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import ortune
from common import model_path
from ortune import rewrites
from ortune.errors import OrtuneError
from ortune.fleet.runtimes import find_runtime
from ortune.inputs import workload
from ortune.model.open import open_model
from ortune.records import ComparedSide
from ortune.report.rewrite_words import spec as words
from zoo import MODELS, cache_folder

Row = dict[str, object]

SIMPLIFIERS = {
    "onnxslim": (
        "onnxslim==0.1.98",
        "import sys, onnxslim; onnxslim.slim(sys.argv[1], sys.argv[2])",
    ),
    "onnxsim": (
        "onnxsim",
        "import sys, onnx, onnxsim\nmade, fine = onnxsim.simplify(onnx.load(sys.argv[1]))\n"
        "assert fine\nonnx.save(made, sys.argv[2])",
    ),
}
LETTERS = "bcdef"
"""Names of the sides beside the base; more of them in one block make each wait long for its turn."""

SIMPLIFIED_S = 300  # that a simplifier may take
NOT_MEASURED = ("logreg-iris", "mul-1", "sigmoid")  # nothing in them takes time


def main() -> None:
    """Measures what is not there yet, and prints Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(name for name in MODELS if name not in NOT_MEASURED))
    parser.add_argument("--budget", type=float, default=120.0, help="seconds a comparison")
    parser.add_argument("--tune", type=float, default=300.0, help="seconds that ortune tune has")
    parser.add_argument("--worth", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "rows" / "against_peers.jsonl")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    for name in [] if asked.table else asked.models.split(","):
        kinds = ("alone", "left out") if asked.worth else ("peers",)
        for kind in kinds:
            if any((row["model"], row["kind"]) == (name, kind) for row in rows):
                continue
            with tempfile.TemporaryDirectory(prefix="ortune-peers-") as folder:
                made = list(measured(name, kind, asked.budget, asked.tune, Path(folder)))
            rows += made
            # Whole or not at all: half a model's rows would pass for all of them.
            with asked.rows.open("a") as file:
                file.write("".join(json.dumps(row) + "\n" for row in made))
    print(f"{datetime.now(UTC):%Y-%m-%d}\n\n{peers_table(rows)}\n\n{worth_table(rows)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What is held against the base: its name, its model or bundle, what it runs with, or why it is not there."""

    name: str
    path: Path
    options: dict[str, object] = field(default_factory=dict)
    why: str = ""


def measured(name: str, kind: str, budget_s: float, tune_s: float, folder: Path) -> Iterator[Row]:
    """The rows of one model; one that says why where there is nothing to measure."""
    model = model_path(name)
    given: dict[str, object] = {"budget": budget_s, "no_why": True, "store": folder / "store"}
    if kind == "peers":
        sides = list(peers(model, tune_s, folder))
    else:
        row, by_tools = exact(model)
        sides = without_one(model, row) if kind == "left out" else each_alone(model, [*row, *by_tools])
        given |= {"a_rewrite": row} if kind == "left out" else {}
    shared: Row = {"model": name, "kind": kind}
    for side in sides:
        if side.why:
            yield {**shared, "name": side.name, "what": side.why}
    live = [side for side in sides if not side.why]
    if not sides:
        yield {**shared, "name": "", "what": "nothing to measure"}
    for start in range(0, len(live), len(LETTERS)):
        part = dict(zip(LETTERS, live[start : start + len(LETTERS)], strict=False))
        more = {f"{letter}_{key}": v for letter, side in part.items() for key, v in side.options.items()}
        try:
            result = ortune.compare(model, *(side.path for side in part.values()), **given, **more).result
        except OrtuneError as error:
            for side in part.values():
                yield {**shared, "name": side.name, "what": short(error.what)}
            continue
        arms = {arm.name.lower(): arm for arm in result.candidates or (alone(result),)}
        for letter, side in part.items():
            yield {**shared, "name": side.name, **figures(arms[letter], side.path)}


def peers(model: Path, tune_s: float, folder: Path) -> Iterator[Side]:
    """The model by each peer, and by ortune."""
    for name in SIMPLIFIERS:
        made = folder / f"{name}.onnx"
        yield Side(name=name, path=made, why=simplified(name, model, made))
    try:
        ortune.runtime("add", "openvino")
        why = ""
    except OrtuneError as error:
        why = error.what
    yield Side(name="OpenVINO", path=model, options={"runtime": "openvino"}, why=why)
    try:
        won = ortune.tune(model, budget=tune_s, output=folder / "tuned", store=folder / "store").result
    except OrtuneError as error:
        yield Side(name="ortune", path=model, why=error.what)
        return
    yield Side(name=f"ortune: {won.winner.describe()}", path=Path(won.bundle) if won.bundle else model)


def exact(model: Path) -> tuple[list[str], list[str]]:
    """The exact rewrites that the model calls for: one after another in memory, and those by tools."""
    opened = open_model(model)
    work = workload.propose(opened.ir)
    row = rewrites.row(opened.ir, workload=work, objective="latency")
    packages = find_runtime().packages
    found = rewrites.proposals(opened.ir, workload=work, objective="latency", packages=packages)
    by_tools = [spec for spec, _ in found if rewrites.find(spec.name).task]
    return [words(spec) for spec in row], [words(spec) for spec in by_tools]


def each_alone(model: Path, texts: Sequence[str]) -> list[Side]:
    return [Side(name=text, path=model, options={"rewrite": [text]}) for text in dict.fromkeys(texts)]


def without_one(model: Path, texts: Sequence[str]) -> list[Side]:
    if len(texts) < 2:
        return []  # without its only rewrite a model is as it was
    rest = {text: [each for each in texts if each != text] for text in texts}
    return [Side(name=text, path=model, options={"rewrite": others}) for text, others in rest.items()]


def simplified(name: str, model: Path, target: Path) -> str:
    """Why a simplifier does not make a model; "" where it does."""
    package, code = SIMPLIFIERS[name]
    place = cache_folder().parent / "peers" / name
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", package, "onnxruntime"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return f"cannot be installed: {last(done.stderr)}"
    try:
        done = subprocess.run(
            [python, "-c", code, model, target],
            capture_output=True, text=True, check=False, timeout=SIMPLIFIED_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done after {SIMPLIFIED_S} s"
    return "" if done.returncode == 0 and target.exists() else f"fails: {last(done.stderr or done.stdout)}"


def short(text: str) -> str:
    return text.splitlines()[0][:120]


def last(text: str) -> str:
    return (text.strip().splitlines() or ["without a word"])[-1][:160]


def alone(result: object) -> ComparedSide:
    """The one new side of a comparison of two."""
    given = {name: getattr(result, name) for name in ("name", "comparison", "outputs", "failures")}
    return ComparedSide(side=result.new, **given)  # type: ignore[attr-defined]


def figures(arm: ComparedSide, path: Path) -> Row:
    """What a row holds of one side."""
    size = path if path.is_file() else next(iter(path.glob("*.onnx")), path)
    held = size.stat().st_size + sum(f.stat().st_size for f in size.parent.glob(f"{size.name}.data"))
    error = arm.outputs.relative_l2 if arm.outputs is not None else None
    if arm.comparison is None:
        said = arm.failures[0].what if arm.failures else arm.outputs.what if arm.outputs else ""
        return {"what": short(said or "not measured"), "error": error, "bytes": held}
    c = arm.comparison
    return {
        "ratio": c.ratio, "low": c.ratio_low, "high": c.ratio_high, "verdict": c.verdict, "blocks": c.n_blocks,
        "error": error, "bytes": held,
    }  # fmt: skip


def cells(row: Row) -> list[str]:
    """Ratio with its interval, verdict, error and size."""
    if "ratio" not in row:
        return [str(row.get("what", "")).replace("|", "/"), "", "", ""]
    high = f"{row['high']:.3f}" if row["high"] is not None else "?"
    error = f"{row['error']:.0e}" if row["error"] is not None else "?"
    return [
        f"{row['ratio']:.3f} ({row['low']:.3f} to {high})",
        str(row["verdict"]),
        error,
        f"{int(str(row['bytes'])) / 1e6:.1f}",
    ]


def table(rows: Sequence[Row], head: str) -> str:
    columns = head.count("|") - 1
    lines = [head, "|" + "---|" * columns]
    lines += [
        "| " + " | ".join([str(row["model"]), str(row["name"]), *cells(row)][:columns]) + " |" for row in rows
    ]
    return "\n".join(lines)


def peers_table(rows: Sequence[Row]) -> str:
    """Markdown: every peer on every model, ratios over ONNX Runtime's default, below 1 is faster."""
    mine = [row for row in rows if row["kind"] == "peers"]
    return table(mine, "| model | by | ratio to the default | | error | MB |") if mine else ""


def worth_table(rows: Sequence[Row]) -> str:
    """Markdown: what each rewrite is worth alone, and what all are worth without it."""
    parts = []
    for kind, head in (
        ("alone", "| model | rewrite, alone | ratio to the default | | error |"),
        ("left out", "| model | rewrite, left out | ratio to all of them | |"),
    ):
        mine = [row for row in rows if row["kind"] == kind and row["name"]]
        parts += [table(mine, head)] if mine else []
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
