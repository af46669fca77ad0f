"""``ortune explain``: every rule, what a word names, and what is searched for."""

from __future__ import annotations

import pytest

import ortune
from ortune import rules
from ortune.errors import UsageError
from within import program


@pytest.mark.parametrize("code", rules.all_rules())
def test_every_rule_is_explained(code: str) -> None:
    said = ortune.explain(code).summary()
    assert said.startswith(code) and "Why it costs" in said


def test_a_rule_is_explained_as_it_is_typed() -> None:
    code, said, _ = program(["explain", "GRA002"])
    assert code == 0 and said.startswith("GRA002")
    assert "Why it costs" in said


def test_explain_lists_all_and_helps_with_a_wrong_code() -> None:
    _, said, _ = program(["explain"])
    assert all(code in said for code in rules.all_rules())
    with pytest.raises(UsageError, match="GRA000"):
        rules.find_rule("GRA000")


def test_explain_finds_what_a_word_names() -> None:
    found = ortune.explain("gelu")
    assert found.result.whole and (found.result.rules[0].kind, found.result.rules[0].name) == (
        "rewrite",
        "gelu",
    )
    assert "GRA012" in {entry.code for entry in found.result.rules[1:]}
    assert "Fuses arithmetic" in found.summary() and "unfused-gelu" in found.summary()
    setting = ortune.explain("allow_spinning").result
    assert setting.rules[0].kind == "setting" and dict(setting.rules[0].sections)["Why it costs"]
    listed = ortune.explain("fusion").result
    assert not listed.whole and {entry.kind for entry in listed.rules} == {"rule", "rewrite", "setting"}


def test_explain_searches_all_texts_whatever_a_type_is_called() -> None:
    first, second = (ortune.explain(search=text).result for text in ("fp16", "float16"))
    assert first.rules == second.rules and 1 < len(first.rules) <= 25
    assert {"PRC003", ""} <= {entry.code for entry in first.rules}
    both = ortune.explain(search="gelu tanh").result.rules
    assert set(both) < set(ortune.explain(search="gelu").result.rules)
    with pytest.raises(UsageError):
        ortune.explain(search="no-such-word-anywhere")
    with pytest.raises(UsageError, match="a code and search"):
        ortune.explain("GRA002", search="gelu")
