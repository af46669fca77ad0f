"""A page loads a build with WebGPU and runs on the CPU.

What it is: the builds jsep, asyncify or jspi of onnxruntime-web with WebAssembly as the provider.
Why it costs: 28, 27 or 17 MB are downloaded and compiled where 14 would do (1.30), before the first run; and the
    CPU's own kernels are up to a fifth slower in them. In jsep of 1.30 are functions that V8, after a thousand runs,
    takes up to 20 s and 2.5 GB to compile once more, beside the page's runs (measured in Chromium).
Evidence: the build, which is jsep where none is chosen, and the target; not of a file that is not run.
Fix and its safety: advice: ``import 'onnxruntime-web/wasm'``; the same kernels.
Example: ``--target web-wasm --set web_build=wasm``
References: onnxruntime-web, ``exports`` of its package.json.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.providers.web_wasm import PROVIDER as WEB_WASM
from ortune.records import Finding
from ortune.rules._browsers import build_run, shows_build
from ortune.rules.facts import Facts

CODE = "WEB015"


def find(facts: Facts) -> Iterator[Finding]:
    """In the settings."""
    build = build_run(facts)
    if facts.target == WEB_WASM.target and shows_build(facts) and build not in ("", WEB_WASM.web_alone):
        yield Finding(
            code=CODE,
            what=f"the build {build} is loaded, and only the CPU is used",
            fix="import onnxruntime-web/wasm",
        )
