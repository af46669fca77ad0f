"""Every rule: described whole, right on its examples, silent where nothing is known, and one file."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rule_examples import EXAMPLES
from rule_facts import HOST, plain, profile, ran

from ortune import rewrites, rules
from ortune.records import Finding
from ortune.rules import Facts, Rule, graph, rule_of
from ortune.rules.graph import time_between_nodes

HEADINGS = ["What it is", "Why it costs", "Evidence", "Fix and its safety", "Example", "References"]
SAFETY = ("exact", "numerics", "behaviour", "advice")
each_rule = pytest.mark.parametrize("rule", rules.all_rules().values(), ids=lambda rule: rule.code)
with_example = pytest.mark.parametrize(
    "rule", [rule for rule in rules.all_rules().values() if rule.bad is None], ids=lambda rule: rule.code
)

NEW = '''"""Nodes that give back what they take.

What it is: Identity.
Why it costs: a copy.
Evidence: the operator.
Fix and its safety: advice: leave it out.
Example: none
References: ONNX operator documentation, "Identity".
"""

from ortune.graph.model.graphs import nodes
from ortune.records import Finding

CODE = "GRA999"


def find(facts):
    """Everywhere in the model."""
    for node in nodes(facts.model.ir) if facts.model else ():
        if node.op_type == "MatMul":
            yield Finding(code=CODE, what="a product", where=(node.name,))
'''


@each_rule
def test_it_is_described_under_every_heading(rule: Rule) -> None:
    title, *lines = rule.doc.strip().splitlines()
    assert title.endswith("."), "the first line of the docstring is a sentence"
    assert [m[1] for line in lines if (m := re.match(r"(\w[\w ]+): \S", line))] == HEADINGS
    safety = next(line for line in lines if line.startswith("Fix and its safety: "))
    first = re.split(r"[:;]", safety.removeprefix("Fix and its safety: "))[0].strip(".")
    assert first in SAFETY, f"{HEADINGS[3]} begins with one of {', '.join(SAFETY)}"


@each_rule
def test_its_code_is_of_its_family(rule: Rule) -> None:
    letters = rules.FAMILIES[rule.family]
    assert re.fullmatch(rf"{letters}\d{{3}}", rule.code), (
        f"codes of {rule.family} are {letters} and three digits"
    )


def test_no_two_rules_share_a_code_or_a_name() -> None:
    folder = Path(rules.__file__).parent
    files = [f for family in rules.FAMILIES for f in (folder / family).glob("*.py") if f.stem != "__init__"]
    assert len(files) == len({f.stem for f in files}), "two files have one name"
    assert len(rules.all_rules()) == len(files), "two files have one code; docs/rules.md lists all"
    assert {f.name for f in folder.iterdir() if f.is_dir()} - {"__pycache__"} == set(rules.FAMILIES)


@with_example
def test_it_fires_on_the_bad_example_and_marks_what_is_bad(rule: Rule, tmp_path: Path) -> None:
    example = EXAMPLES[rule.code]
    (found,) = rule.findings(example.bad(tmp_path))
    assert (found.code, found.name) == (rule.code, rule.name)
    assert found.where == example.where
    assert found.verified is None
    assert found.what and not found.what.endswith(".") and "\n" not in found.what
    assert (found.safety == "advice") == (found.plan is None)


@with_example
def test_it_is_silent_on_the_good_example(rule: Rule, tmp_path: Path) -> None:
    assert rule.findings(EXAMPLES[rule.code].good(tmp_path)) == []


@with_example
def test_its_fix_silences_it(rule: Rule, tmp_path: Path) -> None:
    facts = EXAMPLES[rule.code].bad(tmp_path)
    for plan in [found.plan for found in rule.findings(facts) if found.plan]:
        assert rule.findings(replace(facts, plan=plan)) == []
        for spec in plan.rewrites:
            assert facts.model is not None
            changed = facts.model.ir.clone()
            assert rewrites.find(spec.name).apply(changed, spec.params).modified
            assert rule.findings(replace(facts, model=replace(facts.model, ir=changed))) == []


def test_every_rule_has_examples_in_one_place() -> None:
    shown = {code for code, rule in rules.all_rules().items() if rule.bad and rule.good}
    assert not shown & EXAMPLES.keys(), "rules that have both BAD and GOOD, and examples in rule_examples.py"
    assert EXAMPLES.keys() <= rules.all_rules().keys(), "examples of rules that do not exist"
    without = rules.all_rules().keys() - shown - EXAMPLES.keys()
    assert not without, "rules that need BAD and GOOD in their file, or an example in rule_examples.py"


@each_rule
def test_it_is_silent_where_nothing_is_known(rule: Rule) -> None:
    assert rule.findings(Facts()) == []


def test_a_plain_model_on_a_plain_machine_has_nothing_that_stands_out(tmp_path: Path) -> None:
    assert rules.findings(replace(plain(tmp_path), host=HOST)) == ()


def test_of_one_node_nothing_is_to_be_fused() -> None:
    one, many = (profile(*(ran(f"n{i}", 0.7 / n) for i in range(n)), between_nodes=0.3) for n in (1, 20))
    (found,), (fused,) = rule_of(time_between_nodes).findings(one), rule_of(time_between_nodes).findings(many)
    assert found.fix == "use larger batches" and "around 1 node " in found.what
    assert "fusions" in fused.fix and "between 20 nodes " in fused.what


def test_what_is_broken_comes_first_then_the_largest_share(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(code: str, *found: Finding) -> Rule:
        return Rule(code=code, name=code.lower(), family="graph", doc="", find=lambda _: iter(found))

    given = [
        rule("GRA901", Finding(code="GRA901", what="", severity="note")),
        rule("GRA902", Finding(code="GRA902", what="")),
        rule(
            "GRA903", *(Finding(code="GRA903", what="", share_ratio=s, severity="note") for s in (0.1, 0.3))
        ),
        rule("GRA904", Finding(code="GRA904", what="", severity="error")),
    ]
    monkeypatch.setattr(rules, "all_rules", lambda families=(): {each.code: each for each in given})
    found = rules.findings(Facts())
    assert [f.code[-1] for f in found] == ["4", "3", "3", "2", "1"]
    assert [f.share_ratio for f in found[1:3]] == [0.3, 0.1]
    assert rules.findings(Facts(), without=("GRA",)) == ()


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rule]:
    """A rule that is one file."""
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "given_back.py").write_text(NEW, encoding="utf-8")
    monkeypatch.setattr(graph, "__path__", [*graph.__path__, str(folder)])
    importlib.invalidate_caches()
    rules.all_rules.cache_clear()
    yield rules.all_rules()["GRA999"]
    sys.modules.pop("ortune.rules.graph.given_back", None)
    rules.all_rules.cache_clear()


def test_a_rule_is_one_file_that_is_found_asked_and_documented(new: Rule, tmp_path: Path) -> None:
    assert (new.name, new.family) == ("given-back", "graph")
    (found,) = rules.findings(plain(tmp_path))
    assert (found.code, found.name, found.where) == ("GRA999", "given-back", ("product",))
    path = Path(__file__).resolve().parents[2] / "tools" / "make_docs.py"
    spec = importlib.util.spec_from_file_location("make_docs", path)
    assert spec is not None and spec.loader is not None
    make_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_docs)
    page = make_docs.rules_page()
    assert "| [`GRA999`](#gra999-given-back) | given-back | Nodes that give back what they take |" in page
    assert "## GRA999: given-back" in page
