"""Convolutions cannot use the blocked layout because their number of input channels is not a multiple of 4.

What it is: a two-dimensional float32 Conv on an x86-64 CPU, with 16 or more input channels whose number is not a
    multiple of 4.
Why it costs: kernels in the blocked layout (NCHWc) need input channels in multiples of four. Such a convolution runs
    in the plain layout, and its neighbours' tensors are converted before and after it. Output channels are padded.
Evidence: the shapes of the weights. ONNX Runtime 1.31 keeps a Conv with 17, 18 or 33 input channels in the plain
    layout. With 16, 20, 24, 32, 36 or 48 channels it uses the blocked layout.
Fix and its safety: advice: use multiples of 8 or 16 channels when a model is designed or pruned.
Example: 17 channels, which are common in pruned models
References: ONNX Runtime source, the NCHWc transformer; microsoft/onnxruntime#20218.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.graph.attributes import int_of
from ortune.graph.constants import stored
from ortune.graph.nodes import input_of, with_operator
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "LAY005"
TIER = "if-measured"

_FEW = 16
_IN_ONE_STEP = 4
_PLANAR = 4  # rank of the weights of a two-dimensional convolution


def _text(channels: int, name: str) -> str:
    return f"""
<ir_version: 8, opset_import: ["" : 17]>
taken (float[1,{channels},8,8] x) => (float[1,16,8,8] y)
<float[16,{channels},1,1] w = {{{",".join(["0.5"] * 16 * channels)}}}>
{{
    [{name}] y = Conv (x, w)
}}
"""


BAD = _text(17, "bad_conv")
GOOD = _text(20, "conv")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on convolutions with unaligned input channels, on x86 CPUs."""
    if (
        facts.model is None
        or facts.target != CPU.target
        or facts.host is None
        or facts.host.machine != "x86_64"
    ):
        return
    convolutions = [node for node in with_operator(facts.model.ir, "Conv") if _plain(node)]
    if convolutions:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"the number of input channels is not a multiple of 4: {counted(convolutions)}",
            where=tuple(map(name_of, convolutions)),
            fix="use a multiple of 8 or 16 channels",
        )


def _plain(node: ir.Node) -> bool:
    weight = stored(input_of(node, 1))
    # The blocked layout is for float32 only.
    if weight is None or weight.dtype != ir.DataType.FLOAT or len(weight.shape) != _PLANAR:
        return False
    if int_of(node, "group", 1) != 1:
        return False
    taken = int(weight.shape.numpy()[1])
    return taken >= _FEW and taken % _IN_ONE_STEP != 0
