"""The length of a Fourier transform is not a power of two.

What it is: STFT or DFT with a constant length that is not a power of two. If no length is
    given, the length of the window or axis is used.
Why it costs: ONNX Runtime has a fast transform only for powers of two. Other lengths use a much slower algorithm for
    every frame.
Evidence: the frame length.
Fix and its safety: advice: use a Conv with the Fourier basis as weights (outputs agree to about 1e-5, and those of the
    Conv are more accurate), or pad frames to a power of two if different frequency bins are acceptable.
Example: STFT with a frame of 400 samples (25 ms at 16 kHz)
References: ONNX operator documentation, "STFT" and "DFT".
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import scalar
from ortune.graph.nodes import input_of, is_op, source_of, with_operator
from ortune.graph.shapes.known import Values, known_values
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
    """Yield a finding on STFT and DFT nodes with a length that is not a power of two."""
    transforms = with_operator(facts.model.ir, "STFT", "DFT") if facts.model else []
    if facts.model is None or not transforms:
        return
    values = known_values(facts.model.ir)
    lengths = {node: length for node in transforms if (length := _length(node, values))}
    # A power of two has no bit in common with its predecessor: 400 & 399 is 384, 512 & 511 is 0.
    odd = {node: length for node, length in lengths.items() if length & (length - 1)}
    if odd:
        yield Finding(
            code=CODE,
            what=f"the length of a Fourier transform is not a power of two: {counted([*odd])}",
            where=tuple(map(name_of, odd)),
            evidence=f"length {', '.join(map(str, sorted(set(odd.values()))))} samples",
            fix="use a Conv with the Fourier basis as weights, or pad frames to a power of two",
        )


def _length(node: ir.Node, values: Values) -> int:
    """Return the length of a transform; 0 if it is unknown."""
    is_framed = is_op(node, "STFT")
    length = source_of(input_of(node, 3 if is_framed else 1))
    if length is not None:
        return int(scalar(length) or 0)
    axis: float | None = 0
    if not is_framed:
        # From opset 20 on, the axis is an input.
        axis = scalar(source_of(axis_value)) if (axis_value := input_of(node, 2)) else int_of(node, "axis", 1)
    sizes = values.sizes(input_of(node, 2 if is_framed else 0)) or ()
    return (sizes[int(axis)] or 0) if axis is not None and -len(sizes) <= axis < len(sizes) else 0
