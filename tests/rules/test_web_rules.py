"""Rules on browsers, on files that ONNX Runtime's own converter and optimiser made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnxruntime as ort
import pytest
from onnx import helper
from rule_examples import EXAMPLES
from rule_facts import FLOAT, dequantized, facts_of, in_a_page, info, plain, watched_page, work

from ortune import rules, targets
from ortune.graph.model.open import open_model
from ortune.records import Finding, Plan, Value
from ortune.rules import Facts
from web_models import convert, convolutions, products


def found_in(path: Path, target: str) -> dict[str, Finding]:
    plan = Plan(providers=targets.find(target).providers)
    facts = Facts(model=open_model(path), plan=plan, target=target)
    return {f.code: f for f in rules.found_by(rules.Selection().rules(), facts) if f.code.startswith("WEB")}


def saved(model: Path, level: str) -> Path:
    """As a session saves the graph that it optimised."""
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(model.with_name("saved.onnx"))
    options.log_severity_level = 4
    without = ["NchwcTransformer"] if level == "ORT_ENABLE_ALL" else []
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=without)
    return model.with_name("saved.onnx")


@pytest.mark.parametrize("level", ["basic", "extended", "all"])
def test_convolutions_in_ort_format_by_level(level: str, tmp_path: Path) -> None:
    (made,) = convert(convolutions(tmp_path / "net.onnx"), level)
    found = found_in(made, "web-webgpu")
    if level == "basic":
        assert found["WEB003"].severity == "warning" and not found["WEB003"].where
        assert "WEB004" not in found
        return
    assert found["WEB003"].severity == "error" and "FusedConv" in found["WEB003"].what
    assert ("level all" in found["WEB003"].what) == (level == "all")
    # The residual is part of a fusion at the last level alone.
    assert ("WEB004" in found) == (level == "all")


def test_products_in_ort_format_run_on_the_cpu(tmp_path: Path) -> None:
    model = products(tmp_path / "net.onnx")
    assert set(found_in(model, "web-webgpu")) == set()
    (fused,), (plain_products,) = convert(model, "all"), convert(model, "basic")
    found = found_in(fused, "web-webgpu")["WEB002"]
    assert "3 FusedGemm" in found.what and "extended or all" in found.what
    assert "ortune convert original.onnx --to ort --for web-webgpu" in found.fix
    assert set(found_in(plain_products, "web-webgpu")) == {"WEB003"}


@pytest.mark.parametrize("target", ["webgpu", "web-webgpu"])
def test_a_saved_model_with_a_residual_gives_wrong_numbers(target: str, tmp_path: Path) -> None:
    model = convolutions(tmp_path / "net.onnx")
    found = found_in(saved(model, "ORT_ENABLE_ALL"), target)["WEB004"]
    assert found.severity == "error" and len(found.where) == 1
    assert "WEB004" not in found_in(saved(model, "ORT_ENABLE_EXTENDED"), target)
    assert "WEB004" not in found_in(model, target)


def test_blocks_run_in_no_browser(tmp_path: Path) -> None:
    (model,) = convert(convolutions(tmp_path / "net.onnx"), "all", "--target_platform", "amd64")
    for target in ("web-wasm", "web-webgpu"):
        found = found_in(model, target)
        if "WEB005" not in found:
            pytest.skip("this machine's ONNX Runtime makes no blocks")
        assert found["WEB005"].severity == "error"
        facts = Facts(model=open_model(model), target=target)
        assert rules.find_rule("LAY003").findings(facts) == []  # said once
    assert rules.find_rule("LAY003").findings(Facts(model=open_model(model)))


@pytest.mark.parametrize(
    ("code", "target"),
    [("PRC003", "web-wasm"), ("MOB001", "web-webnn"), ("QNT006", "web-webgpu"), ("WEB001", "web-webgpu")],
)
def test_what_holds_elsewhere_holds_in_a_page(code: str, target: str, tmp_path: Path) -> None:
    import onnx

    rule = rules.find_rule(code)
    assert rule.bad is not None
    onnx.save(rule.bad(), tmp_path / "m.onnx")
    (found,) = rule.findings(Facts(model=open_model(tmp_path / "m.onnx"), target=target))
    assert found.where


def test_weights_beside_the_model_are_not_found_by_a_page(tmp_path: Path) -> None:
    rule = rules.find_rule("SES001")
    facts = plain(tmp_path, external=True)
    (native,), (page,) = rule.findings(facts), rule.findings(replace(facts, target="web-wasm"))
    assert (native.severity, page.severity) == ("note", "warning")
    assert "externalData" in page.fix


def test_a_level_below_all_is_told_in_a_page_by_its_own_name(tmp_path: Path) -> None:
    (found,) = rules.find_rule("SES002").findings(
        in_a_page(tmp_path, "wasm", web_graph_optimization_level="basic")
    )
    assert found.plan is not None and found.plan.settings == {"web_graph_optimization_level": "all"}


def test_a_page_that_chooses_no_build_runs_jsep(tmp_path: Path) -> None:
    def found(code: str, facts: Facts) -> int:
        return len(rules.find_rule(code).findings(facts))

    for code, provider in (("WEB014", "webgpu"), ("WEB015", "wasm")):
        facts = in_a_page(tmp_path, provider)
        # Of a file that nobody runs it is not known how a page loads it.
        assert (found(code, replace(facts, work=work())), found(code, facts)) == (1, 0)
    assert found("WEB016", replace(dequantized(tmp_path, "jsep"), plan=Plan())) == 1
    named: dict[str, Value] = {"web_graph_capture": True, "web_provider_form": "string"}
    assert found("WEB009", in_a_page(tmp_path, "webgpu", **named)) == 0
    # What a watched page does not show is not taken for the default.
    assert found("WEB014", watched_page("webgpu")) == found("WEB015", watched_page("wasm")) == 0
    assert found("WEB014", watched_page("webgpu", web_build="jsep")) == 1


@pytest.mark.parametrize(("target", "without"), [("web-webgpu", True), ("webgpu", False)])
def test_recurrent_cells_lack_a_kernel_in_jsep_alone(target: str, without: bool, tmp_path: Path) -> None:
    cell = helper.make_node("GRU", ["x", "w", "r"], ["y"], "cell", hidden_size=2)
    shapes = {"x": [3, 1, 4], "w": [1, 6, 4], "r": [1, 6, 2]}
    inputs = [info(name, FLOAT, shape) for name, shape in shapes.items()]
    facts = facts_of(tmp_path, [cell], inputs=inputs, target=target)
    rule = rules.find_rule("WEB001")
    assert bool(rule.findings(facts)) == without
    assert not rule.findings(replace(facts, plan=Plan(settings={"web_build": "asyncify"})))


def test_a_page_cannot_capture_what_has_open_sizes(tmp_path: Path) -> None:
    facts = in_a_page(tmp_path, "webgpu", web_graph_capture=True)
    rule = rules.find_rule("PLC004")
    assert rule.findings(facts) == []
    open_ = plain(tmp_path, inputs=[info("x", FLOAT, ["rows", 96])], plan=facts.plan, target=facts.target)
    assert [f.where for f in rule.findings(open_)] == [("x",)]


def test_a_model_that_fits_the_memory_hardly_is_a_warning(tmp_path: Path) -> None:
    facts = EXAMPLES["WEB008"].bad(tmp_path)
    assert facts.model is not None
    import msgspec

    told = msgspec.structs.replace(facts.model.facts, size_bytes=3 << 30)
    (found,) = rules.find_rule("WEB008").findings(replace(facts, model=replace(facts.model, facts=told)))
    assert found.severity == "warning"
