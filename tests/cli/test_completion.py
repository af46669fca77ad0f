"""Completion as bash, zsh and fish ask for it, by the scripts that they are given."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ortune.cli import completion
from ortune.rules import all_rules
from ortune.store.db import Store
from within import program

ORTUNE = str(Path(sys.executable).with_name("ortune"))
CASES = [
    ("ortune qua", ["quantize"]),
    ("ortune compare a b --undecided ", ["fail", "pass"]),
    ("ortune tune m.onnx --set spin", ["spin=", "spin_backoff=", "spin_stop=", "spin_us="]),
    ("ortune tune m.onnx --b", ["--browser", "--budget", "--budget-each", "--bundle"]),
    ("ortune m.onnx --bud", ["--budget", "--budget-each"]),
    ("ortune tune m.onnx --targets cpu,open", ["cpu,openvino"]),
    ("ortune bench m.onnx --json --format ma", ["markdown"]),
    ("ortune explain GRA00", sorted(code for code in all_rules() if code.startswith("GRA00"))),
    ("ortune check --ignore qnt001", []),
    ("ortune bench m.onnx --inputs in", []),
]


def candidates(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The candidates for the last word of a line, sorted."""
    monkeypatch.setenv(completion.VARIABLE, "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("COLUMNS", "80")
    code, out, said = program([])
    assert (code, said) == (0, "")
    return sorted(filter(None, (shown.partition("\t")[0] for shown in out.splitlines())))


@pytest.mark.parametrize(("line", "meant"), CASES)
def test_the_last_word_has_its_candidates(
    line: str, meant: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert candidates(line, monkeypatch) == meant


def test_a_setting_that_is_meant_comes_with_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = candidates("ortune tune m.onnx --set level=", monkeypatch)
    assert "level=disable" in levels and "level=all" in levels
    assert candidates("ortune tune m.onnx --set leve", monkeypatch) == levels


def test_a_value_in_the_word_of_its_option_comes_with_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert candidates("ortune tune m.onnx --objective=la", monkeypatch) == ["--objective=latency"]
    assert candidates("ortune tune m.onnx --set=graph_optimization_level=b", monkeypatch) == [
        "--set=graph_optimization_level=basic"
    ]


@pytest.mark.parametrize("words", [["zsh"], ["fish"], ["bash"]])
def test_the_shell_can_be_named(words: list[str]) -> None:
    script = subprocess.run([ORTUNE, "--show-completion", *words], capture_output=True, text=True, check=True)
    assert f"complete_{words[0]}" in script.stdout
    joined = subprocess.run(
        [ORTUNE, f"--show-completion={words[0]}"], capture_output=True, text=True, check=True
    )
    assert joined.stdout == script.stdout
    unknown = subprocess.run(
        [ORTUNE, "--show-completion", "tcsh"], capture_output=True, text=True, check=False
    )
    assert unknown.returncode == 2 and "tcsh" in unknown.stderr and "zsh" in unknown.stderr


def test_stored_sessions_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert candidates("ortune report ", monkeypatch) == []  # nothing is stored yet
    with Store(tmp_path / "ortune") as store:
        name = store.begin("bench", "key", {}).id
    assert candidates("ortune report ", monkeypatch) == [name]


def shell(name: str) -> str:
    """Where a shell is; the test is skipped where it is not."""
    place = shutil.which(name)
    if place is None:
        pytest.skip(f"{name} is not installed")
    return place


def shells_environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(ORTUNE).parent}:{os.environ['PATH']}", "TERM": "dumb"}


def test_bash_keeps_what_it_has_of_a_word() -> None:
    """It cuts words at "=" and ":", and replaces the last part alone."""
    script = """
        eval "$(ortune --show-completion bash)"
        ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ortune_completion ortune; echo "${COMPREPLY[@]}"; }
        ask ortune tune m.onnx --set graph_optimization_level = ex
        ask ortune tune m.onnx --set spin =
        ask ortune quan
    """
    done = subprocess.run(
        [shell("bash"), "--norc", "-c", script],
        env=shells_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n") == ["extended", "0 1", "quantize", ""]


def test_fish_completes() -> None:
    script = 'ortune --show-completion fish | source; complete -C "ortune compare a --undecided "'
    done = subprocess.run(
        [shell("fish"), "--no-config", "-c", script],
        env=shells_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["fail", "pass"]


def test_zsh_completes_at_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    lines = f"""
        autoload -U compinit; compinit -D -u -d {tmp_path}/dump
        eval "$(ortune --show-completion zsh)"
        print rea''dy
    """
    with subprocess.Popen(
        [shell("zsh"), "-f", "-i"], env=shells_environment(), stdin=theirs, stdout=theirs, stderr=theirs
    ) as started:
        os.close(theirs)
        os.write(ours, lines.encode())
        read_until(ours, b"ready")
        os.write(ours, b"ortune compare a --undecided p\t")
        said = read_until(ours, b"--undecided pass")
        os.write(ours, b" --objective=la\t")
        joined = read_until(ours, b"--objective=latency")
        os.write(ours, b"\x15ortune explain ENV00\t")
        quoted = read_until(ours, b'is not "performance"')
        os.write(ours, b"\x15ortune explain GRA01\t")
        apostrophe = read_until(ours, b"the model's functions")
        started.kill()
    os.close(ours)
    assert (said, joined, quoted, apostrophe) == (True, True, True, True)


def read_until(terminal: int, wanted: bytes) -> bool:
    """Returns whether it is printed before the terminal closes."""
    said = b""
    while wanted not in said:
        try:
            said += os.read(terminal, 65536)
        except OSError:
            return False
    return True
