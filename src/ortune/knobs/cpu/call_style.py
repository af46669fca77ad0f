"""How the program calls the session.

What it is: ``run`` takes and returns NumPy arrays; ``io_binding`` keeps one binding for each session and thread, and
    each call binds its arrays to it and copies the outputs. On a GPU, ``device_binding`` keeps buffers there that each
    call copies into and reads from, and ``device_resident`` leaves inputs and outputs on the device.
Why it costs: each plain run looks up names, and checks and wraps every array; in a model that runs for microseconds,
    this takes longer than the operators. Bound outputs keep their memory only in a model whose shapes are all fixed:
    otherwise, binding them for every run takes longer than a plain run. On a GPU a plain run also allocates there, and
    waits for each copy.
Evidence: time of a run minus the time of its operators; on a GPU, the copies in a profile.
Fix and its safety: keep the binding, as ``run()`` of a bundle's load.py does; exact. ``device_resident`` is for
    programs whose data is already on the GPU. It is never proposed, because it omits work that the other styles do.
Example: ``--set call=io_binding``
References: ONNX Runtime documentation, "I/O Binding"; microsoft/onnxruntime#18475.
"""

from ortune import providers
from ortune.knobs.knob import OFTEN, SELDOM, Knob

TINY = 40
"""Up to so many nodes a run can cost less than calling it."""

_WITH_MEMORY = tuple(p.name for p in providers.that(lambda p: p.memory))

KNOB = Knob(
    name="call_style",
    aliases=("call",),
    channel="call_style",
    key="call_style",
    kind="choice",
    choices=("run", "io_binding", "device_binding", "device_resident"),
    only={"device_binding": _WITH_MEMORY, "device_resident": _WITH_MEMORY},
    default="run",
    summary="how the program calls the session",
    worth=lambda model, _: {
        "io_binding": 0.3 if model.n_nodes <= TINY else SELDOM,
        "device_binding": OFTEN,
    },
)
