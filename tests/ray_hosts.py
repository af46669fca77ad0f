"""A real Ray cluster on this machine, for tests: a head, and nodes that can be killed.

Run as a program it reads commands from stdin: "kill NAME" ends a node without warning. It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

STORE_BYTES = 100 << 20


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """A running cluster.

    Attributes:
        address: Of its head.
        names: Of its hosts, as ortune names them, in the order in which they were started.
    """

    address: str
    names: list[str]
    _process: subprocess.Popen[str]

    def kill(self, name: str) -> None:
        """End a node without warning."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"kill {name}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "killed\n"


@contextmanager
def cluster(nodes: list[dict[str, Any]]) -> Iterator[Nodes]:
    """Start a cluster, and end it.

    Args:
        nodes: For each its ``labels``, the CPUs it may use (``cpus``), and variables of its processes (``env``).
    """
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(nodes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        started = json.loads(process.stdout.readline())
        yield Nodes(address=started["address"], names=started["names"], _process=process)
    finally:
        process.stdin.close()
        process.wait(60)


def main(nodes: list[dict[str, Any]], commands: IO[str]) -> None:
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    here = Cluster(initialize_head=True, head_node_args=head)
    started, cpus, before = [], os.sched_getaffinity(0), dict(os.environ)
    for node in nodes:
        os.environ.update(node.get("env", {}))
        os.sched_setaffinity(0, node.get("cpus", cpus))
        one = here.add_node(
            wait=False,
            num_cpus=1,
            resources={"ortune": 1},
            labels=node["labels"],
            object_store_memory=STORE_BYTES,
        )
        os.sched_setaffinity(0, cpus)
        os.environ.clear()
        os.environ.update(before)
        started.append(one)
    here.wait_for_nodes(60)
    names = {f"{one.node_ip_address}/{one.node_id[:6]}": one for one in started}
    say = sys.stdout
    say.write(json.dumps({"address": here.address, "names": list(names)}) + "\n")
    say.flush()
    for line in commands:
        here.remove_node(names[line.split()[1]], allow_graceful=False)
        say.write("killed\n")
        say.flush()
    here.shutdown()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.stdin)
