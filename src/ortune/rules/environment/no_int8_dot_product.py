"""The processor has no 8-bit dot product.

What it is: without VNNI, AMX or the dot-product instructions of ARM, 8-bit integers are widened before they
    are multiplied.
Why it costs: an int8 model does more work than its float model here, and often takes longer.
Evidence: the instruction sets that the processor tells.
Fix and its safety: advice: measure before quantizing; 4-bit weights may pay all the same where memory is the limit.
Example: ``ortune compare model.onnx model-int8.onnx``
References: ONNX Runtime documentation, "Quantize ONNX models", section on performance.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, Host
from ortune.rules.facts import Facts

CODE = "ENV004"

DOT_PRODUCTS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"})


def lacks_it(host: Host | None) -> bool:
    """Whether that is known; where no feature was read, nothing is, which is not the same as having none."""
    return host is not None and bool(host.features) and not DOT_PRODUCTS & set(host.features)


def find(facts: Facts) -> Iterator[Finding]:
    """Where the processor's features are known."""
    if facts.host is not None and lacks_it(facts.host):
        yield Finding(
            code=CODE,
            what="this processor has no 8-bit dot product (VNNI, AMX, dotprod): int8 models seldom pay on its CPU",
            where=(facts.host.cpu,),
            evidence=f"it has {', '.join(facts.host.features)}",
            fix="measure before quantizing for this machine; 4-bit weights may still pay where memory is the limit",
        )
