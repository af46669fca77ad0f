"""The proxy transfers input tensors to a worker, so they cannot be fed again.

What it is: ``env.wasm.proxy``, with which each run transfers its input arrays to the worker.
Why it costs: a program that feeds the same tensor twice fails with "An ArrayBuffer is detached".
Evidence: the setting.
Fix and its safety: advice: create a new Tensor for each run, from a copy if the array is needed later.
Example: ``session.run({ x: new ort.Tensor('float32', data.slice(), dims) })``
References: onnxruntime-web, ``env.wasm.proxy``; microsoft/onnxruntime#15735.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import WEB_PROXY as PROXY
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB013"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the proxy is set."""
    if facts.plan.settings.get(PROXY.name):
        yield Finding(
            code=CODE,
            severity="note",
            what="the proxy transfers input arrays to its worker, so each tensor can be fed only once",
            fix="create a new Tensor for each run",
        )
