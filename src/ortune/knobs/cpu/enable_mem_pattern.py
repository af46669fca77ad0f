"""Whether memory for a run is planned from earlier runs.

What it is: for input shapes that were used before, one block is allocated for all tensors of the run.
Why it costs: a plan is kept for every shape, and its block has the size of the whole plan. If shapes change from run
    to run, planning is wasted.
Evidence: latency and peak memory over several shapes.
Fix and its safety: off where shapes vary widely; exact.
Example: ``--set pattern=0``
References: ONNX Runtime documentation, "Memory consumption"; microsoft/onnxruntime#11118.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="enable_mem_pattern",
    aliases=("pattern",),
    channel="session_option",
    key="enable_mem_pattern",
    kind="bool",
    default="on",
    summary="memory planned from earlier runs",
    tries=("0",),
    prior=SELDOM,
    priors={"memory": 0.4},
    triton="enable_mem_pattern",
)
