"""The file is optimised for x86 CPUs and cannot run in a browser.

What it is: operators of a blocked layout (com.microsoft.nchwc) in a model for a browser. ONNX Runtime inserts them when
    it saves a model at level all on x86, as does the converter to ORT format with ``--target_platform amd64``.
Why it costs: no build of onnxruntime-web has these operators, so session creation fails on WebGPU and on the CPU.
Evidence: operators of that domain.
Fix and its safety: advice: start from the exported model.
Example: a model saved with ``optimized_model_filepath`` at level all
References: ONNX Runtime documentation, "Graph optimizations", section on offline mode; microsoft/onnxruntime#24475.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import WEB_WASM
from ortune.graph.model.graphs import nodes
from ortune.graph.ort_files import is_blocked
from ortune.records import Finding
from ortune.rules._browsers import supported_file_fix
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "WEB005"
TARGET = WEB_WASM.target

BAD = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft.nchwc" : 1]>
blocked (float[1,16,8,8] x, float[16,16,1,1] w) => (float[1,16,8,8] y)
{
    [bad_in] a = com.microsoft.nchwc.ReorderInput (x)
    [bad_convolution] b = com.microsoft.nchwc.Conv <kernel_shape = [1, 1]> (a, w)
    [bad_out] y = com.microsoft.nchwc.ReorderOutput <channels = 16> (b)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
plain (float[1,16,8,8] x, float[16,16,1,1] w) => (float[1,16,8,8] y)
{
    y = Conv <kernel_shape = [1, 1]> (x, w)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes in the blocked layout, if a browser runs the model."""
    if facts.model is None or not facts.provider.in_page:
        return
    blocked = [node for node in nodes(facts.model.ir) if is_blocked(node)]
    if blocked:
        yield Finding(
            code=CODE,
            severity="error",
            what=f"session creation fails in a browser because the file is optimised for x86 CPUs: {counted(blocked)}",
            where=tuple(map(name_of, blocked)),
            fix=supported_file_fix(facts),
        )
