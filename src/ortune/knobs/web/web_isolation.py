"""Whether the page is cross-origin isolated.

What it is: a page that is served with the headers Cross-Origin-Opener-Policy: same-origin and
    Cross-Origin-Embedder-Policy: require-corp may share memory with its workers.
Why it costs: without shared memory, WebAssembly has one thread, regardless of ``web_threads``. onnxruntime-web only
    prints a console warning.
Evidence: ``crossOriginIsolated`` in the page; the number of workers.
Fix and its safety: serve both headers, from the server or by a service worker; behaviour: content that the page
    embeds from other origins must then opt in (Cross-Origin-Resource-Policy or CORS). Off measures the cost of a page
    without the headers.
Example: ``--target web-wasm --set web_isolation=0``
References: microsoft/onnxruntime#19148, #9681; huggingface/transformers.js#161.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="web_isolation",
    channel="web_page",
    key="isolation",
    kind="bool",
    default="on: ortune serves its page with the headers",
    safety="behaviour",
    summary="page served with the headers that threads require",
)
