"""Fixes that a rewrite of ortune's own makes."""

from __future__ import annotations

import msgspec

from ortune.records import Finding, Plan, RewriteSpec
from ortune.rewrites import Rewrite
from ortune.rules.facts import Facts


def mended_by(rewrite: Rewrite, finding: Finding, facts: Facts) -> Finding:
    """The finding with the rewrite as its fix, where that would change this model; else as it is, with its words."""
    if facts.model is None or rewrite.name in (spec.name for spec in facts.plan.rewrites):
        return finding
    for params, _ in rewrite.proposes(facts.model.ir, facts.work):
        plan = Plan(rewrites=(RewriteSpec(name=rewrite.name, params=rewrite.canonical(params)),))
        return msgspec.structs.replace(finding, plan=plan, safety=rewrite.safety, fix="")
    return finding
