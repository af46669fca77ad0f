"""Rewrites as fixes of findings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ortune.records import Finding, Plan, RewriteSpec
from ortune.rewrites import Rewrite
from ortune.rewrites.fixed_dimensions import REWRITE as FIXED
from ortune.rewrites.fixed_dimensions import why_not_fixed
from ortune.rules.facts import Facts

NO_PARAMS: Mapping[str, str] = {}


def fixed_by(rewrite: Rewrite, finding: Finding, facts: Facts) -> Finding:
    """Return the finding with the rewrite as its fix, or with the fix in words if the rewrite changes nothing."""
    if facts.model is None:
        return finding
    for params, _ in rewrite.proposes(facts.model.ir, facts.work):
        return with_fix(rewrite, finding, facts, params)
    return fixable(finding, facts) if rewrite.name == FIXED.name else finding


def fixable(finding: Finding, facts: Facts) -> Finding:
    """Return a finding whose fix is to fix sizes; if inputs grow at each step, the fix becomes a static cache."""
    grows = why_not_fixed(facts.model.ir) if facts.model is not None else ""
    return msgspec.structs.replace(finding, fix=grows) if grows else finding


def with_fix(
    rewrite: Rewrite, finding: Finding, facts: Facts, params: Mapping[str, str] = NO_PARAMS
) -> Finding:
    """Return the finding with the rewrite as its fix, without checking that the rewrite changes the model.

    The finding is unchanged if the plan already has the rewrite.
    """
    if facts.rewritten_by(rewrite.name):
        return finding
    plan = Plan(rewrites=(RewriteSpec(name=rewrite.name, params=rewrite.canonical(params)),))
    return msgspec.structs.replace(finding, plan=plan, safety=rewrite.safety, fix="")
