"""Compilers and what they make: run, told apart where they are missing, and their programs judged."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from emitted_code import emitted

from ortune import platform
from ortune.records import Value


def run(*command: str | Path, **variables: str) -> str:
    """What a compiler says; "" when it accepts."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **variables},
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


def needs(*tools: str) -> str:
    """The first of these tools that is here."""
    found = next((path for tool in tools if (path := shutil.which(tool))), None)
    if found is None:
        pytest.skip(f"no {' or '.join(tools)} on this machine")
    return found


def on_hosts(file: str) -> list[str]:
    """The file for five machines: this one, one of another CPU, one with more features, another architecture, and one
    with more CPUs."""
    host = platform.host()
    hosts = [
        host,
        msgspec.structs.replace(host, cpu="Another CPU 9000"),
        msgspec.structs.replace(host, features=(*host.features, "imaginary")),
        msgspec.structs.replace(host, machine="sparc"),
        msgspec.structs.replace(host, effective_cpus=4096),
    ]
    settings: dict[str, Value] = {"ort_intra_op_num_threads": 4096, "allocator": "jemalloc"}
    return [emitted(settings, host=one)[file] for one in hosts]


def judged(said: str) -> None:
    """What a program says of those five, a line each, then its CPUs and the lines to start the first and last with."""
    *others, cpus, line, smaller = said.splitlines()
    assert others[0] == "" and others[1].endswith(" here, tuned on Another CPU 9000")
    assert others[2] == "no imaginary here" and others[3].endswith(" here, tuned on sparc")
    assert others[4] == ""
    assert 1 <= int(cpus) <= len(os.sched_getaffinity(0))
    # More threads than CPUs were measured here; on a machine with fewer CPUs they are too many.
    assert line.startswith("ORT_INTRA_OP_NUM_THREADS=4096 LD_PRELOAD=")
    assert smaller.startswith(f"ORT_INTRA_OP_NUM_THREADS={cpus} LD_PRELOAD=")


def said(*command: str | Path) -> str:
    """What a program prints, started with none of its variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("LD_PRELOAD", "ORT_INTRA_OP_NUM_THREADS")
    }
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=kept).stdout
