"""All execution providers, as described by the files of the catalogue.

Every package may import this module, since it starts nothing; ``targets`` runs the trials. Code queries the properties
of a provider, not its name; code for a single provider uses its constant below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from ortune.catalogue.files import provider_tables
from ortune.catalogue.provider import SOFTWARE, Bindings, Build, DeviceFailure, Provider

SUFFIX = "ExecutionProvider"
"""Suffix of ONNX Runtime's provider names."""


@cache
def all_providers() -> tuple[Provider, ...]:
    """Return all providers: the CPU first, then sorted by target and name."""
    return tuple(sorted(_read(), key=lambda p: (p.target != "cpu", p.target, p.name)))


def _read() -> Iterator[Provider]:
    for table in provider_tables().values():
        for row in table.get("providers", [table["provider"]] if "provider" in table else []):
            yield _provider(row)


def _provider(row: Mapping[str, Any]) -> Provider:
    # Without msgspec, since loading a bundle imports this module.
    fields = _in_tuples(row)
    fields["failures"] = tuple(DeviceFailure(**failure) for failure in row.get("failures", ()))
    fields["builds"] = tuple(Build(**_in_tuples(build)) for build in row.get("builds", ()))
    fields["bindings"] = Bindings(**_in_tuples(row.get("bindings", {})))
    fields["options"] = frozenset(row.get("options", ()))
    fields["needs"] = tuple(row.get("needs", {}).items())
    fields["question"] = row.get("question", "").replace("SOFTWARE", SOFTWARE)
    return Provider(**fields)


def _in_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with its lists, and lists in them, converted to tuples."""
    return {
        name: tuple(tuple(item) if isinstance(item, list) else item for item in value)
        if isinstance(value, list)
        else value
        for name, value in row.items()
    }


def providers_with(trait: Callable[[Provider], object]) -> tuple[Provider, ...]:
    """Return the providers that satisfy a predicate."""
    return tuple(p for p in all_providers() if trait(p))


def find(name: str) -> Provider:
    """Return the provider with this name in ONNX Runtime; for an unknown name, a provider without properties."""
    return next((p for p in all_providers() if p.name == name), None) or Provider(name=name)


def of_target(target: str) -> Provider:
    """Return the provider of a target; for an unknown target, a provider without name and properties."""
    return next((p for p in all_providers() if target and p.target == target), None) or Provider(name="")


def target_names(trait: Callable[[Provider], object]) -> tuple[str, ...]:
    """Return the names of the targets with providers that satisfy a predicate."""
    return tuple(p.target for p in providers_with(trait) if p.target)


def of_profile(name: str) -> Provider:
    """Return the provider, among those with a target, that has this name in profiles.

    For an unknown name, the result is a provider without properties.
    """
    runs = providers_with(lambda p: p.target and name in p.profiled_as)
    return next((p for p in runs if p.name == name), runs[0] if runs else Provider(name=name))


def profile_names(trait: Callable[[Provider], object]) -> frozenset[str]:
    """Return all names in profiles of the providers that satisfy a predicate."""
    return frozenset(name for p in providers_with(trait) for name in p.profiled_as)


def short_name(name: str) -> str:
    """Return a provider's short name: "CUDA" for "CUDAExecutionProvider"."""
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
"""Providers that code names directly."""

COREML_NETWORK = "coreml-neuralnetwork"
"""The NeuralNetwork format, as named by ``partition`` and its table; MLProgram has the provider's own name."""

ON_CPU = frozenset({CPU.name, ""})
"""Provider names in a profile for nodes that ONNX Runtime's CPU kernels ran."""
