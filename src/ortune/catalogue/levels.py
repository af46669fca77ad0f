"""The graph optimisation level of a plan."""

from __future__ import annotations

import msgspec

from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL
from ortune.records import Plan


def level_of(plan: Plan) -> str:
    """Return the optimisation level of a plan."""
    return str(plan.settings.get(GRAPH_OPTIMIZATION_LEVEL.name, GRAPH_OPTIMIZATION_LEVEL.default))


def at_level(plan: Plan, level: str) -> Plan:
    """Return a plan with its optimisation level replaced."""
    return msgspec.structs.replace(plan, settings={**plan.settings, GRAPH_OPTIMIZATION_LEVEL.name: level})
