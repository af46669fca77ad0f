"""A page runs WebAssembly with one thread, since it is not cross-origin isolated.

What it is: a page without the headers that threads need, on a machine with several processors, that runs a model with
    WebAssembly and leaves the number of threads open.
Why it costs: onnxruntime-web takes half of the processors, 4 at most, where it may; without shared memory, which
    browsers give to isolated pages alone, it takes one, and says nothing.
Evidence: ``crossOriginIsolated`` and the session's providers, of a page that was watched.
Fix and its safety: behaviour: serve the page with Cross-Origin-Opener-Policy: same-origin and
    Cross-Origin-Embedder-Policy: require-corp; what it embeds from elsewhere must allow that.
Example: ``ortune diagnose --page http://localhost:5173``
References: onnxruntime-web, ``env.wasm.numThreads``; microsoft/onnxruntime#19148; huggingface/transformers.js#161.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.web.web_isolation import KNOB as ISOLATION
from ortune.knobs.web.web_threads import KNOB as THREADS
from ortune.providers.web_wasm import PROVIDER as WEB_WASM
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB019"

_FEW = 2  # processors of which onnxruntime-web would take one in any case


def find(facts: Facts) -> Iterator[Finding]:
    """In what the page is, where its program was watched."""
    settings = facts.plan.settings
    cpus = facts.page.cpus if facts.page else 0
    left_open = THREADS.name not in settings and settings.get(ISOLATION.name) is False
    if cpus > _FEW and left_open and facts.plan.provider_names[0] == WEB_WASM.name:
        yield Finding(
            code=CODE,
            what=f"one thread of {cpus} processors: the page is not cross-origin isolated",
            fix="send Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp",
        )
