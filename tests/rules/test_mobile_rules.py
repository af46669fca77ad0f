"""Rules on phones, for each provider that they cover: what fires there, and what is no matter there."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from ortune import rules
from ortune.graph.model.open import open_model
from ortune.records import Plan, ProviderSpec, RewriteSpec
from ortune.rules import Facts

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
CONV = "<float[2,4,1,1] w = {1,2,3,4,5,6,7,8}> { y = Conv (x, w) }"
BATCH = f"g (float[n,4,8,8] x) => (float[n,2,8,8] y) {CONV}"
HEIGHT = f"g (float[1,4,h,8] x) => (float[1,2,h,8] y) {CONV}"
FUSED = (
    "g (float[1,4,8,8] x) => (float[1,2,8,8] y) <float[2,4,1,1] w = {1,2,3,4,5,6,7,8}> "
    '{ y = com.microsoft.FusedConv <activation = "Relu"> (x, w) }'
)
SPLIT = (
    "g (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}> "
    "{ a = Conv (x, w) b = Erf (a) c = Conv (b, w) d = Erf (c) y = Conv (d, w) }"
)
INTEGERS = "g (int32[1,2,4] x) => (int32[1,2,4] y) { y = Relu (x) }"
WHOLE = "g (float[1,4,8,8] x) => (float[1,4,8,8] y) { a = Relu (x) y = Sigmoid (a) }"
LARGE = "g (float[1,16,4096,4096] x) => (float[1,16,4096,4096] y) { y = Relu (x) }"
_QDQ = """
g (float[1,2,4,4] x) => (float[1,3,4,4] y)
<float s = {{0.1}}, {kind} z = {{{zero}}}, {stored}[3,2,1,1] w = {{1,2,3,4,5,6}}, float[{n}] ws = {{{scales}}},
 {stored}[{n}] wz = {{{zeros}}}>
{{
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    dw = DequantizeLinear <axis = 0> (w, ws, wz)
    c = Conv (d, dw)
    qc = QuantizeLinear (c, s, z)
    y = DequantizeLinear (qc, s, z)
}}
"""


def quantized(activations: str, weights: str, *, channels: bool = False, zero: int = 0) -> str:
    """A convolution with its QDQ nodes: types, one scale a channel, and the zero point of the weights."""
    n = 3 if channels else 1
    return _QDQ.format(
        kind=activations,
        zero=0 if activations.startswith("int") else 128,
        stored=weights,
        n=n,
        scales=",".join(["0.1", "0.2", "0.3"][:n]),
        zeros=",".join([str(zero)] * n),
    )


NETWORK, PROGRAM = Plan(), Plan(settings={"coreml_format": "mlprogram"})


def fired(code: str, text: str, target: str, folder: Path, plan: Plan = NETWORK) -> list[str]:
    onnx.save(onnx.parser.parse_model(f"{HEAD} {text}"), folder / "m.onnx")
    facts = Facts(model=open_model(folder / "m.onnx"), target=target, plan=plan)
    return [each.what for each in rules.find_rule(code).findings(facts)]


ACCELERATORS = ("nnapi", "coreml", "qnn")
PHONES = (*ACCELERATORS, "xnnpack")


@pytest.mark.parametrize(
    ("code", "text", "targets"),
    [
        ("MOB001", HEIGHT, PHONES),
        ("MOB001", BATCH, ACCELERATORS),  # XNNPACK makes its kernels without the batch
        ("MOB002", FUSED, PHONES),
        ("MOB003", SPLIT, ACCELERATORS),  # XNNPACK's regions need no copies
        ("MOB003", WHOLE, ()),
        ("MOB004", INTEGERS, ACCELERATORS),  # XNNPACK leaves them to where they would run anyway
        ("MOB004", WHOLE, ()),
        ("MOB007", WHOLE, ("nnapi",)),
        ("MOB008", LARGE, PHONES),
        ("MOB008", WHOLE, ()),
    ],
)
def test_where_it_fires(code: str, text: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    seen = {target: fired(code, text, target, tmp_path) for target in (*PHONES, "cpu", "webgpu")}
    assert tuple(target for target, found in seen.items() if found) == targets


def test_xnnpack_leaves_open_sizes_to_other_kernels_of_the_cpu(tmp_path: Path) -> None:
    (what,) = fired("MOB001", HEIGHT, "xnnpack", tmp_path)
    assert what.startswith("1 input has dynamic dimensions") and "kernels" in what and what.endswith(": x")
    fixed = Plan(rewrites=(RewriteSpec(name="fixed-dimensions", params={"h": "8"}),))
    assert not fired("MOB001", HEIGHT, "xnnpack", tmp_path, fixed)


HALF = "g (float16[1,8] x) => (float16[1,8] y) { y = Relu (x) }"
SINGLE = "g (float[1,8] x) => (float[1,8] y) { y = Relu (x) }"


@pytest.mark.parametrize(
    ("code", "text", "plan", "fires"),
    [
        ("MOB005", HALF, NETWORK, True),
        ("MOB005", HALF, PROGRAM, False),
        ("MOB005", SINGLE, NETWORK, False),
        ("MOB009", SINGLE, PROGRAM, True),
        ("MOB009", SINGLE, NETWORK, False),
        ("MOB009", HALF, PROGRAM, False),
        ("MOB009", SINGLE, Plan(settings=PROGRAM.settings, rewrites=(RewriteSpec(name="float32-to-float16"),)), False),
        (
            "MOB009",
            SINGLE,
            Plan(providers=(ProviderSpec(name="CoreMLExecutionProvider", options={"ModelFormat": "MLProgram"}),)),
            True,
        ),
    ],
)  # fmt: skip
def test_which_format_of_coreml_has_float16(
    code: str, text: str, plan: Plan, fires: bool, tmp_path: Path
) -> None:
    assert bool(fired(code, text, "coreml", tmp_path, plan)) is fires
    assert not fired(code, text, "nnapi", tmp_path, plan)


@pytest.mark.parametrize(
    ("target", "text", "fires"),
    [
        ("nnapi", quantized("uint8", "uint8"), False),
        ("nnapi", quantized("uint8", "int8", channels=True), False),
        ("nnapi", quantized("uint8", "int8", channels=True, zero=1), True),
        ("nnapi", quantized("int8", "int8"), True),
        ("nnapi", quantized("uint8", "uint8").replace("float[1,2,4,4]", "float[n,2,4,4]"), False),  # not its form
        ("coreml", quantized("uint8", "uint8"), True),
        ("qnn", quantized("uint8", "uint8", zero=1), False),
        ("qnn", quantized("int8", "int8", channels=True), False),
        ("qnn", quantized("uint8", "int8", channels=True, zero=1), True),
        ("qnn", quantized("uint8", "uint8", channels=True), True),
        ("xnnpack", quantized("uint8", "uint8"), False),
        ("xnnpack", quantized("int8", "int8", channels=True), False),
        ("xnnpack", quantized("uint8", "uint8", channels=True), True),
        ("xnnpack", quantized("uint8", "int8"), True),
    ],
)  # fmt: skip
def test_quantized_forms(target: str, text: str, fires: bool, tmp_path: Path) -> None:
    assert bool(fired("MOB006", text, target, tmp_path)) is fires
