"""What it takes to add a verb, and a rewrite: tried in a copy of the package, where nothing else is touched."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from onnxruntime import datasets

ROOT = Path(__file__).resolve().parents[1]
MODEL = datasets.get_example("sigmoid.onnx")

ASKED = '''"""Options of ``ortune count``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ortune.verbs._shared.spelling import MODEL, AnyPath, Argument, Option

FORMATS = ("json",)
STOPPING = ""
EXAMPLE = 'ortune.count("model.onnx").result.nodes'


@dataclass(frozen=True, kw_only=True)
class Options:
    """How many nodes does this model have?"""

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx.")]
    times: Annotated[int, Option("--times", "N", "Count them N times.", MODEL, least=1)] = 1
'''
VERB = '''"""Counts nodes."""

from __future__ import annotations

from pathlib import Path

from ortune import __version__
from ortune.measuring.watcher import Watcher
from ortune.graph.model.open import open_model
from ortune.verbs.count.options import Options
from ortune.verbs._shared.spelling import command
from ortune.records import Envelope
from ortune.verbs.count.result import CountResult


def run(options: Options, watcher: Watcher | None = None) -> Envelope[CountResult]:
    """Counts them."""
    nodes = len(open_model(Path(options.model)).ir.graph) * options.times
    result = CountResult(nodes=nodes, again=command("count", options))
    return Envelope(schema="ortune/count/1", ortune=__version__, status="ok", result=result)


def exit_code(envelope: Envelope[CountResult]) -> int:
    """1 where there are none."""
    return 0 if envelope.result.nodes else 1
'''
RECORD = '''"""What ``ortune count`` finds."""

from ortune.records.base import Record


class CountResult(Record, frozen=True, kw_only=True):
    """The number of nodes."""

    nodes: int
    again: str
'''
REWRITE = '''"""Takes Identity nodes out.

What it is: a node that hands on what it gets.
Why it costs: it need not.
Evidence: none.
Fix and its safety: exact.
Example: ``--rewrite without-identities``
References: none.
"""

from onnx_ir import convenience

from ortune.rewrites._base import Rewrite, RewriteResult


def _change(model, params):
    found = [node for node in model.graph if node.op_type == "Identity"]
    for node in found:
        convenience.replace_all_uses_with(node.outputs[0], node.inputs[0])
        model.graph.remove(node, safe=True)
    return RewriteResult(modified=bool(found), what=f"Took {len(found)} out.")


def _proposes(model, workload):
    there = any(node.op_type == "Identity" for node in model.graph)
    return [({}, "it has Identity nodes")] if there else []


REWRITE = Rewrite(
    name="without-identities", summary="no Identity nodes", safety="exact", change=_change, proposes=_proposes
)
'''


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package, with what Python compiled of it: the times of the files, by which it knows, are copied too."""
    package = tmp_path / "src" / "ortune"
    shutil.copytree(ROOT / "src" / "ortune", package)
    return package


def environment(package: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT / 'tools'}"}


def run(package: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=package.parent,
        env=environment(package),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(package: Path, code: str) -> Any:
    return json.loads(run(package, "-c", f"import json\n{code}"))


def test_a_verb_is_a_folder(copy: Path) -> None:
    folder = copy / "verbs" / "count"
    folder.mkdir()
    for name, text in (("__init__", ""), ("options", ASKED), ("run", VERB), ("result", RECORD)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    document = json.loads(run(copy, "-m", "ortune", "count", MODEL, "--times", "3", "--json"))
    assert document["result"] == {"nodes": 3, "again": f"ortune count {MODEL} --times 3"}
    listed = run(copy, "-m", "ortune", "--help")
    assert "How many nodes does this model have?" in listed
    assert "--times" in run(copy, "-m", "ortune", "count", "--help")
    code = f"""
import ortune, make_schemas, make_stub
found = ortune.count({MODEL!r}, times=2)
schema = make_schemas.schema("count/1", make_schemas.documents()["count/1"])
print(json.dumps([found.result.nodes, "nodes" in schema, "def count(" in make_stub.stub()]))
"""
    assert python(copy, code) == [2, True, True]


def test_the_measuring_verb_of_the_page_goes_on_after_a_kill(copy: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "add-a-verb.md").read_text(encoding="utf-8")
    files = re.findall(r'```python title="([^"]+)"\n(.*?)```', page, flags=re.DOTALL)
    assert [Path(name).parent for name, _ in files] == [Path("verbs/first")] * 4
    (copy / "verbs" / "first").mkdir()
    (copy / "verbs" / "first" / "__init__.py").touch()
    for name, text in files:
        (copy / name).write_text(text, encoding="utf-8")
    words = ["-m", "ortune", "first", MODEL, "--budget", "10m", "--processes", "12", "--store", str(tmp_path)]
    with subprocess.Popen([sys.executable, *words], cwd=copy.parent, env=environment(copy)) as session:
        while len(kept := outcomes(tmp_path)) < 4 and session.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                session.wait(timeout=0.05)
        session.kill()
    assert session.returncode == -signal.SIGKILL, "it ended before it was killed"
    text = " ".join(run(copy, *words, "--resume", "--verbose").split())
    assert "(12 processes)" in text and "ortune report" in text
    (n_reused,) = map(int, re.findall(r"resumed an earlier session: (\d+) trials reused", text))
    assert len(kept) - 1 <= n_reused < 12, "the last one may have been cut off from its mark"
    stored = " ".join(run(copy, "-m", "ortune", "report", "newest", "--store", str(tmp_path)).split())
    assert "not measured now" in stored and "(12 processes)" in stored


def outcomes(store: Path) -> list[object]:
    """The trials that a store has journalled so far."""
    if not (store / "ortune.sqlite").exists():
        return []
    with contextlib.closing(sqlite3.connect(f"file:{store / 'ortune.sqlite'}?mode=ro", uri=True)) as db:
        try:
            return db.execute("SELECT seq FROM event WHERE kind = 'outcome'").fetchall()
        except sqlite3.OperationalError:
            return []  # its tables are not made yet


def test_a_rewrite_is_a_file(copy: Path) -> None:
    (copy / "rewrites" / "without_identities.py").write_text(REWRITE, encoding="utf-8")
    code = """
import pathlib
import numpy, onnx, onnxruntime
from onnx import parser
import make_docs
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.records import Plan
from ortune.measuring.sides import SideText, resolve

text = '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { a = Identity(x) y = Relu(a) }'
here = pathlib.Path.cwd()
onnx.save(parser.parse_model(text), here / "m.onnx")
proposed = [spec.name for spec, _ in rewrites.proposals(open_model(here / "m.onnx").ir)]
side = resolve(
    SideText(text=str(here / "m.onnx"), rewrites=["without-identities"]),
    common=Plan(), scratch=here,
)
made = onnx.load(side.runs)
feeds = {"x": numpy.array([-1, 0, 1, 2], numpy.float32)}
outputs = [onnxruntime.InferenceSession(p).run(None, feeds)[0].tolist() for p in (here / "m.onnx", side.runs)]
print(json.dumps({
    "proposed": "without-identities" in proposed,
    "plan": [spec.name for spec in side.plan.rewrites],
    "nodes": [node.op_type for node in made.graph.node],
    "provenance": [p.value for p in made.metadata_props],
    "equal": outputs[0] == outputs[1],
    "documented": "no Identity nodes" in make_docs.rewrites_page(),
}))
"""
    assert python(copy, code) == {
        "proposed": True,
        "plan": ["without-identities"],
        "nodes": ["Relu"],
        "provenance": ["without-identities"],
        "equal": True,
        "documented": True,
    }
