"""A rewrite by a tool that hangs is cut off, and costs the plans that need it alone."""

from __future__ import annotations

import sys
from pathlib import Path

from onnxruntime import datasets

from ortune.engines.racing.tuning import Tuning
from ortune.measuring.budget import Budget
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.replay import Replay
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import SideText, resolve
from ortune.measuring.watcher import Watcher
from ortune.records import Plan, RewriteSpec
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine


def test_it_is_cut_off_once_and_the_reason_stays(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$2" = tool ] && echo >> "{starts}" && exec sleep 600\nexec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    with scratch_folder() as scratch:
        text = datasets.get_example("sigmoid.onnx")
        side = resolve(SideText(text=text, runtime=str(python)), common=Plan(), scratch=scratch)
        baseline = Measuring(side, InputOptions(), scratch, SessionLog(None, ""), print, Machine())
        tuning = Tuning(
            baseline, Replay(), Watcher(), objective="latency", worth=0.01, allowed=(),
            budget=Budget(total_s=600), current=None,
        )  # fmt: skip
        slow = RewriteSpec(name="ort-optimized-model")
        for settings in ({}, {"intra_op_num_threads": 1}):
            model, why = tuning.plan_runs.model_of(Plan(rewrites=(slow,), settings=settings), 1.0)
            assert model is None and "timed out after 1 s" in why
        assert len(starts.read_text().splitlines()) == 1
        assert tuning.plan_runs.model_of(Plan(settings={"intra_op_num_threads": 1}), 1.0) == (side.runs, "")
