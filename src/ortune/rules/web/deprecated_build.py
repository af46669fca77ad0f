"""WebGPU runs in the deprecated build of onnxruntime-web.

What it is: JSEP, which ``import 'onnxruntime-web'`` gives, with WebGPU.
Why it costs: JSEP is deprecated since 1.29: what is mended and made faster is the native provider, which has more
    operators and smaller files.
Evidence: the build, which is JSEP where none is chosen, and the target; not of a file that is not run.
Fix and its safety: advice: ``import 'onnxruntime-web/webgpu'`` (asyncify), measured; jspi where browsers have it.
Example: ``--target web-webgpu --set web_build=asyncify``
References: microsoft/onnxruntime#32578, #15796.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU
from ortune.records import Finding
from ortune.rules._browsers import JSEP, build_run, shows_build
from ortune.rules.facts import Facts

CODE = "WEB014"


def find(facts: Facts) -> Iterator[Finding]:
    """In the settings."""
    if facts.target == WEB_WEBGPU.target and shows_build(facts) and build_run(facts) == JSEP:
        yield Finding(
            code=CODE,
            what="the default import of onnxruntime-web runs WebGPU by JSEP, which is deprecated",
            fix="import onnxruntime-web/webgpu",
        )
