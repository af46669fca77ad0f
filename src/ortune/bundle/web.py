"""``load.web.mjs``: code that loads a bundle in a page, its types, and server configurations for threads.

The code is generated from the plan and its fallback for devices that cannot run it. Each provider is tried separately,
in order: given several, onnxruntime-web skips unavailable ones with only a warning on the console.
"""

from __future__ import annotations

import json
import os
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from ortune.bundle.languages._literals import comment
from ortune.bundle.languages._source import claim
from ortune.bundle.languages._templates import templates
from ortune.bundle.settings import measured, resolve
from ortune.bundle.shared import thread_cap
from ortune.catalogue import providers
from ortune.catalogue.computed.web_build import IMPORTS, default_of
from ortune.catalogue.in_page import in_page
from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.catalogue.named import WEB_ISOLATION as _ISOLATION
from ortune.catalogue.named import WEB_THREADS as THREADS
from ortune.catalogue.providers import WEB_WASM as WASM
from ortune.graph.model.open import OpenModel
from ortune.records import Applied, BundleInfo, Plan, ProviderSpec

FILES = ("load.web.mjs", "load.web.d.mts")
SERVED = ("nginx.conf", "vite.config.mjs", "express.mjs", "isolate.js")
"""Server configurations in ``deploy/`` that set the headers of a page."""

ISOLATION = _ISOLATION.name
_PLAIN = frozenset(string.ascii_letters + string.digits + "-._~/")
_TYPES = {
    "FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "STRING": "string", "BOOL": "bool",
    **{name: name.lower() for name in ("INT4", "UINT4", "INT8", "UINT8", "INT16", "UINT16")},
    **{name: name.lower() for name in ("INT32", "UINT32", "INT64", "UINT64")},
}  # fmt: skip
"""Names of tensor types in onnxruntime-web."""


@dataclass(frozen=True, kw_only=True)
class PageProvider:
    """One provider with its settings, as JavaScript.

    Attributes:
        provider: Name for ``executionProviders``.
        build: Module to import.
        env: Statements on ``env``.
        options: Session options as a literal.
        threads: Expression for the requested threads; "" if there are none.
        inputs: Location of the inputs; "" for the CPU.
        plain: Whether it runs the original model although the bundle also has a rewritten one.
    """

    provider: str
    build: str
    env: tuple[str, ...]
    options: str
    threads: str
    inputs: str
    plain: bool = False


def web_files(info: BundleInfo, model: OpenModel, plain: OpenModel) -> dict[str, str]:
    """Return the files for a page, keyed by path in the bundle.

    Args:
        info: The index of the bundle.
        model: The model that the bundle's plan runs.
        plain: The original model.
    """
    chain = page_providers(info.plan, info.applied)
    models = [("MODEL", "EXTERNAL", *_served(info.model, model))]
    if info.fallback is not None:
        last = page_providers(info.fallback, resolve(info.fallback), first=False)
        if info.plain_model and not info.fallback.rewrites:
            last = tuple(replace(choice, plain=True) for choice in last)
            models.append(("PLAIN_MODEL", "PLAIN_EXTERNAL", *_served(info.plain_model, plain)))
        chain += last
    places = {
        "q": json.dumps,
        "comment": comment,
        "info": info,
        "claim": claim(info),
        "choices": chain,
        "models": models,
        "inputs": _typed(v for v in model.ir.graph.inputs if not v.is_initializer()),
        "outputs": _typed(model.ir.graph.outputs),
    }
    files = {name: templates().get_template(f"{name}.j2").render(places) for name in FILES}
    for name in SERVED:
        files[f"deploy/{name}"] = templates().get_template(f"{name}.j2").render(places)
    return files


def page_providers(plan: Plan, applied: Sequence[Applied], *, first: bool = True) -> tuple[PageProvider, ...]:
    """Return the plan's providers in order, each with the common settings and its own.

    Args:
        plan: The plan.
        applied: The plan's settings.
        first: Whether no other provider is tried before the plan.
    """
    tried = [first, *(False for _ in plan.providers[1:])]
    return tuple(
        _choice(provider, applied, first=is_first)
        for provider, is_first in zip(plan.providers, tried, strict=True)
    )


def javascript_lines(plan: Plan, model: str = "model.onnx") -> str:
    """Return the plan as the lines of JavaScript to use where the model is loaded today.

    Args:
        plan: The plan. Its thread counts may be numbers or ``min(n, cpus)``; they become the numbers for this machine.
        model: Path of the model as the user writes it.
    """
    first = page_providers(plan, measured(resolve(plan)))[0]
    lines = []
    if first.provider == WASM.name and first.threads != "1" and plan.settings.get(ISOLATION) is not False:
        lines.append(
            "// Serve the page cross-origin isolated (COOP and COEP headers); otherwise it has one thread."
        )
    if len(plan.providers) > 1:
        others = ", ".join(p.name for p in plan.providers[1:])
        lines.append(
            f"// If {first.provider} is not available, load.web.mjs of the bundle tries {others} next."
        )
    lines += [f"import * as ort from {json.dumps(first.build)};", ""]
    lines += [f"ort.{statement};" for statement in first.env]
    lines.append(f"const session = await ort.InferenceSession.create({json.dumps(model)}, {first.options});")
    if first.inputs:
        lines.append("// Create the inputs on the GPU, as in the measurement: ort.Tensor.fromGpuBuffer(...)")
    return "\n".join(lines)


def locations(opened: OpenModel) -> list[str]:
    """Return the paths of a model's external data files, relative to the model's folder."""
    paths = dict.fromkeys(tensor.file.path for tensor in opened.external)
    return [os.path.relpath(path, opened.path.parent).replace(os.sep, "/") for path in paths]


def address(name: str) -> str:
    """Return a percent-encoded URL of a file of the bundle, relative to the code."""
    data = name.encode("utf-8", "surrogateescape")
    return "./" + "".join(chr(b) if chr(b) in _PLAIN else f"%{b:02X}" for b in data)


def _served(place: str, model: OpenModel) -> tuple[str, list[tuple[str, str]]]:
    """Return the URL of a model in the bundle, and its external data as pairs of name and URL."""
    folder = place[: place.rfind("/") + 1]
    return address(place), [(path, address(folder + path)) for path in locations(model)]


def _choice(provider: ProviderSpec, applied: Sequence[Applied], *, first: bool) -> PageProvider:
    page_settings = in_page(provider, applied)
    traits = providers.find(provider.name)
    build = page_settings.build or default_of(provider.name)
    if build == "jspi" and traits.cpu_kernels and not first:
        # A browser without a GPU may lack JSPI too, and cannot start that build at all then.
        build = traits.web_alone
    if not BUILD.runs_on(build, provider.name):
        build = traits.web_alone or default_of(provider.name)
    return PageProvider(
        provider=provider.name,
        build=IMPORTS[build],
        env=tuple(line for key, value in page_settings.env.items() for line in _assigned(key, value)),
        options=literal(page_settings.session),
        threads=next(
            (_expression(value) for key, value in page_settings.env.items() if key == THREADS.key), ""
        ),
        inputs="" if page_settings.inputs == "cpu" else page_settings.inputs,
    )


def _assigned(key: str, value: object) -> list[str]:
    """Return statements that set a value of ``env``, after creating missing parents below ``wasm`` and its siblings."""
    parts = key.split(".")
    parents = [f"env.{'.'.join(parts[:n])} ??= {{}}" for n in range(2, len(parts))]
    return [*parents, f"env.{key} = {_expression(value)}"]


def _expression(value: object) -> str:
    """Return a value of ``env`` as an expression; a thread count is computed in the page."""
    count = thread_cap(value)
    return json.dumps(value) if count is None else f"threads({count})"


def literal(value: object) -> str:
    """Return a value as a JavaScript literal.

    Unusual names are written as ``["name"]``, since ``__proto__: x`` would not create an entry.
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_name(key)}: {literal(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value)


def _name(key: str) -> str:
    return key if key.isascii() and key.isidentifier() and not key.startswith("_") else f"[{json.dumps(key)}]"


def _shape(shape: ir.Shape | None) -> str:
    """Return sizes and names of axes for a comment, with "*" escaped since "*/" would end it."""
    if shape is None:
        return "of any shape"
    sizes = (str(d.value or "?") if isinstance(d, ir.SymbolicDim) else str(d) for d in shape)
    return comment("x".join(sizes)).replace("*", "<2a>") or "one number"


def _typed(values: Iterable[ir.Value]) -> list[tuple[str, str, str]]:
    """Return names, types and shapes of tensors; the type is "" if pages do not support it."""
    tensors = []
    for value in values:
        kind = (
            _TYPES.get(value.dtype.name, "") if value.dtype and isinstance(value.type, ir.TensorType) else ""
        )
        tensors.append((value.name or "", kind, _shape(value.shape)))
    return tensors
