"""Inputs have dynamic dimensions, but the accelerator needs fixed sizes.

What it is: inputs with dynamic dimensions on NNAPI, CoreML, QNN or WebNN. On XNNPACK, a dynamic batch is supported.
Why it costs: with these providers, nodes with unknown shapes run on the CPU, and the graph splits into many parts with
    copies between them. On XNNPACK, such nodes run on ONNX Runtime's own CPU kernels.
Evidence: the declared shapes of inputs.
Fix and its safety: advice: apply the rewrite fixed-dimensions with the sizes you use; the model then rejects all other
    sizes. In a browser, freeDimensionOverrides does the same.
Example: ``--rewrite fixed-dimensions:batch=1``
References: microsoft/onnxruntime#7859, #14212, #19887, #16707; webmachinelearning/webnn#885.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import NNAPI, XNNPACK
from ortune.printable import amount
from ortune.records import Finding
from ortune.rules._fixes import fixable
from ortune.rules._mobile import partition_of
from ortune.rules._providers import open_inputs
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "MOB001"
TIER = "preview"
TARGET = NNAPI.target

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
open (float[batch,8] bad_x) => (float[batch,8] y)
{
    y = Relu (bad_x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
fixed (float[1,8] x) => (float[1,8] y)
{
    y = Relu (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on inputs with dynamic dimensions, if the target's provider needs fixed sizes."""
    if facts.model is None or not (facts.provider.fixed_sizes or facts.target == XNNPACK.target):
        return
    names = open_inputs(facts)
    if names and (facts.provider.fixed_sizes or _leaves_open(facts)):
        so = (
            "some nodes stay on the CPU"
            if facts.provider.fixed_sizes
            else "some nodes stay on ONNX Runtime's kernels"
        )
        finding = Finding(
            code=CODE,
            what=f"{amount(len(names), 'input')} {'has' if len(names) == 1 else 'have'} dynamic "
            f"dimensions, so {so}: {listed(names)}",
            where=names,
            fix="fix the dimensions with the rewrite fixed-dimensions",
        )
        yield fixable(finding, facts)


def _leaves_open(facts: Facts) -> bool:
    """Return whether the provider rejects a node because of a dynamic size; XNNPACK accepts a dynamic batch."""
    partition = partition_of(facts)
    return partition is not None and any(why.code == "dynamic-shape" for why in partition.left.values())
