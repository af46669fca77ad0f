"""How the program calls the session.

What it is: run takes and returns numpy arrays; io_binding binds input and output buffers once and refills them.
Why it costs: each plain run looks names up, checks and wraps every array; for a model of microseconds that is more
    than its operators.
Evidence: time of a run less the time of its operators.
Fix and its safety: bind once and write new data into the same arrays; exact.
Example: ``--set call=io_binding``
References: ONNX Runtime documentation, "I/O Binding"; microsoft/onnxruntime#18475.
"""

from ortune.records import Knob

KNOB = Knob(
    name="call_style",
    aliases=("call",),
    channel="call_style",
    key="call_style",
    kind="choice",
    choices=("run", "io_binding"),
    default="run",
    summary="how the program calls the session",
    tries=("io_binding",),
    group="late",
)
