"""WebGPU runs in the deprecated build of onnxruntime-web.

What it is: JSEP, which ``import 'onnxruntime-web'`` gives, with WebGPU.
Why it costs: JSEP is deprecated since 1.29: what is mended and made faster is the native provider, which has more
    operators and smaller files.
Evidence: the build and the provider of the plan.
Fix and its safety: advice: ``import 'onnxruntime-web/webgpu'`` (asyncify), measured; jspi where browsers have it.
Example: ``--target web-webgpu --set web_build=asyncify``
References: microsoft/onnxruntime#32578, #15796.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.web.web_build import KNOB as BUILD
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "WEB014"


def find(facts: Facts) -> Iterator[Finding]:
    """In the settings."""
    if facts.plan.settings.get(BUILD.name) == "jsep" and facts.plan.provider_names[0] == "webgpu":
        yield Finding(
            code=CODE,
            what="the default import of onnxruntime-web runs WebGPU by JSEP, which is deprecated",
            fix="import onnxruntime-web/webgpu",
        )
