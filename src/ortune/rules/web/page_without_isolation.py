"""A page runs WebAssembly with one thread because it is not cross-origin isolated.

What it is: a page without the headers that threads require runs a model with WebAssembly, on a machine with several
    CPUs, and does not set the number of threads.
Why it costs: onnxruntime-web uses half of the CPUs, at most 4, where threads are allowed. Browsers allow shared memory
    only to isolated pages; elsewhere it silently uses one thread.
Evidence: ``crossOriginIsolated`` and the session's providers in the observed page.
Fix and its safety: behaviour: serve the page with Cross-Origin-Opener-Policy: same-origin and
    Cross-Origin-Embedder-Policy: require-corp. Content embedded from other origins must then opt in
    (Cross-Origin-Resource-Policy or CORS).
Example: ``ortune diagnose --page http://localhost:5173``
References: onnxruntime-web, ``env.wasm.numThreads``; microsoft/onnxruntime#19148; huggingface/transformers.js#161.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import WEB_ISOLATION as ISOLATION
from ortune.catalogue.named import WEB_THREADS as THREADS
from ortune.catalogue.providers import WEB_WASM
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB019"

_FEW = 2  # with this many CPUs, onnxruntime-web uses one in any case


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a page without cross-origin isolation runs on one of several CPUs."""
    settings = facts.plan.settings
    cpus = facts.page.cpus if facts.page else 0
    left_open = THREADS.name not in settings and settings.get(ISOLATION.name) is False
    if cpus > _FEW and left_open and facts.plan.provider_names[0] == WEB_WASM.name:
        yield Finding(
            code=CODE,
            what=f"1 of {cpus} CPUs is used because the page is not cross-origin isolated",
            fix="send Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp",
        )
