"""A recorded program has the terminal: it reads what is typed, and gets Ctrl-C once."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

APP = """
import sys, time
import onnxruntime as ort
from onnxruntime import datasets
ort.InferenceSession(datasets.get_example("sigmoid.onnx"))
print("isatty", sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), flush=True)
print("asks", flush=True)
print("got", input(), flush=True)
interrupts = 0
for _ in range(2):
    try:
        print("waiting", flush=True)
        # A signal that comes just before a sleep begins is seen at its end only.
        for _ in range(20 if interrupts else 600): time.sleep(0.1)
    except KeyboardInterrupt:
        interrupts += 1
print("interrupts", interrupts, flush=True)
sys.exit(6)
"""


def test_the_terminal_is_the_programs(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "ortune", "record", "--", sys.executable, "app.py"])
    printed, typed = b"", {b"asks": b"hello\n", b"waiting": b"\x03"}
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        printed += data
        for seen in [seen for seen in typed if seen in printed]:
            os.write(terminal, typed.pop(seen))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = printed.decode("utf-8", "replace")
    assert code == 6, text
    assert "isatty True True True" in text
    assert "got hello" in text
    assert "interrupts 1" in text
    assert "nothing found" in text
    assert (tmp_path / "app.workload").exists()
