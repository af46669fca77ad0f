"""The hook runs in programs of any interpreter from Python 3.8, and needs nothing that is not its own."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ortune.recorder import doors
from pythons import pythons

HOOKS = pytest.mark.parametrize("file", [doors.HOOK, doors.APPLY_HOOK], ids=lambda file: file.stem)


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), file.name, feature_version=(3, 8))


@HOOKS
def test_nothing_newer_is_used_at_run_time(file: Path) -> None:
    nodes = [*ast.walk(tree(file))]
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    assert not used & {"removeprefix", "removesuffix", "bit_count", "pairwise", "file_digest", "orig_argv"}
    assert not [each for each in nodes if isinstance(each, ast.keyword) and each.arg == "strict"]
    assert "from __future__ import annotations" in file.read_text(encoding="utf-8")


@HOOKS
def test_it_imports_the_standard_library_alone_and_never_onnxruntime(file: Path) -> None:
    imports = [node for node in ast.walk(tree(file)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        alias.name.split(".")[0] for node in imports for alias in node.names if isinstance(node, ast.Import)
    }
    names |= {
        node.module.split(".")[0] for node in imports if isinstance(node, ast.ImportFrom) and node.module
    }
    assert names <= sys.stdlib_module_names
    assert not names & {
        "socket",
        "ssl",
        "http",
        "urllib",
        "asyncio",
        "multiprocessing",
        "subprocess",
        "ctypes",
    }


def test_their_names_are_those_of_the_doors() -> None:
    from ortune.recorder import apply_hook, hook

    assert (hook.VARIABLE, hook.WARNING) == (doors.VARIABLE, doors.WARNING)
    assert (apply_hook.VARIABLE, apply_hook.WARNING) == (doors.APPLY_VARIABLE, doors.WARNING)
    for module in (hook, apply_hook):
        assert doors.OURS in (module.__doc__ or "").partition("\n")[0]


@pytest.mark.parametrize("python", pythons() or [Path(sys.executable)], ids=lambda path: path.parts[-3])
def test_an_interpreter_starts_as_it_does_without(python: Path, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    folder.mkdir()
    program = (
        "import sys, getpass; print('ortune_recorder' in sys.modules, sys.warnoptions, sys.path,"
        " getpass.__file__, getpass.GetPassWarning.__module__, getpass.GetPassWarning.__doc__)"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = [
        subprocess.run([python, "-c", program], env=env, capture_output=True, text=True)
        for env in (plain, doors.environment(folder, doors.prepare(tmp_path), plain))
    ]
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 2
    without, recorded = (each.stdout.strip().strip("()").partition(" ") for each in done)
    assert recorded[2].replace(".pyc", ".py") == without[2].replace(".pyc", ".py")
    name = python.parts[-3].split(".")
    if name[0] == "3" and len(name) > 1 and int(name[1]) >= 8:
        assert recorded[0] == "True"
    assert list(folder.iterdir()) == []  # a process that does not use onnxruntime writes nothing


def supported() -> list[Path]:
    """Interpreters from Python 3.8, by the names of their folders."""
    versions = {path: tuple(map(int, re.findall(r"\d+", path.parts[-3])[:2])) for path in pythons()}
    return [path for path, version in versions.items() if version >= (3, 8)] or [Path(sys.executable)]


@pytest.mark.parametrize("python", supported(), ids=lambda path: path.parts[-3])
def test_outputs_that_the_calling_code_reads(python: Path) -> None:
    program = Path(__file__).with_name("read_outputs.py")
    done = subprocess.run([python, program, doors.HOOK], capture_output=True, text=True, check=True)
    known = {
        "first": [0], "last": [-1], "unpacked": [0], "ignored": [0, 1], "all_of_them": [0, 1], "later": [-1, 0, 1],
        "looped": [1], "starred": [1], "y, _ = s.run(None, x)": [0], "y, z = s.run(None, x)": [0, 1],
    }  # fmt: skip
    found = ast.literal_eval(done.stdout)
    assert {name: indices for name, indices in found.items() if indices is not None} == known
    assert len(found) == 24
