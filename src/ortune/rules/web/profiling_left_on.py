"""A page profiles or logs every run.

What it is: ``enableProfiling``, a ``logSeverityLevel`` below warnings, ``env.webgpu.profiling`` or ``env.wasm.trace``
    in a production page.
Why it costs: each node of each run is recorded or printed, and memory grows until the session ends. WebGPU timestamps
    wait for each kernel.
Evidence: the options that the observed page passed.
Fix and its safety: advice: remove them from production code.
Example: ``ortune diagnose --page http://localhost:5173``
References: onnxruntime-common, ``InferenceSession.SessionOptions.enableProfiling``, ``env.webgpu.profiling``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.catalogue.named import WEB_PROFILING as PROFILING
from ortune.records import Finding
from ortune.rules._browsers import NATIVE
from ortune.rules.facts import Facts

CODE = "WEB020"

_ON = {
    "enableProfiling": ("true",),
    "logSeverityLevel": ("0", "1"),
    "wasm.trace": ("true",),
}


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on profiling and logging options that a watched page set."""
    switches = [name for name, values in _ON.items() if facts.asked.get(name) in values]
    ignored = facts.plan.settings.get(BUILD.name) in NATIVE
    if facts.asked and not ignored and facts.plan.settings.get(PROFILING.name, "off") != "off":
        switches.append("env.webgpu.profiling")
    if switches:
        yield Finding(
            code=CODE,
            what=f"profiling or logging slows every run: {', '.join(switches)}",
            fix="remove these options from production code",
        )
