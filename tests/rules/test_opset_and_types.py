"""What a file alone shows: nodes that its opset does not have, islands of float16, and large integers of 64 bits."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest
from rule_facts import opened

from onnx_text import model_of
from ortune.records import Finding
from ortune.rules import Facts, rule_of
from ortune.rules.graph import not_in_its_opset
from ortune.rules.precision import float16_on_cpu, int64_in_a_hot_path

SIDES = "g (float[4,4] x) => (float[4,4] y)"


def _found(rule: object, folder: Path, text: str, opset: int = 17) -> list[Finding]:
    return rule_of(rule).findings(Facts(model=opened(model_of(text, opset), folder)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "opset", "words"),
    [
        ("y = HardSwish (x)", 12, ("HardSwish", "opset 14 or newer")),
        ("y = Gelu (x)", 17, ("Gelu", "opset 20 or newer")),
        ("y = ReduceMean <axes = [1]> (x)", 18, ("'axes'", "below 18")),
        ("y = Softmax <axis = 1, scale = 3> (x)", 17, ("'scale'", "remove")),
        ("y = Relu (x, x)", 17, ("at most 1 inputs",)),
        ("y = LayerNormalization (x, x)", 16, ()),
        ("y = ReduceMean <axes = [1]> (x)", 17, ()),
        ("y = NoSuchOperator (x)", 17, ()),
    ],
)
def test_what_the_opset_does_not_have_is_named(
    tmp_path: Path, body: str, opset: int, words: tuple[str, ...]
) -> None:
    """As ONNX Runtime does, which refuses the same."""
    text = f"{SIDES} {{ [node] {body} }}"
    found = _found(not_in_its_opset, tmp_path, text, opset)
    assert len(found) == bool(words)
    for finding in found:
        assert finding.severity == "error" and finding.where == ("node",)
        assert all(word in f"{finding.what} {finding.fix}" for word in words)
    if "NoSuch" not in body:
        try:
            onnxruntime.InferenceSession(
                model_of(text, opset).SerializeToString(), providers=["CPUExecutionProvider"]
            )
            loads = True
        except onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph:
            loads = False
        assert loads != bool(words)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (
            "h = Cast <to = 10> (x)\n [s] s = Softmax (h)\n [m] m = Mul (s, h)\n y = Cast <to = 1> (m)",
            ("s", "m"),
        ),
        ("h = Cast <to = 10> (x)\n [p] p = MatMul (h, h)\n y = Cast <to = 1> (p)", ("p",)),
        ("h = Cast <to = 10> (x)\n t = Transpose (h)\n y = Cast <to = 1> (t)", ()),
        ("h = Cast <to = 11> (x)\n s = Softmax (h)\n y = Cast <to = 1> (s)", ()),
    ],
)
def test_an_island_of_float16_is_found(tmp_path: Path, body: str, where: tuple[str, ...]) -> None:
    """By what is computed in it; the rewrite makes it float32."""
    found = _found(float16_on_cpu, tmp_path, f"{SIDES} {{ {body} }}")
    assert [finding.where for finding in found] == ([where] if where else [])
    assert all(finding.plan is not None for finding in found)


@pytest.mark.parametrize(("size", "severities"), [(512, ["note"]), (16, [])], ids=["large", "small"])
def test_large_integers_of_any_value_are_a_note(tmp_path: Path, size: int, severities: list[str]) -> None:
    """Nothing proves that they fit: whoever exports the model may know."""
    text = f"g (int64[{size},{size}] x) => (int64[{size},{size}] y) {{ s = Mul (x, x)\n y = Add (s, x) }}"
    assert [finding.severity for finding in _found(int64_in_a_hot_path, tmp_path, text)] == severities
