"""A side as a verb holds it before anything is timed."""

from __future__ import annotations

from pathlib import Path

from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import SideText, resolve
from ortune.records import Plan
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine


def settled(model: Path, folder: Path, inputs: Path | None = None) -> Measuring:
    """A side with its feeds written.

    Args:
        model: Its file.
        folder: For what is written.
        inputs: The user's own; generated where there are none.
    """
    side = resolve(SideText(text=str(model)), common=Plan(), scratch=folder)
    options = InputOptions(inputs=inputs)
    baseline = Measuring(side, options, folder, SessionLog(None, ""), lambda text: None, Machine())
    baseline.find_inputs(60.0)
    return baseline
