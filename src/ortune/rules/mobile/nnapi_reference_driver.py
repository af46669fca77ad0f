"""NNAPI may run the model on its slow reference driver for the CPU.

What it is: NNAPI runs nodes of the model, and its driver for the CPU (``nnapi-reference``) is not disabled.
Why it costs: if no accelerator of the phone supports an operation, NNAPI runs it on that driver. The driver is built
    for correctness, not speed, and is many times slower than ONNX Runtime's own kernels.
Evidence: the target, and the nodes of the model that NNAPI runs.
Fix and its safety: advice: create the session with the flag ``NNAPI_FLAG_CPU_DISABLED`` (Java:
    ``CPU_DISABLED``). Operations that no accelerator supports then stay with ONNX Runtime.
Example: ``options.addNnapi(EnumSet.of(NNAPIFlags.CPU_DISABLED))``
References: ONNX Runtime documentation, "NNAPI Execution Provider", flags.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import NNAPI
from ortune.records import Finding
from ortune.rules._mobile import partition_of
from ortune.rules.facts import Facts

CODE = "MOB007"
TIER = "preview"
TARGET = NNAPI.target

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
taken (float[1,8] x) => (float[1,8] y)
{
    y = Relu (x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
left (int64[1,8] x) => (int64[1,8] y)
{
    y = Abs (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if NNAPI runs at least one node."""
    if facts.target != NNAPI.target:
        return
    partition = partition_of(facts)
    if partition is not None and partition.regions:
        yield Finding(
            code=CODE,
            severity="note",
            what="NNAPI may run nodes on its reference driver for the CPU, which is slow",
            fix="set NNAPI_FLAG_CPU_DISABLED (Java: NNAPIFlags.CPU_DISABLED) where the session is created",
        )
