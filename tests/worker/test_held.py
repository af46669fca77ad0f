"""Memory that the worker's process holds, told apart by whose it is: real processes, files and allocations."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from ortune.worker import held

MIB = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells them apart")


def figures() -> dict[str, int]:
    seen = held.idle()
    assert seen is not None
    return {name: value for name, value in seen.items() if value is not None}


def test_pages_of_files_are_no_memory_of_the_process_itself(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"\1" * (32 * MIB))
    before = figures()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 32 * MIB // mmap.PAGESIZE
        after = figures()
    assert after["idle_bytes"] - before["idle_bytes"] > 30 * MIB
    assert after["idle_anonymous_bytes"] - before["idle_anonymous_bytes"] < 8 * MIB


def test_children_are_counted_apart() -> None:
    code = "import sys; held = bytearray(48 << 20); print('ready', flush=True); sys.stdin.read()"
    before = figures()
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == b"ready\n"
        after = figures()
        child.stdin.close()
    assert after["children_bytes"] - before["children_bytes"] > 48 * MIB
    assert after["idle_bytes"] - before["idle_bytes"] < 8 * MIB


def test_what_stays_after_the_release() -> None:
    # In a process of its own: how an allocator gives memory back hangs on what else was allocated.
    code = f"""
import json
from ortune.worker import held
before = held.idle()["idle_bytes"]
kept = [bytearray(b"\\1") * {64 * MIB}]
grown = held.idle()["idle_bytes"]
print(json.dumps([before, grown, held.released(kept.clear)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, grown, after = json.loads(done.stdout)
    assert grown - before > 60 * MIB
    assert after["released_bytes"] is not None and after["released_bytes"] - before < 8 * MIB
    assert after["trimmed_bytes"] is None or after["trimmed_bytes"] <= after["released_bytes"] + MIB


def test_the_group_holds_at_least_what_is_its_cache() -> None:
    seen = figures()
    if "group_bytes" not in seen:
        pytest.skip("no control group is readable here")
    assert seen["group_bytes"] > 0 and seen.get("group_cache_bytes", 0) <= seen["group_bytes"] + 64 * MIB
