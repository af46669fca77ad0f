"""Whether onnxruntime-web runs in its own worker.

What it is: loading and running leave the page's main thread, which goes on drawing and answering clicks.
Why it costs: each input is handed over to the worker, each output back. A tensor's array is *moved*: whoever feeds
    the same one again gets "An ArrayBuffer is detached".
Evidence: the longest time for which the main thread is blocked; latency, which seldom gets better.
Fix and its safety: on for models whose runs are longer than a frame (16 ms), if the program has no worker; behaviour:
    create a new Tensor for each run.
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
