"""Whether operators that do not depend on each other run at the same time.

What it is: ``sequential`` runs one operator after the other; ``parallel`` hands ready operators to a second, inter-op
    pool.
Why it costs: parallel mode helps only if the graph has wide branches of heavy operators. On a chain it adds
    synchronisation and a spinning pool, and the two pools together can have more threads than there are CPUs.
Evidence: branches in the graph; node events of different threads that overlap in the profile.
Fix and its safety: ``parallel`` only where it measures faster; exact.
Example: ``--set mode=parallel``
References: ONNX Runtime documentation, "Thread management"; microsoft/onnxruntime#23303, #11668, #12891.
"""

from __future__ import annotations

from ortune.knobs.facts import ModelFacts
from ortune.knobs.knob import OFTEN, SELDOM, Knob

WIDE = 1.15
"""Heavy operators over their longest chain from which parallel mode is worth a trial."""


def wide(model: ModelFacts) -> bool:
    """Returns whether a model has branches of heavy operators that could run at once."""
    return model.branches > 1 and model.parallelism_ratio >= WIDE


def _worth(model: ModelFacts, ort_version: str) -> dict[str, float]:
    return {"parallel": OFTEN if model.parallelism_ratio >= 2 else SELDOM} if wide(model) else {}


KNOB = Knob(
    name="execution_mode",
    aliases=("mode",),
    channel="session_option",
    key="execution_mode",
    kind="choice",
    choices=("sequential", "parallel"),
    spelled=(("sequential", "ORT_SEQUENTIAL"), ("parallel", "ORT_PARALLEL")),
    default="sequential",
    summary="independent operators in sequence or in parallel",
    under_load=True,
    worth=_worth,
    triton="execution_mode",
    triton_values={"ORT_SEQUENTIAL": "0", "ORT_PARALLEL": "1"},
)
