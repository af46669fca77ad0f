"""How the program calls the session.

What it is: run takes and returns numpy arrays; io_binding keeps one binding for each session and thread, and each call
    binds its arrays to it and copies the outputs.
Why it costs: each plain run looks names up, checks and wraps every array; for a model of microseconds that is more
    than its operators. Bound outputs keep their memory only in a model whose shapes are all fixed: elsewhere binding
    them anew takes longer than plain runs do.
Evidence: time of a run less the time of its operators.
Fix and its safety: keep the binding, as ``run()`` of a bundle's load.py does; exact.
Example: ``--set call=io_binding``
References: ONNX Runtime documentation, "I/O Binding"; microsoft/onnxruntime#18475.
"""

from ortune.knobs.knob import SELDOM, Knob

TINY = 40
"""Up to so many nodes a run can cost less than calling it."""

KNOB = Knob(
    name="call_style",
    aliases=("call",),
    channel="call_style",
    key="call_style",
    kind="choice",
    choices=("run", "io_binding"),
    default="run",
    summary="how the program calls the session",
    worth=lambda model, _: {"io_binding": 0.3 if model.n_nodes <= TINY else SELDOM},
)
