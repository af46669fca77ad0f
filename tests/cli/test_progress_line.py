"""The line at a terminal that says what is done: alive through a step that takes long."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys

CODE = """
import sys
from ortune.cli.session import Messages
from ortune.step import Step
with Messages().progress() as show:
    show(Step(what="a step that takes long", ranking=("fastest so far:",)))
    sys.stdin.readline()
"""
PATIENCE_S = 30.0


def test_seconds_go_on_while_nothing_is_said() -> None:
    terminal, stderr = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    child = subprocess.Popen(
        [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stderr=stderr, env=environment
    )
    os.close(stderr)
    shown = b""
    while not all(f"{second} s  a step that takes long".encode() in shown for second in (1, 2)):
        assert select.select([terminal], [], [], PATIENCE_S)[0], shown
        shown += os.read(terminal, 4096)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait() == 0
    os.close(terminal)


def test_a_drawing_is_for_a_terminal_that_holds_it_alone() -> None:
    code = "from ortune.cli.session import Messages; s = Messages(); s.draw(('▀▄█ ',)); s.draw(('█' * 81,)); s('over')"
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    terminal, stderr = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", code], stderr=stderr, env=environment)
    os.close(stderr)
    shown = b""
    while b"over" not in shown:
        assert select.select([terminal], [], [], PATIENCE_S)[0], shown
        shown += os.read(terminal, 4096)
    assert child.wait() == 0
    os.close(terminal)
    drawing = shown.partition(b"over")[0].decode()
    assert "▀▄█" in drawing and drawing.count("█") == 1
    assert "[30;47m" in drawing  # black on white
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert piped.stderr == b"over\n"
