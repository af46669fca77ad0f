"""Every execution provider, as the files of the catalogue describe it: its names, its target, and what is true of it.

Every room may import this, for nothing is started: ``targets`` makes of each what runs a trial. Code asks for what is
true of a provider, not for its name; code for one provider alone uses its constant below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from ortune.catalogue.files import provider_tables
from ortune.catalogue.provider import SOFTWARE, Bindings, Build, DeviceFailure, Provider

SUFFIX = "ExecutionProvider"
"""How ONNX Runtime ends the names of its own."""


@cache
def every() -> tuple[Provider, ...]:
    """Return every provider, the CPU's first, then by target and name."""
    return tuple(sorted(_read(), key=lambda p: (p.target != "cpu", p.target, p.name)))


def _read() -> Iterator[Provider]:
    for table in provider_tables().values():
        for row in table.get("providers", [table["provider"]] if "provider" in table else []):
            yield _provider(row)


def _provider(row: Mapping[str, Any]) -> Provider:
    # Built by hand: bundles load their sessions through this module, without msgspec.
    fields = _in_tuples(row)
    fields["failures"] = tuple(DeviceFailure(**failure) for failure in row.get("failures", ()))
    fields["builds"] = tuple(Build(**_in_tuples(build)) for build in row.get("builds", ()))
    fields["bindings"] = Bindings(**_in_tuples(row.get("bindings", {})))
    fields["options"] = frozenset(row.get("options", ()))
    fields["needs"] = tuple(row.get("needs", {}).items())
    fields["question"] = row.get("question", "").replace("SOFTWARE", SOFTWARE)
    return Provider(**fields)


def _in_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with its lists, and their lists, as tuples."""
    return {
        name: tuple(tuple(item) if isinstance(item, list) else item for item in value)
        if isinstance(value, list)
        else value
        for name, value in row.items()
    }


def that(trait: Callable[[Provider], object]) -> tuple[Provider, ...]:
    """Return the providers of which something is true."""
    return tuple(p for p in every() if trait(p))


def find(name: str) -> Provider:
    """Return the provider with this name in ONNX Runtime; an unknown one has no facts."""
    return next((p for p in every() if p.name == name), None) or Provider(name=name)


def of_target(target: str) -> Provider:
    """Return the provider of the target with this name; an unknown one has no facts."""
    return next((p for p in every() if target and p.target == target), None) or Provider(name="")


def targets(trait: Callable[[Provider], object]) -> tuple[str, ...]:
    """Return the names of the targets of which something is true."""
    return tuple(p.target for p in that(trait) if p.target)


def of_profile(name: str) -> Provider:
    """Return the provider with a target whose nodes a profile says to be run by this one."""
    runs = that(lambda p: p.target and name in p.profiled_as)
    return next((p for p in runs if p.name == name), runs[0] if runs else Provider(name=name))


def profiled(trait: Callable[[Provider], object]) -> frozenset[str]:
    """Return what profiles call the providers of which something is true."""
    return frozenset(name for p in that(trait) for name in p.profiled_as)


def short(name: str) -> str:
    """Return a provider's name for people: "CUDA" of "CUDAExecutionProvider"."""
    return name.removesuffix(SUFFIX)


CPU = of_target("cpu")
COREML = of_target("coreml")
CUDA = of_target("cuda")
NNAPI = of_target("nnapi")
NODE = of_target("node")
QNN = of_target("qnn")
REMOTE = find("AzureExecutionProvider")
TENSORRT = of_target("tensorrt")
WEB_WASM = of_target("web-wasm")
WEB_WEBGPU = of_target("web-webgpu")
WEBGPU = of_target("webgpu")
XNNPACK = of_target("xnnpack")
"""Providers that code is about."""

COREML_NETWORK = "coreml-neuralnetwork"
"""The format NeuralNetwork, as ``partition`` calls it and its table is named; MLProgram has the provider's own name."""

ON_CPU = frozenset({CPU.name, ""})
"""What a profile says of nodes that ONNX Runtime's own kernels for the CPU ran."""
