"""Graph capture is requested, but the model does not allow it.

What it is: enable_cuda_graph, enableGraphCapture or another provider's option for it, with a model that has
    control flow or dynamic dimensions. Nodes on the CPU and several threads that call the session also prevent it.
Why it costs: with control flow or nodes on the CPU, session creation or the capture fails. With dynamic dimensions, a
    graph is captured for one shape only. Threads that call one session would replay into the same buffers.
Evidence: the option of the provider, or of the session in a browser; operators and inputs by name; where nodes ran in
    a profile; the callers of the workload.
Fix and its safety: advice: remove the option, or fix the dimensions, remove the control flow and the nodes on the CPU,
    and call each session from one thread.
Example: ``--rewrite fixed-dimensions:batch=1``
References: microsoft/onnxruntime#15005, #10859, #29273.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue import knobs, providers
from ortune.catalogue.named import WEB_GRAPH_CAPTURE as CAPTURE
from ortune.catalogue.providers import ON_CPU
from ortune.graph.model.graphs import nodes, op_set
from ortune.graph.model.open import OpenModel
from ortune.printable import amount
from ortune.records import Finding
from ortune.rules._providers import open_inputs
from ortune.rules._words import listed, name_of, place
from ortune.rules.facts import Facts

CODE = "PLC004"
TIER = "preview"

_OPTIONS = {p.graph_option for p in providers.providers_with(lambda p: p.graph_option)}
_CONTROL = op_set("If Loop Scan")
_COPIES = "device-copies"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the plan requests graph capture and the model or the run prevents it."""
    asked = {
        key
        for spec in facts.plan.providers
        for key, value in spec.options.items()
        if value.lower() in ("1", "true")
    }
    asked |= {knobs.find(name).key for name, value in facts.plan.settings.items() if str(value) == "1"}
    in_a_page = bool(facts.plan.settings.get(CAPTURE.name))
    if facts.model is None or not (in_a_page or asked.intersection(_OPTIONS)):
        return
    control, open_, on_cpu = _control_flow(facts.model), open_inputs(facts), _on_the_cpu(facts)
    if parts := obstacles(facts):
        yield Finding(
            code=CODE,
            severity="error" if control or on_cpu else "warning",
            what=f"graph capture is requested, but {' and '.join(parts)}",
            where=(*control, *open_, *on_cpu),
            fix="remove the option, or remove what prevents the capture"
            if on_cpu or _callers(facts) > 1
            else "remove the option, or export the model with fixed shapes",
        )


def obstacles(facts: Facts) -> list[str]:
    """Return clauses with the obstacles to a graph capture; the model must be known."""
    assert facts.model is not None
    control, open_, on_cpu = _control_flow(facts.model), open_inputs(facts), _on_the_cpu(facts)
    parts = [f"the model has control flow ({listed(control)})"] if control else []
    parts += [f"the model has dynamic dimensions ({listed(open_)})"] if open_ else []
    parts += [f"{amount(len(on_cpu), 'node')} ran on the CPU ({listed(on_cpu)})"] if on_cpu else []
    return [*parts, *([f"{_callers(facts)} threads call one session"] if _callers(facts) > 1 else [])]


def _control_flow(model: OpenModel) -> list[str]:
    """Return the names of the model's control-flow nodes."""
    return [name_of(node) for node in nodes(model.ir) if node.op_type in _CONTROL and not node.domain]


def _callers(facts: Facts) -> int:
    return facts.work.callers if facts.work else 1


def _on_the_cpu(facts: Facts) -> tuple[str, ...]:
    """Return the names of nodes that the CPU ran in a profiled run with another provider; empty without a profile."""
    ran = facts.nodes()
    elsewhere = any(node.provider not in ON_CPU for node in ran)
    return place(node for node in ran if elsewhere and node.provider in ON_CPU and node.category != _COPIES)
