"""A graph is captured, and the provider is named by text.

What it is: enableGraphCapture with ``executionProviders: ['webgpu']``, in place of ``[{ name: 'webgpu' }]``.
Why it costs: with the native builds of onnxruntime-web 1.30 runs then fail, or the outputs are wrong without a
    word: those of the first run for ever, whatever is fed.
Evidence: the two settings, and the build.
Fix and its safety: exact: the provider as an object.
Example: ``--set web_provider_form=object``
References: onnxruntime-common, ``enableGraphCapture``; mended in 1.31.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.web.web_graph_capture import KNOB as CAPTURE
from ortune.knobs.web.web_provider_form import KNOB as FORM
from ortune.records import Finding, Plan
from ortune.rules._browsers import NATIVE, build_run
from ortune.rules.facts import Facts

CODE = "WEB009"

_RIGHT = "object"


def find(facts: Facts) -> Iterator[Finding]:
    """In the settings."""
    settings = facts.plan.settings
    captures = bool(settings.get(CAPTURE.name)) and build_run(facts) in NATIVE
    if captures and settings.get(FORM.name, _RIGHT) != _RIGHT:
        yield Finding(
            code=CODE,
            severity="error",
            what="graph capture with the provider named by text: runs fail, or give the first outputs for ever",
            fix="name the provider by an object: executionProviders: [{ name: 'webgpu' }]",
            plan=Plan(settings={FORM.name: _RIGHT}),
            safety="exact",
        )
