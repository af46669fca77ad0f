"""The build ignores the profiling option.

What it is: ``env.webgpu.profiling`` with a native build of onnxruntime-web (asyncify or jspi).
Why it costs: no kernel times are reported, and no error appears, because only JSEP reads the option.
Evidence: the two settings.
Fix and its safety: advice: profile the session instead (``enableProfiling: true``), which includes GPU kernels in
    these builds.
Example: ``ortune profile model.onnx --target web-webgpu``
References: onnxruntime-common, ``env.webgpu.profiling``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.catalogue.named import WEB_PROFILING as PROFILING
from ortune.records import Finding
from ortune.rules._browsers import NATIVE
from ortune.rules.facts import Facts

CODE = "WEB010"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the profiling mode of WebGPU is set for a build that ignores it."""
    build, mode = facts.plan.settings.get(BUILD.name), facts.plan.settings.get(PROFILING.name, "off")
    if build in NATIVE and mode != "off":
        yield Finding(
            code=CODE,
            what=f"env.webgpu.profiling has no effect in the {build} build",
            fix="profile the session instead (enableProfiling: true)",
        )
