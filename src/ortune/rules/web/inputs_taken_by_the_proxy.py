"""Input tensors are moved into a worker and cannot be fed again.

What it is: ``env.wasm.proxy``, which makes each run hand the arrays of its inputs over to the worker.
Why it costs: a program that feeds the same tensor twice ends with "An ArrayBuffer is detached".
Evidence: the setting.
Fix and its safety: advice: make a new Tensor for each run, of a copy where the array is used further.
Example: ``session.run({ x: new ort.Tensor('float32', data.slice(), dims) })``
References: onnxruntime-web, ``env.wasm.proxy``; microsoft/onnxruntime#15735.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.web.web_proxy import KNOB as PROXY
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB013"


def find(facts: Facts) -> Iterator[Finding]:
    """In the settings."""
    if facts.plan.settings.get(PROXY.name):
        yield Finding(
            code=CODE,
            severity="note",
            what="the proxy takes the arrays of the inputs away: a tensor can be fed once",
            fix="make a new Tensor for each run",
        )
