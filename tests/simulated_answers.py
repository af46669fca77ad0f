"""What a simulated machine answers: a real run of the same model, plan and inputs, once for all tests."""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ortune import monotonic
from ortune.platform import SensorSnapshot
from ortune.records import Failed, Measured
from ortune.targets.machine import Machine
from ortune.targets.runner import run as run_for_real
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import ALONE

_answers: dict[tuple[str, ...], Measured | Failed] = {}
_names: dict[tuple[str, int, int], str] = {}
KEPT = Path(tempfile.mkdtemp(prefix="simulated-"))
atexit.register(shutil.rmtree, KEPT, ignore_errors=True)  # it may lie in memory


def model_name(path: str) -> str:
    """The digest of a model's file, which is read once."""
    seen = Path(path).stat()
    key = (path, seen.st_size, seen.st_mtime_ns)
    if key not in _names:
        _names[key] = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    return _names[key]


def name_of(task: TrialTask) -> str:
    """What a task runs: the digest of a model's file; of a source its name, and how it is run."""
    source = task.runtime.source
    return f"{source.source} {source.style}" if source is not None else model_name(task.request.model)


class Here(Machine):
    """This machine, whose sensors nobody reads: those of the simulated one take their place.

    Its instruction sets are unknown, so that a number type that only the simulated processor has is run in another.
    """

    def __init__(self) -> None:
        super().__init__()
        self.host = msgspec.structs.replace(self.host, features=())

    def sensors(self) -> SensorSnapshot:
        return SensorSnapshot(load1=0.0, busy_us=0, own_us=0, at_ns=0)


here = functools.cache(Here)


def answer(task: TrialTask) -> Measured | Failed:
    """What a real trial of the task answers; one is run where none of the same model, plan and inputs was."""
    request = task.request
    if request.profile_path:
        return Failed(plan=task.plan.id, reason="unsupported", what="no profiler here", phase="preparing")
    feeds = [
        hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        for ref in request.feeds
        for file in sorted(Path(ref.path).iterdir())
    ]
    names = [ref.name for ref in request.feeds]  # outputs are in folders of these names
    key = (name_of(task), task.plan.id, task.runtime.python, *feeds, *names)
    if key not in _answers:
        _answers[key] = _run_once(task, KEPT / f"{len(_answers)}")
    return _answers[key]


def _run_once(task: TrialTask, folder: Path) -> Measured | Failed:
    """A real trial, loaded and run once, with its outputs kept."""
    folder.mkdir(parents=True)
    request = msgspec.structs.replace(
        task.request, outputs_path=str(folder / "outputs"), warmup_runs=0, wait_ratio=0.0, seed=0
    )
    # The task's limits follow from simulated times; by the simulated clock a process that hangs would reach none.
    limits = Limits(load_s=60.0, run_s=max(2.0, task.limits.run_s))
    real = replace(task, request=request, folder=folder, limits=limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monotonic, "now_s", time.monotonic)
        patch.setattr(monotonic, "now_ns", time.monotonic_ns)
        outcomes = run_for_real([real], here(), ALONE)
    assert outcomes is not None
    return outcomes[0]


def outputs_of(real: Measured, task: TrialTask, *, lies: bool) -> str:
    """The outputs where the task wants them; one that lies has others."""
    if not task.request.outputs_path:
        return ""
    target = Path(task.request.outputs_path)
    shutil.copytree(real.outputs_path, target, dirs_exist_ok=True)
    if lies:
        for file in sorted(target.rglob("*.npy")):
            array = np.load(file)
            np.save(file, array + (1 + np.abs(array)).astype(array.dtype))
    return str(target)
