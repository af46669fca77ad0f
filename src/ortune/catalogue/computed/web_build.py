"""Builds of onnxruntime-web: the providers of each, the import of a page, and the files."""

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
"""Module that a page imports, by build."""

_IN_PAGES = providers.providers_with(lambda p: p.web_builds)
COMPUTED: Computed = {
    "only": {build: tuple(p.name for p in _IN_PAGES if build in p.web_builds) for build in IMPORTS},
}

_FILE = re.compile(r"ort-wasm[\w-]*?(?:\.(?P<build>jsep|asyncify|jspi))?(?:-[\w-]+)?\.wasm$")


def default_of(provider: str) -> str:
    """Return a provider's default build: the package's default import if it has the provider; "" outside of pages."""
    return next(iter(providers.find(provider).web_builds), "")


def build_of(settings: Mapping[str, Value], provider: str) -> str:
    """Return the build that runs a provider, as set or else the provider's default; "" outside of pages."""
    return str(settings.get("web_build") or default_of(provider))


def build_of_file(name: str) -> str:
    """Return the build of a WebAssembly file, by its name or address; "" for other files."""
    match = _FILE.search(name.partition("?")[0])
    return (match["build"] or "wasm") if match else ""


def why_no_effect(knob: Knob, build: str) -> str:
    """Return a clause on why a setting has no effect in a build; "" if it has an effect."""
    if not knob.builds or build in knob.builds:
        return ""
    return f"{knob.name} does nothing in the {build} build of onnxruntime-web: web_build={' or '.join(knob.builds)}"
