"""Of rewrites that stand together, those go without which ONNX Runtime makes the same graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import zoo
from ortune import rewrites
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.rewriting import ModelVariants
from ortune.measuring.sides import ResolvedSide, SideText, resolve
from ortune.records import Plan, RewriteSpec
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.verbs.tune.needed_rewrites import needed

Called = tuple[ResolvedSide, tuple[RewriteSpec, ...]]


@pytest.fixture(scope="module")
def called_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Called]:
    """A model, and the rewrites that it calls for together."""

    @cache
    def found(name: str) -> Called:
        scratch = tmp_path_factory.mktemp("scratch")
        side = resolve(SideText(text=str(zoo.model_path(name))), common=Plan(), scratch=scratch)
        return side, rewrites.pipeline(side.model.ir, objective="latency")

    return found


def left(
    called: Called, folder: Path, *, limit_s: float = 120.0, everywhere: Plan | None = None
) -> tuple[set[str], set[str]]:
    """The rewrites of the row, and those that stay."""
    side, row = called
    baseline = Measuring(side, InputOptions(), folder, SessionLog(None, ""), lambda _: None, Machine())
    models = ModelVariants(side, folder, (), lambda _: None)
    return names(row), names(needed(baseline, models, row, everywhere or Plan(), limit_s))


def names(row: tuple[RewriteSpec, ...]) -> set[str]:
    return {spec.name for spec in row}


@pytest.mark.parametrize(
    ("name", "idle", "stays"),
    [
        ("ppocrv2-cls", {"constant-folding", "no-op-nodes"}, {"hard-swish"}),
        # Nodes without effect stand between what cascaded-nodes brings together, and ONNX Runtime keeps those.
        ("basic-pitch", {"duplicate-nodes"}, {"no-op-nodes", "cascaded-nodes", "transpose-before-concat"}),
    ],
)
def test_what_onnx_runtime_does_by_itself_goes(
    tmp_path: Path, called_for: Callable[[str], Called], name: str, idle: set[str], stays: set[str]
) -> None:
    row, rest = left(called_for(name), tmp_path)
    assert idle | stays <= row
    assert stays <= rest and not idle & rest


def test_without_the_time_to_look_the_row_stays(tmp_path: Path, called_for: Callable[[str], Called]) -> None:
    row, rest = left(called_for("ppocrv2-cls"), tmp_path, limit_s=0.0)
    assert row == rest


def test_what_onnx_runtime_does_not_do_at_the_level_of_the_plans_stays(
    tmp_path: Path, called_for: Callable[[str], Called]
) -> None:
    disabled = Plan(settings={"graph_optimization_level": "disable"})
    row, rest = left(called_for("ppocrv2-cls"), tmp_path, everywhere=disabled)
    assert {"constant-folding", "no-op-nodes"} <= row == rest
