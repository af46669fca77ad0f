"""A page profiles or logs every run.

What it is: ``enableProfiling``, a ``logSeverityLevel`` below warnings, ``env.webgpu.profiling`` or ``env.wasm.trace``
    in a page as it is used.
Why it costs: each node of each run is recorded or printed, in memory that grows until the session ends; timestamps of
    WebGPU wait for each kernel.
Evidence: the options that the page was seen to ask for.
Fix and its safety: advice: leave them out of what is shipped.
Example: ``ortune diagnose --page http://localhost:5173``
References: onnxruntime-common, ``InferenceSession.SessionOptions.enableProfiling``, ``env.webgpu.profiling``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.web.web_build import KNOB as BUILD
from ortune.knobs.web.web_profiling import KNOB as PROFILING
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
    """In what a watched page asked for."""
    found = [name for name, values in _ON.items() if facts.asked.get(name) in values]
    ignored = facts.plan.settings.get(BUILD.name) in NATIVE
    if facts.asked and not ignored and facts.plan.settings.get(PROFILING.name, "off") != "off":
        found.append("env.webgpu.profiling")
    if found:
        yield Finding(
            code=CODE,
            what=f"left on, and it costs every run: {', '.join(found)}",
            fix="leave it out of what is shipped",
        )
