"""An execution provider is in the build but cannot be used.

What it is: the build lists the provider, but a session that requests it runs without it. A vendor library is missing
    or has the wrong version, or there is no device.
Why it costs: ONNX Runtime falls back to the CPU, with only a line in the log.
Evidence: a test session with the provider, and the loader's error message.
Fix and its safety: advice: install what is missing, or use a build without the provider.
Example: ``ortune doctor`` with onnxruntime-gpu and without cuDNN
References: ONNX Runtime documentation, "CUDA Execution Provider", section on requirements.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV006"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each runtime with providers that cannot be used."""
    for report in facts.runtimes:
        unusable = [provider for provider in report.providers if provider.in_build and not provider.usable]
        if unusable:
            names = ", ".join(provider.name for provider in unusable)
            yield Finding(
                code=CODE,
                what=f"{names} cannot be used, so sessions fall back to the CPU",
                where=(report.runtime.python,),
                evidence="; ".join(f"{provider.name}: {provider.why}" for provider in unusable),
                fix="install the missing libraries, or use a build without the provider",
            )
