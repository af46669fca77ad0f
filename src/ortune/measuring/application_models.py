"""Alternatives to try for the models of a recorded application: other execution providers, and rewritten models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from ortune import rewrites, targets
from ortune.catalogue.providers import CPU, REMOTE
from ortune.errors import InputError
from ortune.graph.shapes.symbols import feedable
from ortune.inputs.recording_file import Shapes, shapes_of
from ortune.inputs.semantics import dtype_of
from ortune.measuring.application import Application
from ortune.measuring.recorded_settings import providers_of
from ortune.measuring.rewriting import ModelVariants
from ortune.records import AppValue, Plan, RewriteSpec, Runtime

FIXED = "fixed-dimensions"
MOST_MODELS = 3
"""Maximum number of models to rewrite and to try on other execution providers, by decreasing time in calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenAppModel:
    """A rewritten file that replaces one model of a recorded application.

    Attributes:
        model: Index of the model in the recording.
        path: The rewritten file.
        specs: The rewrites.
        only: The only shapes that the rewritten model accepts; () if it accepts all.
    """

    model: int
    path: Path
    specs: tuple[RewriteSpec, ...]
    only: Shapes = ()


def busiest(application: Application) -> list[int]:
    """Return the indices of up to ``MOST_MODELS`` models with the most time in calls, in descending order."""
    spent: dict[int, int] = {}
    for session in application.recording.sessions:
        if session.model in application.bases:
            total_ns = sum(calls.total_ns for calls in session.calls)
            spent[session.model] = spent.get(session.model, 0) + total_ns
    return sorted((index for index, ns in spent.items() if ns), key=lambda index: -spent[index])[:MOST_MODELS]


def usable_providers(runtime: Runtime) -> list[str]:
    """Return the execution providers of a build that are usable on this machine, except the CPU's.

    Plug-in providers are omitted, since the program itself registers them.
    """
    found = []
    for target in targets.all_targets().values():
        name = target.provider.name
        if target.of_runtime and target.providers and target.provider.ships and name in runtime.providers:
            report = target.discover(runtime)
            if report.usable and not report.emulated:
                found.append(name)
    return found


def providers_for(application: Application, index: int, usable: Sequence[str]) -> list[str]:
    """Return the usable execution providers, including the CPU's, that no session of a model had as its first provider.

    Args:
        application: The application.
        index: Index of the model in the recording.
        usable: The result of ``usable_providers``.
    """
    first = set[str]()
    for session in application.recording.sessions:
        if session.model == index:
            had = [each.name for each in providers_of(session, application.runtime.offered)]
            first.add(next((name for name in had if name != REMOTE.name), CPU.name))
    return [name for name in (*usable, CPU.name) if name not in first]


def proposed(application: Application, index: int) -> list[tuple[RewriteSpec, ...]]:
    """Return sets of rewrites to try: all exact rewrites, fixed dimensions if all calls have one shape, and both."""
    base = application.bases[index]
    if not base.side.model.ir.graph or base.side.model.in_ort_format:
        return []
    found = rewrites.proposals(base.side.model.ir, (FIXED,), workload=base.work, objective="latency")
    specs = [spec for spec, _ in found if not rewrites.find(spec.name).hardware_bound]
    fixed = [spec for spec in specs if spec.name == FIXED][:1] if only_shapes(application, index) else []
    exact = list({spec.name: spec for spec in specs if spec.name != FIXED}.values())
    sets = [tuple(exact), tuple(fixed), (*exact, *fixed) if exact and fixed else ()]
    return [rewrites.in_order(each) for each in sets if each]


def only_shapes(application: Application, index: int) -> Shapes:
    """Return the shapes of a model's calls if all calls have the same shapes, else ()."""
    calls = [
        shapes_of(calls)
        for session in application.recording.sessions
        if session.model == index
        for calls in session.calls
        if calls.count
    ]
    same = {tuple(sorted(shapes)) for shapes in calls}
    return calls[0] if len(same) == 1 else ()


class Rewriter:
    """Creates the rewritten models of one application, each only once."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._models: dict[int, ModelVariants] = {}

    def rewritten(self, index: int, specs: Sequence[RewriteSpec], limit_s: float) -> RewrittenAppModel:
        """Return a model with these rewrites applied.

        Raises:
            OrtuneError: The rewrites failed.
        """
        base = self.application.bases[index]
        if index not in self._models:
            self._models[index] = ModelVariants(base.side, base.scratch, (), base.say)
        path = self._models[index].path(Plan(rewrites=tuple(specs)), limit_s)
        fixes = any(spec.name == FIXED for spec in specs)
        only = only_shapes(self.application, index) if fixes else ()
        return RewrittenAppModel(model=index, path=path, specs=tuple(specs), only=only)


def seen_values(model: ir.Model) -> tuple[tuple[AppValue, ...], tuple[AppValue, ...]]:
    """Return a model's inputs and outputs as seen by a program; () for both if any of them is not a plain tensor."""
    try:
        inputs, outputs = (
            [_value(value) for value in values] for values in (feedable(model), model.graph.outputs)
        )
    except InputError:
        return (), ()
    if any("(" in value.type.removeprefix("tensor(") for value in itertools.chain(inputs, outputs)):
        return (), ()
    return tuple(inputs), tuple(outputs)


def _value(value: ir.Value) -> AppValue:
    return AppValue(name=value.name or "", type=f"tensor({dtype_of(value)})", shape=tuple(_sizes(value)))


def _sizes(value: ir.Value) -> Iterator[int | str | None]:
    for size in value.shape or ():
        yield size if isinstance(size, int) else size.value
