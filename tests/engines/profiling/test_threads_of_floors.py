"""How many threads the floors of nodes are reckoned for: as many as compute, whoever said so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from onnxruntime import datasets

from ortune.engines.profiling.result import _conditions
from ortune.measuring.sides import SideText, resolve
from ortune.records import Plan, ProviderSpec, Value


@pytest.mark.parametrize(
    ("setting", "variable", "threads"),
    [
        ("", "", 8),
        ("intra=2", "", 2),
        ("pool=3", "", 3),
        ("env_intra=4", "", 4),
        ("", "5", 5),
        ("intra=2", "5", 2),
    ],
)
def test_the_pool_that_computes_counts(
    setting: str, variable: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORT_INTRA_OP_NUM_THREADS", variable)
    text = SideText(
        text=datasets.get_example("sigmoid.onnx"),
        settings=[setting] if setting else [],
        runtime=sys.executable,
    )
    side = resolve(text, common=Plan(), scratch=tmp_path)
    assert _conditions(side, 8).threads == threads


@pytest.mark.parametrize(
    ("settings", "cpus", "threads"),
    [
        ({}, 2, 1),
        ({}, 3, 2),
        ({}, 16, 4),
        ({"web_threads": 2}, 2, 2),
        ({"web_threads": 8}, 4, 4),
        ({"web_threads": 2, "web_isolation": False}, 8, 1),
    ],
)
def test_a_page_computes_with_as_many_as_onnxruntime_web_takes(
    settings: dict[str, Value], cpus: int, threads: int, tmp_path: Path
) -> None:
    plan = Plan(settings=settings, providers=(ProviderSpec(name="wasm"),))
    side = resolve(SideText(text=datasets.get_example("sigmoid.onnx")), common=plan, scratch=tmp_path)
    assert _conditions(side, cpus).threads == threads
