"""Two builds of ONNX Runtime lie over each other in one environment.

What it is: packages such as onnxruntime and onnxruntime-gpu install the same folder; the later one overwrites files of
    the earlier, and the version that is shown need not be the one that runs.
Why it costs: which kernels and providers a session gets is an accident of the order of installation.
Evidence: the environment's list of packages names more than one build.
Fix and its safety: advice: uninstall all of them, then install the one that is wanted.
Example: ``ortune doctor`` in an environment with onnxruntime 1.31.1 and onnxruntime-gpu 1.30.0
References: ONNX Runtime documentation, "Install ONNX Runtime", which names one package for each build.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "ENV001"


def find(facts: Facts) -> Iterator[Finding]:
    """For each runtime whose packages overlap."""
    for report in facts.runtimes:
        if len(report.overlapping) < 2:
            continue
        listed = " and ".join(f"{name} {version}" for name, version in report.overlapping.items())
        yield Finding(
            code=CODE,
            severity="error",
            what="two builds of ONNX Runtime are installed over each other: which one runs is an accident",
            where=(report.runtime.python,),
            evidence=f"{listed} are installed into one folder, so its files are a mix of them",
            fix=f"pip uninstall -y {' '.join(sorted(report.overlapping))}, then install the one you want",
        )
