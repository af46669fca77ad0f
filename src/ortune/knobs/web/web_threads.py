"""How many threads WebAssembly uses for a run.

What it is: workers that share the page's memory, including the calling thread. The default is half of the logical
    processors, at most four.
Why it costs: with too few threads, cores are idle; more threads than fast cores wait for each other. Without
    cross-origin isolation there is only one.
Evidence: latency by number of threads.
Fix and its safety: the number that measures fastest; exact.
Example: ``--target web-wasm --set web_threads=2``
References: onnxruntime-web, ``env.wasm.numThreads``; microsoft/onnxruntime#9681; huggingface/transformers.js#882.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="web_threads",
    channel="web_env",
    key="wasm.numThreads",
    kind="int",
    minimum=1,
    threads="intra",
    default="half of the logical processors, 4 at most",
    summary="threads of WebAssembly",
    under_load=True,
    tries=("{cpus}", "{cpus/2}", "1"),
    prior=0.5,
)
