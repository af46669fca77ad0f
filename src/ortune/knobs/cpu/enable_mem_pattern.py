"""Whether memory for a run is planned from the runs before it.

What it is: for input shapes seen before, one block is taken for all tensors of the run instead of one for each.
Why it costs: the plans of many different shapes are all kept, and the one block is as large as the plan; where shapes
    change from call to call the planning is wasted.
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
