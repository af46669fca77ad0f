"""A network that fails for a minute, on a real Ray cluster: that of a host, and that of the driver."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import ray_network
from dense import dense

FAILS_S = 60.0
"""Longer than a host may take to answer, and than Ray waits for a node."""


@pytest.mark.long  # minutes: a cluster, and twice a minute without a network
@pytest.mark.parametrize("fails", ["driver", "host"])
def test_a_network_that_fails_for_a_minute_loses_no_result(tmp_path: Path, fails: str) -> None:
    models = [str(dense(tmp_path / f"{name}.onnx", scale=i)) for i, name in enumerate("abcd", start=1)]
    with ray_network.cluster(2) as address:
        words = [
            sys.executable, "-m", "ortune", "bench", *models, "--on", f"ray:{address}", "--store",
            str(tmp_path / "store"), "--processes", "6", "--runs", "500", "--budget-each", "60s", "--json",
        ]  # fmt: skip
        driver = subprocess.Popen(
            [*ray_network.within(0), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert driver.stderr is not None and driver.stdout is not None
        said: list[str] = []
        measures = threading.Event()

        def follow() -> None:
            for line in driver.stderr or ():
                said.append(line)
                if "processes of" in line:
                    measures.set()
            measures.set()

        reader = threading.Thread(target=follow)
        reader.start()
        measures.wait()
        number = 0 if fails == "driver" else 1
        ray_network.set_network(number, "down")
        time.sleep(FAILS_S)
        ray_network.set_network(number, "up")
        out = driver.stdout.read()
        reader.join()
        assert driver.wait() == 0, "".join(said)
    lost = [line for line in said if "was lost" in line]
    assert lost and all(len(line) < 200 for line in lost), "".join(said)
    rows = json.loads(out)["result"]["models"]
    assert [row["status"] for row in rows] == ["ok"] * len(models)
    with sqlite3.connect(tmp_path / "store" / "ortune.sqlite") as base:
        stored = [
            json.loads(body) for (body,) in base.execute("SELECT body FROM event WHERE kind = 'model-row'")
        ]
    assert Counter(row["path"] for row in stored if row["status"] == "ok") == Counter(models)
