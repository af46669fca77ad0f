"""An execution provider is in the build and cannot be used.

What it is: the build lists the provider, and a session that asks for it alone does not get it: a library of the
    vendor's is missing or of another version, or there is no device.
Why it costs: ONNX Runtime falls back to the CPU with no more than a line in the log, and is as slow as
    there.
Evidence: a session was made with the provider, and does not have it; the loader's own words.
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
    """For each runtime with such providers."""
    for report in facts.runtimes:
        unusable = [provider for provider in report.providers if provider.in_build and not provider.usable]
        if unusable:
            names = ", ".join(provider.name for provider in unusable)
            yield Finding(
                code=CODE,
                what=f"{names} is in the build and cannot be used: sessions that ask for it fall back to the CPU",
                where=(report.runtime.python,),
                evidence="; ".join(f"{provider.name}: {provider.why}" for provider in unusable),
                fix="install what is missing, or use a build without it",
            )
