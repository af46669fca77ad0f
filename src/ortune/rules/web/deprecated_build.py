"""WebGPU runs in the deprecated build of onnxruntime-web.

What it is: the JSEP build, the default of ``import 'onnxruntime-web'``, with WebGPU.
Why it costs: JSEP has been deprecated since onnxruntime-web 1.29. Fixes and optimisations go into the native WebGPU
    provider, which supports more operators and has smaller files.
Evidence: the build (JSEP unless another is chosen) and the target. Not reported for a file that is not run.
Fix and its safety: advice: measure ``import 'onnxruntime-web/webgpu'`` (asyncify); jspi where browsers support it.
Example: ``--target web-webgpu --set web_build=asyncify``
References: microsoft/onnxruntime#32578, #15796.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import WEB_WEBGPU
from ortune.records import Finding
from ortune.rules._browsers import JSEP, build_run, shows_build
from ortune.rules.facts import Facts

CODE = "WEB014"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a page runs WebGPU with the JSEP build."""
    if facts.target == WEB_WEBGPU.target and shows_build(facts) and build_run(facts) == JSEP:
        yield Finding(
            code=CODE,
            what="the default import of onnxruntime-web runs WebGPU through JSEP, which is deprecated",
            fix="import 'onnxruntime-web/webgpu'",
        )
