"""Padding before a convolution becomes its own."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest
from structural_checks import apply, kinds, same

from onnx_text import model_of

PADDED = """g (float[1,2,5,6] x) => (float[a,b,c,d] y{more})
<int64[8] around = {{0, 0, 1, 2, 0, 0, 0, 3}}, int64[4] some = {{1, 2, 0, 3}}, int64[2] axes = {{2, -1}},
 float half = {{0.5}}, int64[8] channels = {{0, 1, 0, 0, 0, 0, 0, 0}}, float[2,2,2,3] w = {{{w}}},
 float[2,3,2,3] w3 = {{{w}, {half_w}}}>
{{ p = Pad {mode} ({pad}) y = Conv {attributes} (p, {weight}) {rest} }}"""


def padded(
    pad: str, mode: str = "", attributes: str = "", weight: str = "w", rest: str = ""
) -> onnx.ModelProto:
    numbers = [f"{k / 7:.3f}" for k in range(36)]
    return model_of(
        PADDED.format(
            pad=pad,
            mode=mode,
            attributes=attributes,
            weight=weight,
            rest=rest,
            more=", float[a,b,c,d] z" if rest else "",
            w=", ".join(numbers[:24]),
            half_w=", ".join(numbers[24:]),
        ),
        18,
    )


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"pad": "x, around"}, {"Conv": 1}),
        ({"pad": "x, some, , axes", "attributes": "<pads = [1, 1, 0, 0]>"}, {"Conv": 1}),
        ({"pad": "x, around", "attributes": '<auto_pad = "VALID">'}, {"Conv": 1}),
        ({"pad": "x, around", "rest": "z = Relu (p)"}, {"Pad": 1, "Conv": 1, "Relu": 1}),
    ],
)
def test_a_convolution_pads_itself(given: dict[str, str], left: dict[str, int]) -> None:
    proto = padded(**given)
    made, result = apply("pad-into-convolution", proto)
    assert result.modified
    assert kinds(made) == left
    same(proto, made, (1, 2, 5, 6), exact=False)


def test_a_convolution_pads_what_two_padded() -> None:
    proto = model_of(
        """g (float[1,2,5,6] x) => (float[a,b,c,d] y)
        <int64[8] once = {0, 0, 1, 2, 0, 0, 0, 3}, int64[8] more = {0, 0, 0, 1, 0, 0, 2, 0}, float[1,2,1,1] w = {2, 3}>
        { p = Pad (x, once) q = Pad (p, more) y = Conv <pads = [1, 0, 0, 0]> (q, w) }""",
        18,
    )
    made, _ = apply("pad-into-convolution", proto)
    assert kinds(made) == {"Conv": 1}
    assert not apply("pad-into-convolution", made)[1].modified
    same(proto, made, (1, 2, 5, 6), exact=False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"pad": "x, around, half"}, "might not pad with zeros"),
        ({"pad": "x, around", "mode": '<mode = "edge">'}, "might not pad with zeros"),
        ({"pad": "x, channels", "weight": "w3"}, "pads the batch or channel axis"),
        ({"pad": "x, around", "attributes": '<auto_pad = "SAME_UPPER">'}, "automatic padding"),
    ],
)
def test_padding_that_stays(given: dict[str, str], why: str) -> None:
    _, result = apply("pad-into-convolution", padded(**given))
    assert not result.modified
    assert why in result.reasons[0]
