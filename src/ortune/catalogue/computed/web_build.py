"""The builds of onnxruntime-web: which have a provider, what a page imports for each, and which files are theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ortune.catalogue import providers
from ortune.catalogue.knob import Computed, Knob
from ortune.records import Value

IMPORTS = {
    "jsep": "onnxruntime-web",
    "asyncify": "onnxruntime-web/webgpu",
    "jspi": "onnxruntime-web/jspi",
    "wasm": "onnxruntime-web/wasm",
    "webgl": "onnxruntime-web/webgl",
}
"""What a page imports for each build."""

_IN_PAGES = providers.that(lambda p: p.web_builds)
COMPUTED: Computed = {
    "only": {build: tuple(p.name for p in _IN_PAGES if build in p.web_builds) for build in IMPORTS},
}

_FILE = re.compile(r"ort-wasm[\w-]*?(?:\.(?P<build>jsep|asyncify|jspi))?(?:-[\w-]+)?\.wasm$")


def default_of(provider: str) -> str:
    """What a page imports that does not choose: the package's default, where that has the provider; "" outside."""
    return next(iter(providers.find(provider).web_builds), "")


def build_of(settings: Mapping[str, Value], provider: str) -> str:
    """Return the build that runs a provider: as the settings say, or else what a page imports; "" outside of pages."""
    return str(settings.get("web_build") or default_of(provider))


def build_of_file(name: str) -> str:
    """Return the build that a file of WebAssembly belongs to, by its name or address; "" for all other files."""
    match = _FILE.search(name.partition("?")[0])
    return (match["build"] or "wasm") if match else ""


def idle_in(knob: Knob, build: str) -> str:
    """Return why a setting does nothing in a build, "" if it acts."""
    if not knob.builds or build in knob.builds:
        return ""
    return f"{knob.name} does nothing in the {build} build of onnxruntime-web: web_build={' or '.join(knob.builds)}"
