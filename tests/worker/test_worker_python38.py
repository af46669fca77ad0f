"""The worker runs under any interpreter from Python 3.8, whose grammar is older than our own."""

from __future__ import annotations

import ast
import io
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import ortune
from ortune.records import PROTOCOL_VERSION
from ortune.targets.archive import worker_bytes, write_worker

SOURCES = sorted((Path(ortune.__file__).parent / "worker").glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_grammar_is_that_of_python_38(source: Path) -> None:
    ast.parse(source.read_text(encoding="utf-8"), source.name, feature_version=(3, 8))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_nothing_newer_is_used_at_run_time(source: Path) -> None:
    """Annotations are not evaluated, but what runs must not need a later release."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & {
        "removeprefix",
        "removesuffix",
        "bit_count",
        "pairwise",
        "batched",
        "waitstatus_to_exitcode",
    }
    assert not [call for call in ast.walk(tree) if isinstance(call, ast.keyword) and call.arg == "strict"]
    if source.name != "__init__.py":
        assert "from __future__ import annotations" in source.read_text(encoding="utf-8")


def test_the_archive_holds_every_source_and_is_reproducible(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(worker_bytes())) as opened:
        names = set(opened.namelist())
    assert names == {"__main__.py", *(f"ortune_worker/{source.name}" for source in SOURCES)}
    worker_bytes.cache_clear()
    folder = write_worker(tmp_path)
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.py")} == names


def old_python() -> str | None:
    """A Python 3.8, 3.9 or 3.10 of this machine; what pyenv leaves on the path may start none."""
    named = [shutil.which(f"python3.{minor}") for minor in (8, 9, 10)]
    for kept in (".pyenv/versions/{}*/bin/python", ".local/share/uv/python/cpython-{}*/bin/python3"):
        named += [str(p) for v in ("3.8.", "3.9.", "3.10.") for p in sorted(Path.home().glob(kept.format(v)))]
    works = (p for p in named if p and subprocess.run([p, "-c", ""], capture_output=True).returncode == 0)
    return next(works, None)


def test_an_old_interpreter_runs_it(tmp_path: Path) -> None:
    python = old_python()
    if python is None:
        pytest.skip(
            "NOT RUN: the worker was started under no old interpreter (uv python install 3.8 brings one)"
        )
    request = {
        "version": PROTOCOL_VERSION,
        "applied": [{"knob": "k", "channel": "process", "key": "invented", "value": 1}],
    }
    command = [python, str(write_worker(tmp_path))]
    # Its stdin stays open until it has answered: the end of stdin is the end of ortune.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        worker.stdin.flush()
        answer = json.loads(worker.stdout.readline())
    assert (answer["message"], answer["reason"], answer["knob"]) == ("error", "unknown-key", "k")
