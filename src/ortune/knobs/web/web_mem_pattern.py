"""Whether onnxruntime-web plans the memory of a run from earlier runs.

What it is: for sizes that were used before, one block is allocated for all tensors of a run.
Why it costs: the plan takes memory; without a plan, each tensor is allocated separately. With WebGPU it is always
    off.
Evidence: latency; the size of WebAssembly memory.
Fix and its safety: the value that measures better; exact.
Example: ``--target web-wasm --set web_mem_pattern=1``
References: onnxruntime-common, ``enableMemPattern``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.web_wasm import PROVIDER as WEB_WASM

KNOB = Knob(
    name="web_mem_pattern",
    channel="web_session",
    key="enableMemPattern",
    provider=WEB_WASM.name,
    kind="bool",
    default="off",
    summary="the memory of a run is planned from earlier ones",
    tries=("1",),
    prior=SELDOM,
)
