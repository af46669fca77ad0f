"""Whether onnxruntime-web keeps the memory of a run for the next one.

What it is: WebAssembly memory is allocated in large regions, which are reused.
Why it costs: WebAssembly memory never shrinks, so the page keeps what the arena holds; without an arena, each run
    allocates again.
Evidence: latency; the size of WebAssembly memory (at most 4 GiB).
Fix and its safety: on if it measured faster; exact. ONNX Runtime outside the browser has it on by default.
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
