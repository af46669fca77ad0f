"""What a program and all that it started have taken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ortune import platform

WORKS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if sys.argv[1:] else None
while time.process_time() < 0.3: pass
print(flush=True)
sys.stdin.read()
if child: child.kill()
"""


def test_threads_of_a_name_are_told_from_others() -> None:
    comm = Path("/proc/self/comm")
    if not comm.exists():
        pytest.skip("NOT TESTED HERE: this system names no threads")
    with subprocess.Popen([sys.executable, "-c", WORKS, "child"], stdin=-1, stdout=-1) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        name = Path(f"/proc/{process.pid}/comm").read_text().strip()
        alone = platform.group_thread_cpu_s(process.pid, name)
        everything = platform.group_cpu_s(process.pid)
        other = platform.group_thread_cpu_s(process.pid, "ThreadPoolForeg")
        process.stdin.close()
    # Both interpreters, of which one goes on. Times of threads and of their process are rounded differently.
    assert 0.3 <= alone <= everything + 0.05 and other == 0.0
    assert platform.group_thread_cpu_s(process.pid, name) == 0.0
