"""One command on the hosts of a real Ray cluster on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

import ray_hosts
from dense import dense
from facts import facts
from ortune.assigned_host import HostLost
from ortune.errors import OrtuneError
from ortune.measuring.watcher import Watcher
from ortune.verbs._many.on_ray import RayHosts, _Ready
from within import program

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'ray>=2.60'"
)
SHORT = ("--processes", "3", "--runs", "2", "--budget-each", "20s")


def test_what_cannot_be_on_a_cluster_is_refused(tmp_path: Path) -> None:
    model = str(dense(tmp_path / "m.onnx"))
    for words, said in {
        ("bench", model, "--on", "spark"): ("--on", "ray[:HOST:PORT]"),
        ("bench", model, "--hosts", "kind=a"): ("--hosts", "--on ray"),
        ("bench", model, "--on", "ray", "--hosts", "a"): ("--hosts", "KEY=VALUE"),
        ("bench", model, "--on", "ray", "--host", "a=x"): ("--on", "--host"),
        ("bench", model, "--on", "ray", "--runtime", "x"): ("--runtime", "runtime of its own"),
        ("bench", model, "--on", "ray:nowhere"): ("--on", "HOST:PORT"),
        ("compare", model, "--b-set", "intra=1", "--on", "ray"): ("--on", "--each"),
    }.items():
        code, _, err = program(words)
        assert code == 2, err
        facts(err, *said)


def test_an_address_where_nothing_listens_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    model = str(dense(tmp_path / "m.onnx"))
    code, _, err = program(["bench", model, "--on", f"ray:127.0.0.1:{port}"])
    assert code == 2
    facts(err, f"127.0.0.1:{port}", "ray start --head")


def test_an_address_of_something_else_is_named(tmp_path: Path) -> None:
    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        model = str(dense(tmp_path / "m.onnx"))
        code, _, err = program(["bench", model, "--on", f"ray:127.0.0.1:{server.getsockname()[1]}"])
    assert code == 2
    facts(err, "is not the head of a Ray cluster", "ray start --head")


@dataclass
class _Host:
    """A host on which the runtime cannot be examined."""

    error: Exception

    def niceness(self) -> int:
        raise self.error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), HostLost("was lost")])
def test_a_host_that_cannot_be_examined_is_refused(error: Exception) -> None:
    hosts = RayHosts(cast("Any", None), (), None, Watcher())
    threading.Thread(target=hosts._prepare, args=(_Host(error),), daemon=True).start()
    ready = hosts._came.get(timeout=30)
    assert isinstance(ready, _Ready) and isinstance(ready.found, OrtuneError)
    facts(f"{ready.found.what} {ready.found.do}", *map(str, error.args[-1:]))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ray_hosts.Nodes]:
    """Two equal hosts, one with fewer CPUs, and one without a usable ONNX Runtime."""
    broken = tmp_path_factory.mktemp("broken")
    (broken / "onnxruntime.py").write_text("raise ImportError('no libonnxruntime')\n", "utf-8")
    first = min(os.sched_getaffinity(0))
    with ray_hosts.cluster([
        {"labels": {"size": "large"}},
        {"labels": {"size": "large"}},
        {"labels": {"size": "small"}, "cpus": [first]},
        {"labels": {"size": "broken"}, "env": {"PYTHONPATH": str(broken)}},
    ]) as started:  # fmt: skip
        yield started


def rows_of(store: Path) -> Counter[tuple[str, str]]:
    """How often the journals have the row of each model and host."""
    with sqlite3.connect(store / "ortune.sqlite") as base:
        bodies = [
            json.loads(body) for (body,) in base.execute("SELECT body FROM event WHERE kind = 'model-row'")
        ]
    return Counter((Path(row["path"]).name, row["host"]) for row in bodies if row["status"] == "ok")


@pytest.mark.long  # a cluster takes 15 s to start, and the models take turns on one machine
@needs_ray
def test_each_kind_of_host_has_a_row_and_a_host_without_onnxruntime_is_named(
    nodes: ray_hosts.Nodes, tmp_path: Path
) -> None:
    models = [str(dense(tmp_path / f"{name}.onnx")) for name in "ab"]
    words = ["bench", *models, "--on", f"ray:{nodes.address}", "--store", str(tmp_path / "store"), *SHORT]
    selected = [
        "--hosts",
        "size=large",
        "--hosts",
        "size=small",
        "--price",
        "large=2/h",
        "--price",
        "small=1/h",
    ]
    code, out, err = program([*words, *selected, "--json"])
    assert code == 0, err
    result = json.loads(out)["result"]
    assert [(Path(row["path"]).name, row["host"]) for row in result["models"]] == [
        ("a.onnx", "large"), ("a.onnx", "small"), ("b.onnx", "large"), ("b.onnx", "small"),
    ]  # fmt: skip
    for row in result["models"]:
        assert row["status"] == "ok" and {"p50", "cost per million"} <= {
            one["name"] for one in row["figures"]
        }
        facts(row["machine"], "1 CPU" if row["host"] == "small" else "CPU")
    facts(err, "3 hosts of 2 kinds", "large, small")
    assert "was lost" not in err
    assert set(rows_of(tmp_path / "store").values()) == {1}
    code, _, err = program([*words, "--hosts", "size=broken"])
    assert code == 2
    facts(err, nodes.names[3], "no libonnxruntime")
    code, _, err = program([*words, "--hosts", "size=huge"])
    assert code == 2
    facts(err, "size", "ray start")


@pytest.mark.long
@needs_ray
def test_a_host_that_dies_and_a_driver_that_dies_lose_no_result(
    nodes: ray_hosts.Nodes, tmp_path: Path
) -> None:
    models = [
        str(dense(tmp_path / f"{name}.onnx", scale=scale)) for scale, name in enumerate("abcdef", start=1)
    ]
    store = tmp_path / "store"
    command = [
        sys.executable, "-m", "ortune", "bench", *models, "--on", f"ray:{nodes.address}", "--hosts", "size=large",
        "--store", str(store), "--processes", "8", "--runs", "2000", "--budget-each", "60s", "--json",
    ]  # fmt: skip
    where: dict[str, str] = {}
    killed = ""
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert driver.stderr is not None
    said = []
    for line in driver.stderr:
        said.append(line)
        label, _, rest = line.partition(": ")
        if found := re.search(r"measuring with ray:(\S+)", rest):
            where[label] = found[1]
        if "8 processes of" in rest and not killed:
            killed = where[label]
            nodes.kill(killed)
        elif killed and rows_of(store) and any("was lost" in one for one in said):
            driver.send_signal(signal.SIGKILL)
            break
    driver.communicate()
    assert killed, "".join(said)
    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    result = json.loads(again.stdout)["result"]
    assert [row["status"] for row in result["models"]] == ["ok"] * 6
    assert rows_of(store) == Counter({(f"{name}.onnx", "large"): 1 for name in "abcdef"})
    with sqlite3.connect(store / "ortune.sqlite") as base:
        sessions = base.execute(
            "SELECT session, kind, COUNT(*) FROM event WHERE kind IN ('outcome', 'resumed') GROUP BY session, kind"
        ).fetchall()
        failed = base.execute(
            "SELECT COUNT(*) FROM event WHERE kind = 'outcome' AND body LIKE '%\"kind\":\"failed\"%'"
        ).fetchone()
    outcomes = {session: n for session, kind, n in sessions if kind == "outcome"}
    assert any(kind == "resumed" for _, kind, _ in sessions)  # at least one went on from its journal
    assert max(outcomes.values()) <= 12  # no session ran its processes twice
    assert failed == (0,)  # a lost host is no failure of a model


@pytest.mark.long
@needs_ray
def test_sides_of_a_comparison_run_on_one_host(nodes: ray_hosts.Nodes, tmp_path: Path) -> None:
    words = [
        "compare",
        "--each",
        str(dense(tmp_path / "m.onnx")),
        "--b-set",
        "intra=1",
        "--on",
        f"ray:{nodes.address}",
    ]
    more = [
        "--hosts",
        "size=small",
        "--budget-each",
        "20s",
        "--no-why",
        "--store",
        str(tmp_path / "store"),
        "--json",
    ]
    code, out, err = program([*words, *more])
    assert code == 0 and "was lost" not in err, err
    (row,) = json.loads(out)["result"]["models"]
    assert row["status"] == "ok" and row["host"] == "small"
    with sqlite3.connect(tmp_path / "store" / "ortune.sqlite") as base:
        found = base.execute(
            "SELECT body FROM event WHERE kind = 'result' ORDER BY length(body) DESC"
        ).fetchone()[0]
    result = json.loads(found)["result"]
    assert {result[side]["runtime"]["python"] for side in ("base", "new")} == {f"ray:{nodes.names[2]}"}


@pytest.mark.long
@needs_ray
def test_a_file_larger_than_the_object_store_is_named(nodes: ray_hosts.Nodes, tmp_path: Path) -> None:
    large = dense(tmp_path / "large.onnx")
    small = dense(tmp_path / "small.onnx")
    with large.open("ab") as file:  # an unknown field of the message: every reader skips it
        n = 60 << 20
        length = bytes([n & 127 | 128, n >> 7 & 127 | 128, n >> 14 & 127 | 128, n >> 21])
        file.write(b"\xfa\x7f" + length + bytes(n))
    code, out, err = program([
        "bench", str(large), str(small), "--on", f"ray:{nodes.address}", "--hosts", "size=small",
        "--store", str(tmp_path / "store"), *SHORT, "--json",
    ])  # fmt: skip
    rows = {Path(row["path"]).name: row for row in json.loads(out)["result"]["models"]}
    assert code == 2 and rows["small.onnx"]["status"] == "ok", err
    facts(rows["large.onnx"]["error"]["what"], "object store")
    facts(rows["large.onnx"]["error"]["do"], "--object-store-memory")
