"""The length of a Fourier transform is not a power of two.

What it is: STFT or DFT with a constant frame length that is not a power of two.
Why it costs: ONNX Runtime has a fast transform only for powers of two. Other lengths use a much slower algorithm for
    every frame.
Evidence: the frame length.
Fix and its safety: advice: use a Conv with the Fourier basis as weights (equal to 1e-5), or pad frames to a power of
    two where the frequencies may change.
Example: STFT with a frame of 400 samples (25 ms at 16 kHz)
References: ONNX operator documentation, "STFT" and "DFT".
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.constants import constant_tensor, scalar
from ortune.graph.nodes import input_of, is_op, source_of
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA025"

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
frames (float[1,64,1] x) => (float[1,f,b,2] y)
<int64 step = {4}, int64 length = {LENGTH}>
{
    [bad_spectrum] y = STFT (x, step, , length)
}
"""
BAD = _TEXT.replace("LENGTH", "12")
GOOD = _TEXT.replace("LENGTH", "16")


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model."""
    walked = nodes(facts.model.ir) if facts.model else ()
    lengths = {node: length for node in walked if is_op(node, "STFT", "DFT") and (length := _length(node))}
    odd = {node: length for node, length in lengths.items() if length & (length - 1)}
    if odd:
        yield Finding(
            code=CODE,
            what=f"the length of a Fourier transform is not a power of two: {counted([*odd])}",
            where=tuple(map(name_of, odd)),
            evidence=f"length {', '.join(map(str, sorted(set(odd.values()))))} samples",
            fix="use a Conv with the Fourier basis as weights, or pad frames to a power of two",
        )


def _length(node: ir.Node) -> int:
    """The length of a transform; 0 where it is not a constant."""
    places = (3, 2) if is_op(node, "STFT") else (1,)
    for place in places:
        given = input_of(node, place)
        value = None if given is None else source_of(given)
        if place == 2 and (window := constant_tensor(value)) is not None:
            return int(window.size)
        number = scalar(value)
        if number is not None:
            return int(number)
    return 0
