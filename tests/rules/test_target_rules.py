"""What rules find in models for one target, or with one plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper
from rule_facts import findings_of, opened, profile, ran, signed

from onnx_text import assemble
from ortune import rules
from ortune.records import Case, Plan, ProviderSpec, RewriteSpec, Workload
from ortune.rules import Facts


def test_what_webassembly_cannot_reach_is_no_finding() -> None:
    """The rates of the machine are those of its own vectors, which no page has."""
    rule, facts = rules.find_rule("GRA006"), profile(ran("slow", floor_ns=1e4, bound="compute"))
    assert rule.findings(facts)
    assert not rule.findings(replace(facts, target="web-wasm"))
    assert rule.findings(replace(profile(ran("slow", floor_ns=4e3, bound="compute")), target="web-wasm"))


def integers(folder: Path, dtype: int) -> Facts:
    sides = [helper.make_tensor_value_info(name, dtype, [8, 8]) for name in ("a", "b")]
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [8, 8])
    model = assemble([helper.make_node("MatMulInteger", ["a", "b"], ["y"], "p")], sides, [y])
    return Facts(model=opened(model, folder), target="cuda")


def test_the_one_integer_product_of_cuda_is_none_of_those_without_a_kernel(tmp_path: Path) -> None:
    assert "int8-operators-on-gpu" in findings_of(integers(tmp_path, TensorProto.UINT8))
    of_int8 = integers(tmp_path, TensorProto.INT8)
    assert "int8-operators-on-gpu" not in findings_of(of_int8)
    assert "int8-operators-on-gpu" in findings_of(replace(of_int8, target="webgpu"))


def test_saturation_that_is_set_against_is_no_finding(tmp_path: Path) -> None:
    facts = signed(tmp_path, 90)
    rule = rules.find_rule("QNT009")
    assert rule.findings(facts)
    assert not rule.findings(replace(facts, plan=Plan(settings={"x64_quant_precision": True})))


def test_settings_that_a_page_has_not_are_no_fix_there(tmp_path: Path) -> None:
    rule = rules.find_rule("MEM002")
    assert rule.bad is not None
    facts = Facts(model=opened(rule.bad(), tmp_path))
    assert any(found.plan for found in rule.findings(facts))
    assert not any(found.plan for found in rule.findings(replace(facts, target="web-wasm")))


@pytest.mark.parametrize(
    ("code", "target", "provider"),
    [
        ("CUD001", "cuda", "CUDAExecutionProvider"),
        ("CUD003", "tensorrt", "TensorrtExecutionProvider"),
        ("MOB001", "nnapi", "NnapiExecutionProvider"),
        ("MOB001", "qnn", "QNNExecutionProvider"),
        ("PLC004", "cuda", "CUDAExecutionProvider"),
    ],
)
def test_sizes_that_the_plan_fixes_are_not_open(
    code: str, target: str, provider: str, tmp_path: Path
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    two (float[n,3,h,w] x, float[1,3,h,w] z) => (float[n,2,h,w] y)
    <float[2,3,1,1] k = {1,2,3,4,5,6}> { s = Add (x, z)  y = Conv (s, k) }"""
    model = opened(onnx.parser.parse_model(text), tmp_path)
    options = {"enable_cuda_graph": "1"} if code == "PLC004" else {}

    def where(sizes: dict[str, str] | None, **settings: str) -> list[tuple[str, ...]]:
        fixed = () if sizes is None else (RewriteSpec(name="fixed-dimensions", params=sizes),)
        spec = ProviderSpec(name=provider, options=options)
        plan = Plan(providers=(spec,), rewrites=fixed, settings=dict(settings))
        return [
            each.where
            for each in rules.find_rule(code).findings(Facts(model=model, target=target, plan=plan))
        ]

    assert where(None) == [("x", "z")]
    assert where({"n": "1"}) == [("x", "z")]
    assert where({"h": "8", "w": "8"}) == [("x",)]
    assert where({"h": "8", "w": "8", "x[0]": "1"}) == []
    assert where({}) == []  # all of them, as the inputs are
    assert where(None, web_free_dimensions="n=1;h=8;w=8") == []
    if options:  # the same asked for by a setting
        options.clear()
        assert where(None) == [] and where(None, cuda_graph="1") == [("x", "z")]


def test_a_graph_is_not_captured_with_nodes_elsewhere_or_from_several_threads(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]>\nfixed (float[1,8] x) => (float[1,8] y) { y = Relu (x) }'
    model = opened(onnx.parser.parse_model(text), tmp_path)
    spec = ProviderSpec(name="WebGpuExecutionProvider", options={"enableGraphCapture": "1"})
    rule = rules.find_rule("PLC004")

    def what(**known: Any) -> list[str]:
        facts = Facts(model=model, target="webgpu", plan=Plan(providers=(spec,)), **known)
        return [finding.what for finding in rule.findings(facts)]

    assert what() == []
    case = Case(name="default", inputs=())
    (several,) = what(work=Workload(cases=(case,), callers=4))
    assert "graph capture" in several and "4 threads" in several
    mixed = profile(
        ran("all", provider="WebGpuExecutionProvider"), ran("last", provider="CPUExecutionProvider")
    )
    assert mixed.profile is not None
    (elsewhere,) = what(profile=mixed.profile)
    assert "graph capture" in elsewhere and "1 node ran on the CPU (last)" in elsewhere
