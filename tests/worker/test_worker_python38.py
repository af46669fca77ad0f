"""The worker runs under any interpreter from Python 3.8, whose grammar is older than our own."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import zipfile
from pathlib import Path

import pytest

import ortune
from ortune.records import PROTOCOL_VERSION
from ortune.targets.archive import worker_bytes, write_worker
from pythons import python_of

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


def test_an_old_interpreter_runs_it(tmp_path: Path) -> None:
    python = python_of("3.8", "3.9", "3.10")
    if python is None:
        pytest.skip(
            "NOT RUN: the worker was started under no old interpreter (uv python install 3.8 brings one)"
        )
    request = {
        "version": PROTOCOL_VERSION,
        "providers": [],
        "applied": [{"knob": "k", "channel": "process", "key": "invented", "value": 1}],
    }
    command = [str(python), str(write_worker(tmp_path))]
    # Its stdin stays open until it has answered: the end of stdin is the end of ortune.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        worker.stdin.flush()
        answer = json.loads(worker.stdout.readline())
    assert (answer["message"], answer["reason"], answer["knob"]) == ("error", "unknown-key", "k")
