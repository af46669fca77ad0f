"""Damaged files of every kind that ortune reads, and what must hold of reading them.

A kind has good files, and a way to read one: the command itself where it starts no worker, else what the command does
with the file before it starts one. A damaged file gives an answer or one of ortune's own errors, within its time and
memory, and nothing is written beside what was asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from damage import BYTES, JSON, other_fields
from limited import Ended, limited
from onnx_text import assemble
from ortune import loader
from ortune.bundle import format as bundle_format
from ortune.engines.locks import file as lock_file
from ortune.engines.locks.check import differences
from ortune.engines.locks.snapshot.exported import exported_operators, locked_model
from ortune.errors import OrtuneError
from ortune.graph.mapping.model_view import ModelView
from ortune.graph.model.open import open_model
from ortune.graph.outputs import output_comparisons, random_ops, value_dependent_ops
from ortune.inputs import run_cost, user_feeds, workload
from ortune.inputs.feed_files import write_feeds
from ortune.inputs.feeds import make_feeds
from ortune.measuring.plans import bundle_plan, read_plan
from ortune.records import BundleInfo, Plan, Snapshot
from ortune.verbs.lock import words as lock_words
from within import program

LIMIT_S = 20.0
MEMORY_BYTES = 2 << 30
HERE = Path(__file__).parent
_SMALL = 1 << 20
"""Elements of inputs that are made here: larger ones take seconds, and what refuses them has tests of its own."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of file."""

    name: str
    seeds: list[Path]
    read: Callable[[Path], object]
    damages: tuple[Callable[[bytes, random.Random], bytes], ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one damaged file: "read", "refused" or what went wrong."""

    kind: str
    number: int
    damage: str
    outcome: str
    trace: str = ""

    @property
    def good(self) -> bool:
        """It was read, or refused as it should be."""
        return self.outcome in ("read", "refused")


# --- damage ------------------------------------------------------------------------------------------------------


# --- the kinds -----------------------------------------------------------------------------------------------------


def kinds(folder: Path) -> list[Kind]:
    """Every kind, with good files in ``folder``."""
    model = folder / "m.onnx"
    _save(model)
    _save(folder / "loop.onnx", loop=True)
    case = workload.propose(open_model(model).ir)
    workload.save(folder / "workload.json", case)
    plan = {"settings": {"intra_op_num_threads": 2, "allow_spinning": False}, "rewrites": [], "providers": []}
    (folder / "plan.json").write_text(json.dumps(plan))
    assert command("lock", str(model), "--output", str(folder / "m.lock.json")) == 0
    lock = lock_file.read(folder / "m.lock.json", "m.onnx")
    info = BundleInfo(
        schema="ortune/bundle/1", model="m.onnx", sha256="0" * 64, plan=msgspec.convert(plan, Plan), host=lock.host
        if hasattr(lock, "host") else None, ort_version="1.30.0", session="20260101-abcdef",
    )  # fmt: skip
    (folder / "ortune.json").write_bytes(msgspec.json.encode(info))
    np.savez(folder / "x.npz", x=np.zeros((2, 4), np.float32))
    np.savez_compressed(folder / "packed.npz", x=np.zeros((2, 4), np.float32))
    np.save(folder / "x.npy", np.zeros((2, 4), np.float32))
    np.save(folder / "big.npy", np.zeros((2, 4), ">f4"))
    np.save(folder / "date.npy", np.zeros((2, 4), "M8[s]"))
    write_feeds(folder, {"x": np.zeros((2, 4), np.float32)})
    (folder / "0.npy").unlink()
    (folder / "input_0.pb").write_bytes(
        numpy_helper.from_array(np.zeros((2, 4), np.float32)).SerializeToString()
    )
    (folder / "input_1.pb").write_bytes(
        numpy_helper.from_list([np.zeros((2, 4), np.float32)] * 2).SerializeToString()
    )
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    light = sorted(path for path in data.rglob("model.onnx") if path.stat().st_size < 100_000)
    traces = sorted(p for p in (HERE / "trace" / "golden").glob("*.[jl]*") if "answers" not in p.name)
    known = open_model(model)
    return [
        Kind(
            name="model",
            seeds=[model, folder / "loop.onnx", *light],
            read=_read_model,
            damages=(*BYTES, other_fields, other_fields, other_fields),
        ),
        Kind(name="plan", seeds=[folder / "plan.json"], read=_read_plan, damages=JSON),
        Kind(
            name="workload",
            seeds=[folder / "workload.json"],
            read=lambda path: _read_workload(path, known.ir),
            damages=JSON,
        ),
        Kind(
            name="lock",
            seeds=[folder / "m.lock.json"],
            read=lambda path: _read_lock(path, lock),
            damages=JSON,
        ),
        Kind(name="bundle", seeds=[folder / "ortune.json"], read=_read_bundle, damages=JSON),
        Kind(name="trace", seeds=traces, read=_read_trace, damages=JSON),
        Kind(
            name="inputs",
            seeds=[
                folder / name
                for name in (
                    "x.npz",
                    "packed.npz",
                    "x.npy",
                    "big.npy",
                    "date.npy",
                    "input_0.pb",
                    "input_1.pb",
                )
            ],
            read=lambda path: _read_inputs(path, known.ir),
            damages=BYTES,
        ),
        Kind(
            name="feeds",
            seeds=[folder / "feeds.json"],
            read=lambda path: _read_inputs(path, known.ir),
            damages=JSON,
        ),
    ]


def command(*words: str) -> int:
    """Runs a command as ``ortune`` does, within this process and without its output."""
    try:
        return program(words)[0]
    except SystemExit as end:
        return int(end.code or 0)


def _read_model(path: Path) -> None:
    model = open_model(path)
    msgspec.json.encode(model.info)
    output_comparisons(model.ir), random_ops(model.ir), value_dependent_ops(model.ir)
    ModelView(model.ir)
    exported_operators(model)
    msgspec.json.encode(locked_model(model))
    work = workload.propose(model.ir)
    workload.describe(work)
    if all(np.prod(choice.shape, dtype=float) <= _SMALL for choice in work.cases[0].inputs):
        msgspec.json.encode(run_cost.run_cost(model.ir, work)[1])
        make_feeds(model.ir, work.cases[0], seed=0)


def _read_plan(path: Path) -> None:
    plan = read_plan(path)
    msgspec.json.encode((plan, plan.id, plan.describe()))


def _read_workload(path: Path, model: Any) -> None:
    work = workload.load(path)
    msgspec.json.encode((work, workload.describe(work)))
    if all(np.prod(c.shape, dtype=float) <= _SMALL for case in work.cases for c in case.inputs):
        if work.cases:
            run_cost.run_cost(model, work)
        workload.feeds(model, work)


def _read_lock(path: Path, now: Snapshot) -> None:
    was = lock_file.read(path, "m.onnx")
    found = differences(was, now)
    lock_words.headline(was, now, found.changes, found.not_compared, found.tolerance_ratio)
    [lock_words.sentence(change) for change in found.changes if change.part != "not-compared"]
    [lock_words.uncompared(each, was, now) for each in found.uncompared]


def _read_bundle(path: Path) -> None:
    folder = path.parent / "m.ortune"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(b"")
    path.rename(folder / "ortune.json")
    with contextlib.suppress(OrtuneError):
        loader._index(folder)
    bundle_plan(bundle_format.read(folder))
    refuse(command("report", str(folder)))


def _read_trace(path: Path) -> None:
    refuse(command("profile", str(path), "--json"))


def _read_inputs(path: Path, model: Any) -> None:
    at = path
    if path.suffix in (".pb", ".json"):
        at = path.parent / "set"
        at.mkdir()
        path.rename(at / ("input_0.pb" if path.suffix == ".pb" else "feeds.json"))
        np.save(at / "0.npy", np.zeros((2, 4), np.float32))
    feeds = user_feeds.load(at, model)
    with tempfile.TemporaryDirectory() as written:
        write_feeds(Path(written), feeds[0])
    workload.propose(model, inputs_path=at)


def refuse(code: int) -> None:
    """Raise for a command that refused its file."""
    if code:
        raise OrtuneError("refused") if code in (1, 2, 3) else AssertionError(f"exit code {code}")


# --- one damaged file ------------------------------------------------------------------------------------------------


def one(kind: Kind, number: int) -> Row:
    """Damages a file, the same one for the same number, reads it, and says what became of it."""
    rng = random.Random(f"{kind.name} {number}")
    seed, damage = rng.choice(kind.seeds), rng.choice(kind.damages)
    data = seed.read_bytes()
    data = damage(data, rng)
    with tempfile.TemporaryDirectory() as made:
        box = Path(made) / "box"
        (box / "home").mkdir(parents=True)
        path = box / seed.name
        path.write_bytes(data)
        before = _tree(box)
        ended = limited(_in_box, kind, path, limit_s=LIMIT_S, memory_bytes=MEMORY_BYTES)
        written = {p for p in _tree(Path(made)) - before if not p.startswith(("home", "m.ortune", "set"))}
    outcome = _judged(ended)
    if written - {"box"} and outcome in ("read", "refused"):
        outcome = f"wrote {sorted(written)}"
    return Row(kind=kind.name, number=number, damage=damage.__name__, outcome=outcome, trace=ended.trace)


def _in_box(kind: Kind, path: Path) -> None:
    os.environ.update(HOME=str(path.parent / "home"), XDG_DATA_HOME="", XDG_CACHE_HOME="")
    os.chdir(path.parent)
    kind.read(path)


def _tree(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)).removeprefix("box/") for p in folder.rglob("*")}


def _judged(ended: Ended) -> str:
    if ended.hung:
        return f"hangs: not done after {LIMIT_S:g} s"
    if ended.signal:
        return f"crashed with signal {ended.signal}"
    if ended.error is None:
        return "read"
    if (isinstance(ended.error, OrtuneError) and ended.error.exit_code in (2, 3)) or "refused" in str(
        ended.error
    ):
        return "refused"
    return f"{type(ended.error).__name__}: {str(ended.error)[:120]}"


def _save(path: Path, *, loop: bool = False) -> None:
    """A matrix product; with ``loop`` a Loop with an If around it, a function, and shape arithmetic."""
    weights = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")]
    functions = []
    initializers = [weights]
    if loop:
        info = helper.make_tensor_value_info
        branch = helper.make_graph([helper.make_node("Relu", ["a"], ["r"])], "b", [], [info("r", 1, None)])
        inside = [
            helper.make_node("If", ["go"], ["c"], then_branch=branch, else_branch=branch),
            helper.make_node("Identity", ["go"], ["on"]),
        ]
        body = helper.make_graph(
            inside,
            "body",
            [info("i", 7, []), info("go", 9, []), info("a", 1, None)],
            [info("on", 9, []), info("c", 1, None)],
        )
        nodes = [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Reshape", ["x", "s"], ["x2"]),
            helper.make_node("Twice", ["x2"], ["t"], domain="f"),
            helper.make_node("Loop", ["trips", "", "t"], ["l"], body=body),
            helper.make_node("MatMul", ["l", "w"], ["y"]),
        ]
        initializers.append(helper.make_tensor("trips", TensorProto.INT64, [], [3]))
        twice = [helper.make_node("Add", ["a", "a"], ["b"])]
        functions = [helper.make_function("f", "Twice", ["a"], ["b"], twice, [helper.make_opsetid("", 17)])]
    onnx.save(
        assemble(
            nodes,
            "float[n,4] x",
            "float[n,4] y",
            initializers,
            ir_version=9,
            opsets={"f": 1},
            functions=functions,
        ),
        path,
    )
