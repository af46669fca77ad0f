"""Graph capture is enabled, but the provider is given as a string.

What it is: enableGraphCapture with ``executionProviders: ['webgpu']`` instead of ``[{ name: 'webgpu' }]``.
Why it costs: with the native builds of onnxruntime-web 1.30, runs fail or silently return the outputs of the first
    run, whatever is fed.
Evidence: the two settings, and the build.
Fix and its safety: exact: give the provider as an object.
Example: ``--set web_provider_form=object``
References: onnxruntime-common, ``enableGraphCapture``; fixed in 1.31.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import WEB_GRAPH_CAPTURE as CAPTURE
from ortune.catalogue.named import WEB_PROVIDER_FORM as FORM
from ortune.records import Finding, Plan
from ortune.rules._browsers import NATIVE, build_run
from ortune.rules.facts import Facts

CODE = "WEB009"

_RIGHT = "object"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if graph capture is set and the provider is given as a string."""
    settings = facts.plan.settings
    captures = bool(settings.get(CAPTURE.name)) and build_run(facts) in NATIVE
    if captures and settings.get(FORM.name, _RIGHT) != _RIGHT:
        yield Finding(
            code=CODE,
            severity="error",
            what="graph capture with the provider as a string: runs fail, or always return the first outputs",
            fix="give the provider as an object: executionProviders: [{ name: 'webgpu' }]",
            plan=Plan(settings={FORM.name: _RIGHT}),
            safety="exact",
        )
