"""Operators were fused for the CPU before the model was saved.

What it is: FusedConv, FusedGemm, FusedMatMul or the blocked layout (NCHWc) in a file for NNAPI, CoreML, QNN or XNNPACK.
    ONNX Runtime creates these operators when it saves a model at level extended or higher.
Why it costs: these providers support only standard ONNX operators. Fused nodes stay on the CPU, and split the graph
    into parts with copies between them.
Evidence: the operators.
Fix and its safety: advice: ship the .onnx that the file was converted from, or convert it again for its target:
    ``ortune convert --to ort --for nnapi`` uses level basic. With ``--style runtime``, ONNX Runtime fuses the
    remaining CPU nodes at load time, if ``session.enable_saved_runtime_optimizations`` is 1. With ``--aware``, they are
    already fused in the file.
Example: ``ortune convert model.onnx --to ort --for nnapi``
References: microsoft/onnxruntime#9054, #13709; ONNX Runtime documentation, "ORT model format" (runtime optimizations).
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import NNAPI
from ortune.graph.model.graphs import nodes
from ortune.graph.ort_files import FUSED_PRODUCTS, is_blocked, is_fused
from ortune.records import Finding
from ortune.rules._browsers import supported_file_fix
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "MOB002"
TIER = "preview"
TARGET = NNAPI.target

_HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
_SIDES = "(float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] y)"

BAD = f"""
{_HEAD}
fused {_SIDES}
{{
    [bad_conv] y = com.microsoft.FusedConv <activation = "Relu"> (x, w)
}}
"""
GOOD = f"""
{_HEAD}
plain {_SIDES}
{{
    c = Conv (x, w)
    y = Relu (c)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes fused for the CPU, if the target's provider supports only standard operators."""
    if facts.model is None or not facts.provider.standard_operators:
        return
    walked = nodes(facts.model.ir)
    fused = [node for node in walked if is_blocked(node) or is_fused(node, "FusedConv", *FUSED_PRODUCTS)]
    if fused:
        yield Finding(
            code=CODE,
            what=f"operators fused for the CPU before saving stay on the CPU: {counted(fused)}",
            where=tuple(map(name_of, fused)),
            fix=supported_file_fix(facts),
        )
