"""Products of 8 bits that saturate on this CPU are told as the cause of what they move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ortune
from facts import facts
from graphs import QuantizedGraph
from ortune import platform
from ortune.graph.dot_products import saturates
from simulated_machine import Lab, measuring_on


def convolutions(path: Path, largest: int) -> Path:
    """Three convolutions between pairs with weights up to so many steps; no sum leaves its grid by far."""
    g, x = QuantizedGraph(5), "x"
    x = g.pair(x, 0.02)
    for number in range(3):
        values = g.draw.normal(size=(16, 16, 3, 3)) * 0.08
        steps = np.clip(np.rint(values / np.abs(values).max() * largest), -largest, largest).astype(np.int8)
        scale = float(np.abs(values).max() / largest)
        weight = g.add("DequantizeLinear", g.stored(steps), g.stored(np.float32(scale)), g.stored(np.int8(0)))
        y = g.add("Conv", x, weight, name=f"conv{number}", pads=[1, 1, 1, 1])
        x = g.pair(y, 0.02)
    g.add("Identity", x, out="y", name="end")
    return g.save(path, [1, 16, 24, 24], [1, 16, 24, 24])


@pytest.mark.skipif(not saturates(platform.host()), reason="8-bit products do not saturate on this CPU")
@pytest.mark.parametrize(("largest", "saturating"), [(127, True), (40, False)])
def test_what_saturates_is_told_with_what_is_left_without(
    tmp_path: Path, largest: int, saturating: bool
) -> None:
    with measuring_on(Lab(0)):  # nothing is timed, and outputs are real
        answer = ortune.bisect(convolutions(tmp_path / "m.onnx", largest), b_set={"level": "disable"})
    notes = [note for note in answer.result.notes if "saturate on this CPU" in note]
    assert bool(notes) == saturating
    if saturating:
        assert answer.result.stepped is not None and answer.result.stepped.steps.most > 1
        facts(notes[0], "identical", "--a-set x64_quant_precision=1")
