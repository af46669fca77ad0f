"""Whether onnxruntime-web keeps the memory of a run for the next one.

What it is: memory of WebAssembly is taken in large regions and handed out again from there.
Why it costs: WebAssembly's memory never shrinks, so what the arena holds is the page's for good; without it each run
    allocates again.
Evidence: latency; the size of the memory, which is 4 GiB at most.
Fix and its safety: on if it was measured to be faster; exact. The default is on in native builds and off here.
Example: ``--target web-wasm --set web_mem_arena=1``
References: onnxruntime-common, ``enableCpuMemArena``.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="web_mem_arena",
    channel="web_session",
    key="enableCpuMemArena",
    kind="bool",
    default="off",
    summary="memory of a run is kept for the next one",
    tries=("1",),
    prior=SELDOM,
)
