"""A Ray cluster over a network that can fail: each node is in a network namespace of its own, behind a bridge."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

STORE_BYTES = 100 << 20
RAY = str(Path(sys.executable).with_name("ray"))
NET, BRIDGE, PORT = "10.91.0", "ortune-br", 6391


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def within(number: int) -> list[str]:
    """What starts a program in the namespace of a node."""
    return ["ip", "netns", "exec", f"ortune-{number}"]


def set_network(number: int, state: str) -> None:
    """Let the network of a node fail ("down"), or come back ("up")."""
    run("ip", "link", "set", f"ortune-v{number}", state)


@contextmanager
def cluster(n_hosts: int) -> Iterator[str]:
    """Start a head, that many hosts (1, 2, ...) and a node 0 that is no host; the address of the head."""
    if os.geteuid() or shutil.which("ip") is None or not Path(RAY).exists():
        pytest.skip("needs root, ip and Ray")
    with ExitStack() as stack:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        stack.callback(run, "ip", "link", "del", BRIDGE)
        run("ip", "addr", "add", f"{NET}.100/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        address = f"{NET}.100:{PORT}"
        head = ["--head", "--node-ip-address", f"{NET}.100", "--port", str(PORT), "--include-dashboard=false"]
        stack.enter_context(started([], head))
        for number in range(n_hosts + 1):
            name, link = f"ortune-{number}", f"ortune-v{number}"
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
            run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", link, "master", BRIDGE, "up")
            run(*within(number), "ip", "addr", "add", f"{NET}.{number + 1}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                run(*within(number), "ip", "link", "set", device, "up")
            resources = {"ortune": 1} if number else {}
            node = [
                "--address",
                address,
                "--node-ip-address",
                f"{NET}.{number + 1}",
                "--resources",
                json.dumps(resources),
            ]
            stack.enter_context(started(within(number), node))
        yield address


@contextmanager
def started(before: list[str], words: list[str]) -> Iterator[None]:
    """Start a node, wait until it runs, and end it with its processes."""
    variables = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    common = ["--num-cpus", "1", "--object-store-memory", str(STORE_BYTES), "--block"]
    process = subprocess.Popen(
        [*before, RAY, "start", *words, *common],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **variables},
    )
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ray runtime started" in line:
                break
        else:
            raise AssertionError("".join(said))
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)
