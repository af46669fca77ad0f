"""Several builds of ONNX Runtime are installed over each other in one environment.

What it is: packages such as onnxruntime and onnxruntime-gpu install into the same folder. The later one overwrites
    files of the earlier, and the version that is reported need not be the one that runs.
Why it costs: the order of installation decides which kernels and providers a session gets.
Evidence: the environment lists more than one of these packages.
Fix and its safety: advice: uninstall all of them, then install the one you need.
Example: ``ortune doctor`` in an environment with onnxruntime 1.31.1 and onnxruntime-gpu 1.30.0
References: ONNX Runtime documentation, "Install ONNX Runtime", which names one package for each build.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV001"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each runtime with packages that overwrite each other's files."""
    for report in facts.runtimes:
        if len(report.overlapping) < 2:
            continue
        listed = " and ".join(f"{name} {version}" for name, version in report.overlapping.items())
        yield Finding(
            code=CODE,
            severity="error",
            what=f"{len(report.overlapping)} builds of ONNX Runtime overwrite each other's files in one environment",
            where=(report.runtime.python,),
            evidence=f"{listed} share one folder",
            fix=f"run pip uninstall -y {' '.join(sorted(report.overlapping))}, then install the one you need",
        )
