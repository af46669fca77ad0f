"""Every defect that the benchmark plants in real models, planted in a small one, each in one of ten spellings."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_text import assemble

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "rewrites"))

from rule_facts import HOST

from ortune import rules
from planted_defects import DEFECTS, SPELLINGS, Defect, respelled
from rule_mutations import codes, with_defect

# With the instructions that some defects are slow on.
FAST = msgspec.structs.replace(HOST, features=("avx2", "avx512_vnni"))
WITHOUT = Defect(code="")


def small() -> onnx.ModelProto:
    """Convolutions, a dense layer and a product of three axes."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (16, 8, 3, 3), "w1": (16, 16, 3, 3), "w2": (256, 64), "b2": (64,), "w3": (16, 64)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()
    ]
    weights.append(numpy_helper.from_array(np.array([1, 4, 16]), "to"))
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], "conv0", pads=[1] * 4),
        helper.make_node("Relu", ["c0"], ["r0"], "relu0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "conv1", pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p"], "pool", kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["g"], "dense"),
        helper.make_node("Reshape", ["g", "to"], ["s"], "rows"),
        helper.make_node("MatMul", ["s", "w3"], ["m"], "product"),
        helper.make_node("Relu", ["m"], ["y"], "end"),
    ]
    return assemble(nodes, "float[1,8,16,16] x", "float[1,4,64] y", weights, name="small")


TITLES = [
    title
    for title, defect in DEFECTS.items()
    if not title.startswith("unrolled") and with_defect(defect, small()) is not None  # has tests of its own
]


@pytest.mark.parametrize("title", TITLES)
def test_it_is_found_in_one_of_ten_spellings(title: str, tmp_path: Path) -> None:
    defect = DEFECTS[title]
    spelling = list(SPELLINGS)[TITLES.index(title) % len(SPELLINGS)] if defect.respelled else "as planted"
    planted = with_defect(defect, small())
    assert planted is not None
    model = respelled(planted, spelling) or planted  # some belong to newer operators than a spelling has
    rule, right = [rules.find_rule(defect.code)], Defect(code="", plan=defect.right, target=defect.target)
    before, after = codes(small(), tmp_path, right, FAST, rule), codes(model, tmp_path, defect, FAST, rule)
    assert defect.code in after and after[defect.code] != before.get(defect.code), spelling


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_nothing_is_found_without(spelling: str, tmp_path: Path) -> None:
    model = respelled(small(), spelling)
    asked = rules.Selection(preview=True).rules(rules.ABOUT_MODELS)
    assert model is not None
    found = codes(model, tmp_path, WITHOUT, FAST, asked)
    assert {code for code, (severity, _) in found.items() if severity != "note"} == set()
