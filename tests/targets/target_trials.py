"""Trials of a small model on a target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from onnx_text import assemble
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Measured, Outcome, Plan, Runtime, TrialRequest, Value
from ortune.targets import Target
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import TrialTask
from ortune.targets.turns import Turns

TURNS = Turns(runs=4, unmeasured=1, rounds=2)
RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((4, 4), np.float32)
FEED = RNG.standard_normal((8, 4), np.float32)


def model(path: Path, op: str = "Relu", domain: str = "") -> Path:
    """y = op(x @ w): enough that a provider has something to take, and a GPU that is software little to compile."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node(op, ["m"], ["y"], name="last", domain=domain),
    ]
    own = {domain: 1} if domain else None
    proto = assemble(nodes, "float[8,4] x", "float[8,4] y", {"w": WEIGHT}, opset=13, ir_version=7, opsets=own)
    onnx.save(proto, path)
    return path


class Trials:
    """Trials of a target in one folder."""

    def __init__(self, folder: Path, target: Target, runtime: Runtime) -> None:
        self.folder, self.target, self.runtime = folder, target, runtime
        write_feeds(folder / "feeds", {"x": FEED})

    def task(
        self, name: str, path: Path, settings: dict[str, Value] | None = None, *, watched: bool = False
    ) -> TrialTask:
        """One that keeps its outputs and is profiled, where it is watched; else it is not even warmed up."""
        place = self.folder / name
        place.mkdir()
        request = TrialRequest(
            model=str(path),
            feeds=(FeedRef(name="all", path=str(self.folder / "feeds")),),
            warmup_runs=int(watched),
            warmup_ns=0,
            outputs_path=str(place / "outputs") if watched else "",
            profile_path=str(place / "profile") if watched else "",
        )
        plan = Plan(settings=settings or {}, providers=self.target.providers)
        return TrialTask(plan=plan, runtime=self.runtime, request=request, folder=place, scratch=self.folder)

    def run(self, *tasks: TrialTask) -> list[Outcome]:
        found = run(tasks, Machine(), TURNS)
        assert found is not None
        return list(found)


def measured(outcome: Outcome) -> Measured:
    assert isinstance(outcome, Measured), outcome
    return outcome
