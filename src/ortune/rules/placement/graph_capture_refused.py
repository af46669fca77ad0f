"""Graph capture is requested, but the model does not allow it.

What it is: enable_cuda_graph or enableGraphCapture, with a model that has control flow or dynamic dimensions.
Why it costs: with control flow, session creation fails. With dynamic dimensions, a graph is captured for one shape
    only.
Evidence: the option of the provider, or of the session in a browser; operators and inputs by name.
Fix and its safety: advice: remove the option, or fix the dimensions and remove the control flow.
Example: ``--rewrite fixed-dimensions:batch=1``
References: microsoft/onnxruntime#15005, #10859, #29273.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune import knobs, providers
from ortune.knobs.web.web_graph_capture import KNOB as CAPTURE
from ortune.model.graphs import nodes, op_set
from ortune.records import Finding
from ortune.rules._providers import open_inputs
from ortune.rules._words import listed, name_of
from ortune.rules.facts import Facts

CODE = "PLC004"
TIER = "preview"

_OPTIONS = {"enableGraphCapture", *(p.graph_option for p in providers.that(lambda p: p.graph_option))}
_CONTROL = op_set("If Loop Scan")


def find(facts: Facts) -> Iterator[Finding]:
    """Where a provider is asked to capture."""
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
    model = facts.model.ir
    control = [name_of(node) for node in nodes(model) if node.op_type in _CONTROL and not node.domain]
    open_ = open_inputs(facts)
    if control or open_:
        parts = [f"control flow ({listed(control)})"] if control else []
        parts += [f"dynamic dimensions ({listed(open_)})"] if open_ else []
        yield Finding(
            code=CODE,
            severity="error" if control else "warning",
            what=f"graph capture is requested, but the model has {' and '.join(parts)}",
            where=(*control, *open_),
            fix="remove the option, or export the model without them",
        )
