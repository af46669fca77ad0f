"""Rules that show models: what the bad one has is found and marked, the good one is like it and clean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from rule_facts import HOST

from ortune import rewrites, rules
from ortune.graph.model.graphs import graphs
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.save import save_model
from ortune.graph.written import Fingerprint
from ortune.inputs import workload
from ortune.records import Finding
from ortune.rules import MARK, Facts, Rule
from ortune.rules._words import name_of

SHOWN = [rule for rule in rules.all_rules().values() if rule.bad is not None]
each_rule = pytest.mark.parametrize("rule", SHOWN, ids=lambda rule: rule.code)


def opened(model: onnx.ModelProto, folder: Path) -> OpenModel:
    onnx.save(model, folder / "m.onnx")
    return open_model(folder / "m.onnx")


def known(model: OpenModel, rule: Rule) -> Facts:
    """All that a check knows; a rule for one target alone is asked about that."""
    return Facts(model=model, host=HOST, target=rule.target)


def marked(model: OpenModel) -> set[str]:
    found = {name_of(node) for graph in graphs(model.ir) for node in graph}
    values = {v.name or "" for v in (*model.ir.graph.inputs, *model.ir.graph.initializers.values())}
    return {name for name in found | values if name.startswith(MARK)}


def only_finding(rule: Rule, model: OpenModel) -> Finding:
    """The one finding on the bad model."""
    findings = rule.findings(known(model, rule))
    assert len(findings) == 1, (
        f"find() must yield one finding on BAD, and yields {len(findings)}; "
        "values in the graph have no types or sizes of their own: graph.shapes.known.known_values infers them"
    )
    return findings[0]


@each_rule
def test_both_models_are_whole(rule: Rule) -> None:
    assert rule.bad is not None and rule.good is not None
    for model in (rule.bad(), rule.good()):
        onnx.checker.check_model(model)


@each_rule
def test_it_fires_on_exactly_what_is_marked(rule: Rule, tmp_path: Path) -> None:
    assert rule.bad is not None
    model = opened(rule.bad(), tmp_path)
    found = only_finding(rule, model)
    assert found.code == rule.code and "\n" not in found.what and not found.what.endswith(".")
    assert set(found.where) == marked(model), f"where must name what BAD calls {MARK}..."
    assert (found.safety == "advice") == (found.plan is None)


@each_rule
def test_no_model_is_changed_by_looking_at_it(rule: Rule, tmp_path: Path) -> None:
    """Its nodes are listed once for all rules."""
    assert rule.bad is not None
    model = opened(rule.bad(), tmp_path)
    before = Fingerprint.from_model(model.ir)
    assert rules.found_by([rule], known(model, rule))
    assert Fingerprint.from_model(model.ir) == before


@each_rule
def test_it_is_silent_on_the_good_one(rule: Rule, tmp_path: Path) -> None:
    assert rule.good is not None
    assert rule.findings(known(opened(rule.good(), tmp_path), rule)) == [], (
        "find() must yield nothing on GOOD"
    )


@each_rule
def test_its_fix_silences_it_once_and_keeps_the_outputs(rule: Rule, tmp_path: Path) -> None:
    assert rule.bad is not None
    model = opened(rule.bad(), tmp_path)
    found = only_finding(rule, model)
    if not (found.plan and found.plan.rewrites):
        return
    changed = model.ir.clone()
    for spec in found.plan.rewrites:
        assert rewrites.find(spec.name).apply(changed, spec.params).modified
    for spec in found.plan.rewrites:
        assert not rewrites.find(spec.name).apply(changed, spec.params).modified
    assert rule.findings(replace(known(model, rule), model=replace(model, ir=changed))) == []
    if found.safety != "exact" or rule.target != "cpu":
        return
    save_model(changed, tmp_path / "fixed.onnx")
    ((_, feeds),) = workload.feeds(model.ir, workload.propose(model.ir))
    before, after = (
        onnxruntime.InferenceSession(str(tmp_path / name), providers=["CPUExecutionProvider"]).run(
            None, feeds
        )
        for name in ("m.onnx", "fixed.onnx")
    )
    for was, now in zip(before, after, strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-4, atol=1e-5)
