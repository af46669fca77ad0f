"""The CPU may silently replace the GPU.

What it is: ``executionProviders: ['webgpu', 'wasm']``, or another provider before WebAssembly.
Why it costs: where the browser has no adapter, onnxruntime-web drops the first provider and continues on the CPU,
    possibly ten times slower. Only a console warning shows it.
Evidence: the providers of the configuration.
Fix and its safety: advice: list a single provider, which makes session creation fail where it is missing, and fall
    back in the program, where users can be informed. load.web.mjs of a bundle does this.
Example: ``ortune tune model.onnx --target web-webgpu``
References: microsoft/onnxruntime#10831, #24070.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import WEB_WASM
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB012"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a page falls back to the CPU provider after another one."""
    first, *others = facts.plan.provider_names
    if facts.plan.is_web and first != WEB_WASM.name and WEB_WASM.name in others:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"if {first} is missing, the CPU runs the model with only a console warning",
            fix=f"list only {first}, and fall back in the program",
        )
