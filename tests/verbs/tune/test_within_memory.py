"""A limit of memory: what is the base of a tuning whose default needs more, and what is within the limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest

from facts import facts
from onnx_text import model_of, saved
from ortune.errors import UsageError
from ortune.records import Plan
from ortune.verbs._shared import tune_headline
from ortune.verbs.tune.options import Options
from ortune.verbs.tune.result import TuneResult
from simulated_machine import Lab, measuring_on
from within import program

MEMORY = {"rows_per_run": 0.5, "enable_cpu_mem_arena": 0.9}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = "g (float[batch,64] x) => (float[batch,64] y) { t = Relu (x)  y = Sigmoid (t) }"
    return saved(tmp_path_factory.mktemp("model") / "rows.onnx", model_of(text))


def tune(model: Path, folder: Path, *words: str) -> tuple[int, str, str]:
    with measuring_on(Lab(2, memory=MEMORY)):
        return program([
            "tune", str(model), "--dim", "batch=64", "--targets", "cpu", "--budget", "24s", "--json",
            "--output", str(folder), "--store", str(folder / "store"), *words,
        ])  # fmt: skip


def test_the_base_is_the_fastest_within_the_limit_and_the_bundle_has_it(model: Path, tmp_path: Path) -> None:
    code, out, said = tune(model, tmp_path, "--max-memory", "45m")
    assert code == 0, said
    document: dict[str, Any] = json.loads(out)
    result = msgspec.convert(document["result"], TuneResult)
    within = result.within_memory
    assert within is not None and within.base == result.default and not within.holds(within.default)
    assert all(within.holds(each) == ("rows_per_run" in each.plan.settings) for each in within.tried)
    assert result.winner.settings["rows_per_run"] in (8, 1) and result.changes
    said = "; ".join(tune_headline.limits(result))
    facts(said, "the default needs 58 MiB", "more than 45 MiB", within.base.describe())
    bundle = Path(result.bundle)
    assert f"MOST_ROWS = {result.winner.settings['rows_per_run']}" in (bundle / "load.py").read_text("utf-8")


def test_a_default_within_the_limit_stays_the_base(model: Path, tmp_path: Path) -> None:
    code, out, said = tune(model, tmp_path, "--max-memory", "80m", "--no-bundle")
    assert code == 0, said
    result = msgspec.convert(json.loads(out)["result"], TuneResult)
    assert result.within_memory is not None and result.within_memory.base is None
    assert result.default == Plan() and not result.within_memory.tried


def test_where_nothing_is_within_the_limit_the_least_is_named(model: Path, tmp_path: Path) -> None:
    code, out, _ = tune(model, tmp_path, "--max-memory", "20m", "--no-bundle")
    error = json.loads(out)["error"]
    assert (code, error["code"]) == (3, "over-memory")
    facts(error["what"], "rows_per_run=", "MiB")
    facts(error["do"], "--max-memory 2")


def test_a_rewrite_can_be_what_is_within_the_limit(tmp_path: Path) -> None:
    text = """g (float[4,64] x) => (float[4,4] y) { y = Einsum <equation = "ij,kj->ik"> (x, x) }"""
    model = saved(tmp_path / "einsum.onnx", model_of(text))
    with measuring_on(Lab(3, memory={"einsum-to-matmul": 0.5, "enable_cpu_mem_arena": 0.95})):
        code, out, said = program([
            "tune", str(model), "--targets", "cpu", "--budget", "30s", "--json", "--max-memory", "45m",
            "--output", str(tmp_path), "--store", str(tmp_path / "store"),
        ])  # fmt: skip
    assert code == 0, said
    result = msgspec.convert(json.loads(out)["result"], TuneResult)
    within = result.within_memory
    assert within is not None and within.base is not None and within.base == result.default
    names = [{spec.name for spec in each.plan.rewrites} for each in within.tried]
    assert [within.holds(each) for each in within.tried] == ["einsum-to-matmul" in mine for mine in names]
    assert "einsum-to-matmul" in {spec.name for spec in result.winner.rewrites}
    loaded = onnx.load(next(Path(result.bundle).glob("*.onnx")))
    assert "MatMul" in {node.op_type for node in loaded.graph.node}


@pytest.mark.parametrize(
    "options", [{"max_memory": "a lot"}, {"objective": "memory"}, {"target": "web-wasm"}]
)
def test_options_that_contradict_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--max-memory"):
        Options(model="model.onnx", **{"max_memory": "1g", **options}).check()
