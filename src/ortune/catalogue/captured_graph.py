"""Whether runs of a plan replay a graph that was captured on the device."""

from __future__ import annotations

from collections.abc import Iterable

from ortune.catalogue import providers
from ortune.records import Applied, Plan


def captures(plan: Plan, applied: Iterable[Applied]) -> bool:
    """Return whether a provider of the plan captures a graph, as a setting or else the provider's options request."""
    graph = {name: providers.find(name).graph_option for name in plan.provider_names}
    asked = {spec.name: spec.options.get(graph[spec.name], "") for spec in plan.providers}
    asked |= {s.provider: str(s.value) for s in applied if s.key and s.key == graph.get(s.provider)}
    return "1" in asked.values()
