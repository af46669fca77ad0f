"""Which build of onnxruntime-web the page imports.

What it is: the package has several: jsep (the default import, with WebGPU and WebNN implemented in
    JavaScript), asyncify (onnxruntime-web/webgpu) and jspi (onnxruntime-web/jspi), both with ONNX Runtime's own WebGPU
    provider, wasm (CPU only) and webgl.
Why it costs: the WebAssembly file is downloaded and compiled before the first run: 14 MB for wasm, 17 MB for jspi, 27
    MB for asyncify, 28 MB for jsep (1.30). The same CPU kernels are up to 20 % slower in the larger builds, and jsep
    has been deprecated since 1.29.
Evidence: the names of the files that the page loads; time to the first result; latency.
Fix and its safety: ``wasm`` where only the CPU is used, ``asyncify`` or ``jspi`` for WebGPU; exact. ``jspi`` needs a
    browser with JavaScript Promise Integration (JSPI) for WebAssembly.
Example: ``--target web-wasm --set web_build=wasm``
References: onnxruntime-web, ``exports`` of its package.json; microsoft/onnxruntime#25666, #32578.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ortune import providers
from ortune.knobs.knob import OFTEN, Knob
from ortune.records import Value

_CHOICES = ("jsep", "asyncify", "jspi", "wasm", "webgl")
_IN_PAGES = providers.that(lambda p: p.web_builds)
KNOB = Knob(
    name="web_build",
    channel="web_page",
    key="build",
    kind="choice",
    choices=_CHOICES,
    only={build: tuple(p.name for p in _IN_PAGES if build in p.web_builds) for build in _CHOICES},
    default="jsep, the package's default import",
    summary="the build of onnxruntime-web that the page imports",
    tries=("wasm", "jspi", "asyncify"),
    prior=OFTEN,
    priors={"cold-start": 0.6},
)

IMPORTS = {
    "jsep": "onnxruntime-web",
    "asyncify": "onnxruntime-web/webgpu",
    "jspi": "onnxruntime-web/jspi",
    "wasm": "onnxruntime-web/wasm",
    "webgl": "onnxruntime-web/webgl",
}
"""What a page imports for each build."""

_FILE = re.compile(r"ort-wasm[\w-]*?(?:\.(?P<build>jsep|asyncify|jspi))?(?:-[\w-]+)?\.wasm$")


def default_of(provider: str) -> str:
    """What a page imports that does not choose: the package's default, where that has the provider; "" outside."""
    return next(iter(providers.find(provider).web_builds), "")


def build_of(settings: Mapping[str, Value], provider: str) -> str:
    """The build that runs a provider: as the settings say, or else what a page imports; "" outside of pages."""
    return str(settings.get(KNOB.name) or default_of(provider))


def build_of_file(name: str) -> str:
    """The build that a file of WebAssembly belongs to, by its name or address; "" for all other files."""
    match = _FILE.search(name.partition("?")[0])
    return (match["build"] or "wasm") if match else ""


def idle_in(knob: Knob, build: str) -> str:
    """Why a setting does nothing in a build, "" where it acts."""
    if not knob.builds or build in knob.builds:
        return ""
    return f"{knob.name} does nothing in the {build} build of onnxruntime-web: web_build={' or '.join(knob.builds)}"
