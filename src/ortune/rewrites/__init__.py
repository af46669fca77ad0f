"""All model-to-model rewrites, one file each, discovered by walking the folder.

A rewrite is a module with a docstring under fixed headings and one constant ``REWRITE``. Modules whose names begin with
an underscore are the machinery: ``_base`` defines a rewrite, ``_checks`` validates its result, ``_marks`` records
provenance, ``_apply`` applies rewrites from file to file, and ``_registry`` discovers them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.errors import UsageError
from ortune.graph.model.garbage import without_collection
from ortune.graph.shapes.known import remembering
from ortune.objectives import Objective
from ortune.records import RewriteSpec, Value, Workload
from ortune.rewrites._affine import PRODUCTS
from ortune.rewrites._apply import (
    RewriteStepResult,
    RewrittenFile,
    Tool,
    apply_all,
    rewrite_model,
    rewritten_graph,
)
from ortune.rewrites._base import (
    ANY_NAME,
    CLEAN_UP,
    ORT,
    SHADERS_OF_FLOAT16,
    Param,
    Proposed,
    Rewrite,
    RewriteResult,
)
from ortune.rewrites._changed import changed_nodes
from ortune.rewrites._editor import release
from ortune.rewrites._marks import MODEL_KEY, NODE_KEY, made_by, repair_saved, stamp_model
from ortune.rewrites._pattern import PatternFacts
from ortune.rewrites._quantized import FAMILY, PREPARE, RECURRENT, in_fewer_bits, weight_bytes
from ortune.rewrites._recurrence import Recurrence
from ortune.rewrites._registry import all_rewrites, canonical, find

__all__ = [
    "ANY_NAME",
    "CLEAN_UP",
    "FAMILY",
    "MODEL_KEY",
    "NODE_KEY",
    "ORT",
    "PREPARE",
    "PRODUCTS",
    "RECURRENT",
    "SHADERS_OF_FLOAT16",
    "Param",
    "PatternFacts",
    "Proposed",
    "Recurrence",
    "Rewrite",
    "RewriteResult",
    "RewriteStepResult",
    "RewrittenFile",
    "Tool",
    "all_rewrites",
    "apply_all",
    "canonical",
    "changed_nodes",
    "completed",
    "find",
    "in_fewer_bits",
    "in_order",
    "lacking",
    "made_by",
    "parse",
    "pipeline",
    "proposals",
    "release",
    "remembering",
    "removed_outputs",
    "repair_saved",
    "rewrite_model",
    "rewritten_graph",
    "settings_for",
    "stamp_model",
    "weight_bytes",
]  # fmt: skip


_OPTION = "--rewrite"


def parse(text: str, where: str = _OPTION) -> RewriteSpec:
    """Parse ``NAME[:k=v,k=v]`` as given on the command line; raise UsageError if it is invalid.

    Args:
        text: The rewrite as the user wrote it.
        where: The option named in errors; "" for none.
    """
    try:
        return _parsed(text)
    except UsageError as error:
        at = f"{where}{error.where.removeprefix(_OPTION)}".strip()
        raise UsageError(error.what, where=at, do=error.do) from None


def _parsed(text: str) -> RewriteSpec:
    name, colon, rest = text.partition(":")
    rewrite = find(name.strip())
    params: dict[str, str] = {}
    for pair in rest.split(",") if colon else ():
        # Names of dimensions may contain "=" ("past=0"), so the value follows the last "=".
        key, sign, value = pair.rpartition("=")
        if not sign or not key.strip():
            raise UsageError(
                f"{pair!r} is not PARAMETER=VALUE", where=f"--rewrite {text}", do=f"write {name}:k=v,k=v"
            )
        if key.strip() in params:
            raise UsageError(
                f"parameter {key.strip()!r} is set twice", where=f"--rewrite {text}", do="pass it once"
            )
        params[key.strip()] = value
    return RewriteSpec(name=rewrite.name, params=rewrite.canonical(params))


def completed(spec: RewriteSpec, ir_model: ir.Model, workload: Workload) -> RewriteSpec:
    """Return the spec; if it has no parameters, add those that suit the model and the workload."""
    if spec.params:
        return spec
    proposed = find(spec.name).proposes(ir_model, workload)
    return RewriteSpec(name=spec.name, params=dict(proposed[0][0])) if proposed else spec


def settings_for(specs: Iterable[RewriteSpec]) -> dict[str, Value]:
    """Return the settings that a plan with these rewrites also needs."""
    settings: dict[str, Value] = {}
    for spec in specs:
        settings.update(find(spec.name).settings)
    return settings


def removed_outputs(specs: Iterable[RewriteSpec], outputs: Collection[str]) -> frozenset[str]:
    """Return the graph outputs that these rewrites remove at the user's request."""
    gone: frozenset[str] = frozenset()
    for spec in specs:
        leaves_out = find(spec.name).leaves_out
        if leaves_out is not None:
            gone |= leaves_out(outputs, spec.params)
    return gone


def _always(unit: str) -> bool:
    return True


def pipeline(
    ir_model: ir.Model,
    *,
    workload: Workload | None = None,
    objective: Objective | None = None,
    target: str = CPU.target,
    begins: Callable[[str], bool] = _always,
) -> tuple[RewriteSpec, ...]:
    """Return the exact rewrites that apply to a model one after another, since one may enable the next.

    Clean-up rewrites, with default parameters, are included if they are worth trying themselves or if a rewrite worth
    trying follows them.

    Args:
        ir_model: The model, which is not changed.
        workload: How the model will be used, if known.
        objective: Skip rewrites that cannot improve this objective; None skips none.
        target: Skip rewrites that are of no use on this target.
        begins: Callback with the name of each rewrite before it is tried; returns False to skip it for lack of time.
    """
    copy, before = ir_model.clone(), ir_model
    specs: list[RewriteSpec] = []
    useful = 0  # number of specs up to the last one worth trying
    doubtful: list[tuple[int, Rewrite, ir.Model]] = []  # clean-up, with position and model before
    with remembering():
        for rewrite in sorted(all_rewrites().values(), key=lambda rewrite: rewrite.stage):
            if rewrite.change is None or rewrite.safety != "exact":
                continue
            fits, clean_up = rewrite.pays(objective, target), rewrite.stage == CLEAN_UP
            if not ((fits or clean_up) and begins(rewrite.name)):
                continue
            proposed = rewrite.proposes(copy, workload)[:1] if fits and not clean_up else []
            if not (proposed or clean_up):
                continue
            params = proposed[0][0] if proposed else {}
            if not rewrite.apply(copy, params).modified:
                continue
            specs.append(RewriteSpec(name=rewrite.name, params=rewrite.canonical(params)))
            useful = len(specs) if proposed else useful
            if clean_up and fits:
                doubtful.append((len(specs), rewrite, before))
            if rewrite.stage <= CLEAN_UP:
                before = copy.clone()
        # A clean-up rewrite is judged by itself only if no rewrite worth trying follows it.
        for count, rewrite, model in reversed(doubtful):
            if count > useful and rewrite.proposes(model, workload):
                useful = count
    return tuple(specs[:useful])


def in_order(specs: Iterable[RewriteSpec]) -> tuple[RewriteSpec, ...]:
    """Sort rewrites by stage, keeping the order within a stage."""
    return tuple(sorted(specs, key=lambda spec: find(spec.name).stage))


def proposals(
    ir_model: ir.Model,
    allow: Collection[str] = (),
    *,
    workload: Workload | None = None,
    objective: Objective | None = None,
    target: str = CPU.target,
    packages: Collection[str] = (),
    features: Collection[str] = (),
    begins: Callable[[str], bool] = _always,
    known: dict[str, Sequence[Proposed]] | None = None,
) -> list[tuple[RewriteSpec, str]]:
    """Return pairs (rewrite, reason in one sentence) for the rewrites worth trying on a model.

    Args:
        ir_model: The model, which is not changed.
        allow: Safety classes or names of rewrites that are allowed in addition to exact rewrites.
        workload: How the model will be used; if None, rewrites that depend on sizes are not proposed.
        objective: Skip rewrites that cannot improve this objective; None skips none.
        target: Skip rewrites that are of no use on this target.
        packages: Packages in the measured environment; a rewrite that needs a package is skipped without it.
        features: GPU features that the browser's adapter reported.
        begins: Callback with the name of each rewrite before it is tried; returns False to skip it for lack of time.
        known: Proposals already made for this model and workload on other targets, keyed by rewrite; extended in place.
    """
    wanted = [
        rewrite
        for rewrite in all_rewrites().values()
        if _is_allowed(rewrite, allow)
        and rewrite.pays(objective, target)
        and (not rewrite.needs or rewrite.needs in packages)
        and not rewrite.lacks_feature(target, features)
    ]
    found = {} if known is None else known
    with remembering():
        for rewrite in wanted:
            if begins(rewrite.name) and rewrite.name not in found:
                with without_collection():
                    found[rewrite.name] = tuple(rewrite.proposes(ir_model, workload))
    return [
        (RewriteSpec(name=rewrite.name, params=rewrite.canonical(params)), reason)
        for rewrite in wanted
        for params, reason in found.get(rewrite.name, ())
    ]


def lacking(
    ir_model: ir.Model,
    allow: Collection[str] = (),
    *,
    workload: Workload | None = None,
    objective: Objective | None = None,
    target: str = CPU.target,
    features: Collection[str] = (),
) -> list[tuple[str, str]]:
    """Return pairs (rewrite, missing feature) for rewrites omitted only because the browser's GPU lacks a feature."""
    return [
        (rewrite.name, rewrite.adapter_feature)
        for rewrite in all_rewrites().values()
        if _is_allowed(rewrite, allow)
        and rewrite.pays(objective, target)
        and rewrite.lacks_feature(target, features)
        and rewrite.proposes(ir_model, workload)
    ]


def _is_allowed(rewrite: Rewrite, allow: Collection[str]) -> bool:
    return bool({"exact", *allow} & {rewrite.safety, rewrite.name})
