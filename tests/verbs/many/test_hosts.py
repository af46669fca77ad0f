"""One command on several machines, one after another: a row for each model and machine, and machines compared."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import boards
from dense import dense
from facts import facts
from ortune import platform
from ortune.errors import UsageError
from ortune.verbs._many.batch import batch
from ortune.verbs._shared.hosts import HostOption, parse
from ortune.verbs.bench.options import Options as BenchOptions
from ortune.verbs.compare.options import Options as CompareOptions
from within import program


def test_a_host_is_a_name_and_a_script() -> None:
    assert parse(["a=./x y", "pi-4=b=c"]) == (
        HostOption(name="a", script="./x y"),
        HostOption(name="pi-4", script="b=c"),
    )
    for texts in (
        ["a"],
        ["=x"],
        ["a="],
        ["../a=x"],
        ["a b=x"],
        ["a=x", "a=y"],
        [f"h{i}=x" for i in range(101)],
    ):
        with pytest.raises(UsageError):
            parse(texts)


def test_each_model_is_run_on_all_hosts_before_the_next(tmp_path: Path) -> None:
    models = [str(dense(tmp_path / name)) for name in ("a.onnx", "b.onnx")]
    values = {"model": models, "host": ["x=one", "y=two"], "report": None}
    asked, _ = batch("bench", BenchOptions, values, {"host"})
    assert asked is not None
    assert asked.items == ((models[0], "x"), (models[0], "y"), (models[1], "x"), (models[1], "y"))
    assert asked.values_of(models[1], "y") == {"model": models[1], "runtime": "two"}
    assert "--host x=one --host y=two" in asked.command()
    one, _ = batch("bench", BenchOptions, values | {"model": [models[0]]}, {"host"})
    assert one is not None and one.items == ((models[0], "x"), (models[0], "y"))
    none, _ = batch("bench", BenchOptions, {"model": [models[0]], "host": ()}, ())
    assert none is None


def test_a_release_is_sent_to_each_host(tmp_path: Path) -> None:
    model = str(dense(tmp_path / "m.onnx"))
    values = {"a": model, "each": True, "host": ["x=one", "y=two"], "b_runtime": "onnxruntime==1.31.1"}
    asked, _ = batch("compare", CompareOptions, values, {"host", "b_runtime"})
    assert asked is not None
    there = asked.values_of(model, "y")
    assert (there["runtime"], there["b_runtime"]) == ("two", "onnxruntime==1.31.1@two")
    sides = CompareOptions(**there)
    assert [sides.side(letter).runtime for letter in "ab"] == ["two", "onnxruntime==1.31.1@two"]
    facts(asked.command(), "--b-runtime onnxruntime==1.31.1", "--host x=one --host y=two")
    on_ray, _ = batch(
        "bench", BenchOptions, {"model": [model], "on": "ray", "runtime": "onnxruntime==1.31.1"}, {"on"}
    )
    assert on_ray is not None and on_ray.values_of(model)["runtime"] == "onnxruntime==1.31.1"
    one = CompareOptions(a=model, b_host="pi=./on-pi", b_runtime="onnxruntime==1.31.1")
    assert one.side("b").runtime == "onnxruntime==1.31.1@./on-pi"


def test_what_cannot_be_on_several_hosts_is_refused(tmp_path: Path) -> None:
    model = str(dense(tmp_path / "m.onnx"))
    for words, said in {
        ("bench", model, "--host", "a=x", "--runtime", "y"): ("--runtime", "runtime of its own"),
        ("compare", model, "--b-set", "intra=1", "--host", "a=x"): ("--host", "--each", "--b-host"),
        ("tune", model, "--host", "a=x", "--host", "b=y", "--force"): ("--force", "2 bundles"),
        ("compare", model, "--b-host", "a=x", "--b-runtime", "y"): ("--b-host", "--b-runtime"),
        ("compare", model, "--b-host", "x"): ("--b-host", "NAME=SCRIPT"),
        ("compare", "--each", model, "--b-runtime", "openvino", "--host", "a=x"): ("--b-runtime", "release"),
        ("history", model, "--host", "a=x", "--price", "1/h"): ("--price",),
    }.items():
        code, _, err = program(words)
        assert code == 2, err
        facts(err, *said)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two machines, of which the second has one CPU, and one that is not there."""
    folder = tmp_path_factory.mktemp("hosts")
    first = str(min(os.sched_getaffinity(0)))
    small = f"taskset -c {first}" if shutil.which("taskset") else ""
    return {
        "large": boards.board(folder, "large"), "small": boards.board(folder, "small", before=small),
        "gone": Path("/bin/false"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def answered(
    hosts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Any], str, Path]]:
    """The document of a bench on all of them, and its store."""
    folder = tmp_path_factory.mktemp("benched")
    model = dense(folder / "m.onnx")
    words = [word for name, script in hosts.items() for word in ("--host", f"{name}={script}")]
    common = ["--store", str(folder / "store"), "--processes", "3", "--runs", "2", "--budget-each", "20s"]
    code, out, err = program(
        ["bench", str(model), *words, *common, "--export", f"csv={folder}/a.csv", "--json"]
    )
    assert code == 2, err  # of the one that is not there
    yield json.loads(out), err, folder


def test_each_host_has_a_row_with_its_machine_and_its_runtime(
    answered: tuple[dict[str, Any], str, Path],
) -> None:
    document, said, folder = answered
    rows = {row["host"]: row for row in document["result"]["models"]}
    assert set(rows) == {"large", "small", "gone"}
    for name in ("large", "small"):
        assert rows[name]["status"] == "ok" and rows[name]["figures"]
        facts(rows[name]["machine"], platform.host().cpu)
        facts(rows[name]["runtime"], "onnxruntime")
    if shutil.which("taskset"):
        facts(rows["small"]["machine"], "1 CPU")
    assert rows["gone"]["status"] == "error" and rows["gone"]["error"]["where"] == "--host gone"
    facts(said, "1 model on 3 hosts", "m.onnx on large", "m.onnx on small")
    cells = (folder / "a.csv").read_text("utf-8")
    assert "m.onnx on large" in cells and "m.onnx on small" in cells


def test_report_shows_the_hosts_again(answered: tuple[dict[str, Any], str, Path]) -> None:
    document, _, folder = answered
    code, out, err = program(["report", document["result"]["session"], "--store", str(folder / "store")])
    assert code == 0, err
    facts(out, "1 model on 3 hosts", "2 done", "1 failed", "large", "small", "gone")


def test_machines_are_compared_only_on_request_and_labelled(hosts: dict[str, Path], tmp_path: Path) -> None:
    model = str(dense(tmp_path / "m.onnx"))
    common = ["--budget", "1s", "--no-why", "--json", "--store", str(tmp_path / "store")]
    a, b = (f"{name}={hosts[name]}" for name in ("large", "small"))
    code, out, err = program(["compare", model, "--a-host", a, "--b-host", b, *common])
    assert code == 0, err
    result = json.loads(out)["result"]
    assert [text.partition(" (")[0] for text in result["machines"]] == ["A on large", "B on small"]
    assert result["base"]["runtime"]["python"] == str(hosts["large"])
    assert result["new"]["runtime"]["python"] == str(hosts["small"]) and result["outputs"]["ok"]
    code, out, err = program(["report", result["session"], "--store", str(tmp_path / "store")])
    facts(out, "a comparison of machines", "A on large", "B on small")
    code, _, err = program(["compare", model, "--b-runtime", str(hosts["small"]), *common])
    assert code == 2
    facts(err, "different machine", "--b-host")
