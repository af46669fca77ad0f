"""Whether onnxruntime-web leaves weights as they are instead of packing them for its kernels.

What it is: at session creation MatMul, Gemm and others copy their weights into the layout that their kernel reads.
Why it costs: packing takes time, and temporarily needs twice the memory of the weights, in a WebAssembly memory of at
    most 4 GiB. Without prepacking, every run packs the weights again.
Evidence: session creation time, memory and latency.
Fix and its safety: on where load time or memory matters more than latency; exact.
Example: ``--target web-wasm --set web_prepacking_off=1``
References: ONNX Runtime, ``session.disable_prepacking``.
"""

from ortune.knobs.facts import PACKED
from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="web_prepacking_off",
    channel="web_session",
    key="extra.session.disable_prepacking",
    kind="choice",
    choices=("0", "1"),
    default="0",
    summary="weights are not packed at session creation",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.has(*PACKED),
    priors={"memory": 0.6, "cold-start": 0.6},
)
