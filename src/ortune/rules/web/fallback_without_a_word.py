"""The GPU may be left out without the program's knowledge.

What it is: ``executionProviders: ['webgpu', 'wasm']``, or another provider before WebAssembly.
Why it costs: where the browser has no adapter, onnxruntime-web takes the first provider off the list and goes on with
    the CPU, ten times as slow perhaps. A warning on the console is all that says so.
Evidence: the providers of the plan.
Fix and its safety: advice: name one provider, so that making the session fails where it is missing, and fall back in
    the program, where users can be told; load.web.mjs of a bundle does.
Example: ``ortune tune model.onnx --target web-webgpu``
References: microsoft/onnxruntime#10831, #24070.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.providers.web_wasm import PROVIDER as WEB_WASM
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB012"


def find(facts: Facts) -> Iterator[Finding]:
    """In the plan's providers."""
    first, *others = facts.plan.provider_names
    if facts.plan.is_web and first != WEB_WASM.name and WEB_WASM.name in others:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"without {first} the CPU runs the model, and only the console is told",
            fix=f"name {first} alone, and fall back in the program",
        )
