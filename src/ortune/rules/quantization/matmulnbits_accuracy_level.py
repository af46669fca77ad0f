"""MatMulNBits with 4-bit weights computes in float32.

What it is: MatMulNBits without accuracy_level 4.
Why it costs: at level 4 the CPU quantizes the input to 8 bits and multiplies integers. At lower levels the CPU first
    dequantizes the weights to float32, which is several times slower for a single row.
Evidence: the attribute, where the target is the CPU.
Fix and its safety: numerics: the rewrite ``accuracy-level``, which sets accuracy_level to 4; the outputs change.
Example: ``--rewrite accuracy-level``
References: onnxruntime/mobius#402; microsoft/onnxruntime#23004, #29849.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import CPU
from ortune.records import Finding
from ortune.rewrites import accuracy_level
from ortune.rules._fixes import with_fix
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "QNT005"

BAD, GOOD = accuracy_level.BAD, accuracy_level.GOOD


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on 4-bit MatMulNBits nodes that compute in float32, if the target is the CPU."""
    if facts.model is None or facts.target != CPU.target:
        return
    products = accuracy_level.slow_in_float(facts.model.ir)
    if products:
        finding = Finding(
            code=CODE,
            what=f"{subject(products, 'computes', 'compute')} in float32 with 4-bit weights",
            where=tuple(map(name_of, products)),
        )
        yield with_fix(accuracy_level.REWRITE, finding, facts)
