"""Whether onnxruntime-web runs in its own worker.

What it is: models are loaded and run in a worker, so the page's main thread can still draw and respond to clicks.
Why it costs: inputs and outputs are transferred to and from the worker. A tensor's array is *moved*: feeding it again
    fails with "An ArrayBuffer is detached".
Evidence: the longest time for which the main thread is blocked; latency, which rarely improves.
Fix and its safety: on for models whose runs take longer than a frame (16 ms), if the program has no worker of its
    own; behaviour: create a new Tensor for each run.
Example: ``--target web-wasm --objective main-thread --set web_proxy=1``
References: onnxruntime-web, ``env.wasm.proxy``; microsoft/onnxruntime#15735.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="web_proxy",
    channel="web_env",
    key="wasm.proxy",
    kind="bool",
    default="off",
    safety="behaviour",
    summary="loading and running in a worker",
    tries=("1",),
    priors={"main-thread": 0.9},
)
