"""Interpreters that cannot measure: none has onnxruntime, or the one that was named is of no use."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import ortune
from box import FEW, Box, refused
from facts import facts


def bare_venv(folder: Path, packages: list[Path]) -> Path:
    """A virtual environment that sees just these folders; returns its interpreter."""
    venv.create(folder, symlinks=True, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "seen.pth").write_text("".join(f"{path}\n" for path in packages))
    return folder / "bin" / "python"


def links(folder: Path, *, without: str = "", only: str = "") -> Path:
    """Links to what the tests' own interpreter has installed, less what is left out."""
    folder.mkdir()
    for site in {Path(onnxruntime.__file__).parents[1], Path(np.__file__).parents[1]}:
        for entry in site.iterdir():
            wanted = entry.name.startswith(only) if only else not entry.name.startswith(without)
            if wanted and entry.suffix != ".pth" and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    return folder


def test_no_onnxruntime_anywhere(box: Box) -> None:
    source = Path(ortune.__file__).parents[1]
    python = bare_venv(box.folder / "env", [links(box.folder / "links", without="onnxruntime"), source])
    how = {"python": (str(python), "-m", "ortune"), "env": {"PATH": str(box.folder), "PYTHONPATH": ""}}
    error = refused(box.run("compare", "m.onnx", "m.onnx", *FEW, **how), 2, "no-runtime")
    assert "not installed" in error["what"]
    assert "pip install" in error["do"]
    assert "--runtime" in error["do"]
    doctor = box.run("doctor", "--json", **how)
    assert doctor.code == 0, doctor.err
    assert doctor.document["result"]["noise"] is None
    facts(doctor.err, "nothing", "measured")
    old = onnx.load(box.folder / "m.onnx")
    for tensor in old.graph.initializer:  # which a fix takes out of the inputs again
        old.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    onnx.save(old, box.folder / "old.onnx")
    check = box.run("check", "old.onnx", "--fix", **how)
    assert check.code == 0, check.err
    assert "old.onnx: written to old.fixed.onnx" in check.out
    facts(check.out, "not verified: no onnxruntime")
    assert "ortune compare old.onnx old.fixed.onnx" in check.out
    assert (box.folder / "old.fixed.onnx").exists()


def test_an_interpreter_without_numpy(box: Box) -> None:
    python = bare_venv(box.folder / "env", [links(box.folder / "links", only="onnxruntime")])
    error = refused(
        box.compare("m.onnx", "m.onnx", "--python", str(python), env={"PYTHONPATH": ""}), 2, "no-runtime"
    )
    assert "numpy " in error["what"]
    assert "pip install numpy" in error["do"]


def test_an_onnxruntime_on_a_relative_path(box: Box) -> None:
    python = bare_venv(box.folder / "env", [])
    links(box.folder / "links", without="ortune")
    env = {"PYTHONPATH": os.pathsep.join(["links", str(Path(ortune.__file__).parents[1])])}
    done = box.compare("m.onnx", "other.onnx", "--python", str(python), env=env)
    assert (done.code, done.document["verdict"]) == (1, "wrong-output"), done.err


@pytest.mark.parametrize("named", ["/bin/ls", "absent", "home", "m.onnx"])
def test_python_that_is_no_interpreter(box: Box, named: str) -> None:
    error = refused(box.here("compare", "m.onnx", "m.onnx", "--python", named, "--json"), 2, "no-runtime")
    assert error["where"] == f"--runtime {named}"
    assert error["do"]
    refused(box.here("doctor", "--python", named, "--json"), 2, "no-runtime")


def interpreter_that(box: Box, does: str) -> str:
    """An interpreter that answers questions as it should, and does something else when it is to run a trial."""
    path = box.folder / "odd-python"
    lines = ["#!/bin/sh", f'case "$1" in *ortune-worker*) {does};; esac', f'exec "{sys.executable}" "$@"']
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("echo garbage; exit 0", "'garbage'"),
        ("echo '{\"message\": 1}'; exec sleep 60", "unreadable"),
        ("printf '{\\377\\n'; exec sleep 60", "unreadable"),
        ('echo \'{"message":"ready","version":99}\'; exec sleep 60', "version 99"),
    ],
)
def test_a_worker_that_does_not_speak_the_protocol(box: Box, does: str, says: str) -> None:
    error = refused(box.compare("m.onnx", "m.onnx", "--python", interpreter_that(box, does)), 3, "protocol")
    assert says in error["what"]


def test_a_worker_that_ends_without_a_word(box: Box) -> None:
    error = refused(
        box.compare("m.onnx", "m.onnx", "--python", interpreter_that(box, "echo no luck >&2; exit 7")),
        3,
        "crash",
    )
    assert "exited with code 7" in error["what"]
    assert "no luck" in error["what"]


def test_a_banner_before_the_worker_speaks_does_no_harm(box: Box) -> None:
    done = box.compare("m.onnx", "other.onnx", "--python", interpreter_that(box, "echo welcome"))
    assert (done.code, done.document["verdict"]) == (1, "wrong-output"), done.err
