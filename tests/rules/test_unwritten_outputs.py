"""Outputs that no kernel writes: rules name the release, not the model."""

from __future__ import annotations

import msgspec
import pytest
from rule_facts import level_check

from ortune import rules
from ortune.records import DEFAULT_WRONG, NOT_FINITE, NonFiniteOutput
from ortune.rules import Facts


@pytest.mark.parametrize("code", [DEFAULT_WRONG, NOT_FINITE])
def test_outputs_that_a_kernel_does_not_write_are_no_fault_of_the_model(code: str) -> None:
    unwritten = msgspec.structs.replace(level_check(wrong=True), right="", unwritten=True)
    output = NonFiniteOutput(name="y", n_elements=8, nonfinite_reference=8, unusable_reference=8)
    facts = Facts(nonfinite=[output], level_check=unwritten)
    (finding,) = rules.find_rule(code).findings(facts)
    assert "another release" in finding.fix and "correct" not in finding.fix
