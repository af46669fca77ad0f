"""A page loads a WebGPU build but runs on the CPU.

What it is: the builds jsep, asyncify or jspi of onnxruntime-web with the WebAssembly provider.
Why it costs: 28, 27 or 17 MB are downloaded and compiled before the first run, where 14 MB suffice (version 1.30). CPU
    kernels are up to 20 % slower in the larger builds. After a thousand runs, V8 compiles functions of jsep 1.30 again,
    which takes up to 20 s and 2.5 GB (measured in Chromium).
Evidence: the build (jsep unless another is chosen) and the target. Not reported for a file that is not run.
Fix and its safety: advice: ``import 'onnxruntime-web/wasm'``, which has the same kernels.
Example: ``--target web-wasm --set web_build=wasm``
References: onnxruntime-web, ``exports`` of its package.json.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import WEB_WASM
from ortune.records import Finding
from ortune.rules._browsers import build_run, shows_build
from ortune.rules.facts import Facts

CODE = "WEB015"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a page loads a build with a GPU provider to run on the CPU."""
    build = build_run(facts)
    if facts.target == WEB_WASM.target and shows_build(facts) and build not in ("", WEB_WASM.web_alone):
        yield Finding(
            code=CODE,
            what=f"the page loads the {build} build but only uses the CPU",
            fix="import 'onnxruntime-web/wasm'",
        )
