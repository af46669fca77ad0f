"""Threads are requested on a page that does not allow them.

What it is: ``env.wasm.numThreads`` above 1 on a page that is not cross-origin isolated.
Why it costs: WebAssembly then runs with one thread, with only a console warning.
Evidence: the two settings.
Fix and its safety: behaviour: serve the page with Cross-Origin-Opener-Policy: same-origin and
    Cross-Origin-Embedder-Policy: require-corp, or add these headers in a service worker. Content embedded from
    other origins must then opt in (Cross-Origin-Resource-Policy or CORS).
Example: ``--set web_isolation=1``
References: microsoft/onnxruntime#19148, #9681; huggingface/transformers.js#161.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import WEB_ISOLATION as ISOLATION
from ortune.catalogue.named import WEB_THREADS as THREADS
from ortune.records import Finding, Plan
from ortune.rules.facts import Facts

CODE = "WEB011"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if threads are set for a page without cross-origin isolation."""
    threads = facts.plan.settings.get(THREADS.name, 1)
    if isinstance(threads, int) and threads > 1 and facts.plan.settings.get(ISOLATION.name) is False:
        yield Finding(
            code=CODE,
            what=f"{threads} threads are requested, but a page without cross-origin isolation runs only one",
            fix="send Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp",
            plan=Plan(settings={ISOLATION.name: True}),
            safety="behaviour",
        )
