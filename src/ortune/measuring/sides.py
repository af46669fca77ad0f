"""The sides of a comparison: resolves a user's text to a model, a plan and a runtime."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from ortune import rewrites, targets
from ortune.bundle import digests, machine
from ortune.bundle import format as bundle_format
from ortune.bundle.settings import tuned_on
from ortune.catalogue import knobs
from ortune.catalogue.providers import NODE, of_target
from ortune.errors import MeasurementError, ModelError, UsageError
from ortune.graph.model import from_git
from ortune.graph.model.open import OpenModel, open_model
from ortune.measuring.plan_runtimes import with_providers, with_web_or_node
from ortune.measuring.plans import bundle_plan, canonical, read_plan
from ortune.printable import operand
from ortune.records import BundleInfo, Measured, Plan, Runtime, Side
from ortune.runtimes.packages import recipes
from ortune.search.plan_edits import merge
from ortune.targets import named_runtimes
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.machine import memory_bytes
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess

USUAL_LIMITS = Limits()
MOST_EDITED_BYTES = 1 << 30
"""Maximum size in bytes of a model of which changed copies are written to disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSide:
    """One side, ready to run.

    Attributes:
        label: Name of the side in sentences.
        runs: The file to load: the model, or the rewritten model.
        elsewhere: Runtimes by target, for plans that run on a target other than that of this side's plan.
        onnx: The same model in ONNX Runtime, if a framework runs this side; otherwise None.
        bundle: Folder of the bundle that contains the model; None without a bundle.
        own_settings: Names of the settings that the user set for this side only.
    """

    label: str
    model: OpenModel
    plan: Plan
    runtime: Runtime
    runs: Path
    elsewhere: Mapping[str, Runtime] = field(default_factory=dict)
    onnx: ResolvedSide | None = None
    bundle: Path | None = None
    own_settings: frozenset[str] = frozenset()

    @property
    def has_levels(self) -> bool:
        """Whether ONNX Runtime for Python runs the side, so that optimisation levels and a profiler are available."""
        return self.onnx is None and not self.plan.is_web

    @property
    def can_be_edited(self) -> bool:
        """Whether a changed copy of the model can be written and run: not of a large, rewritten or optimised model."""
        plain = self.runs == self.model.path and not self.model.in_ort_format
        return plain and self.model.size_bytes <= MOST_EDITED_BYTES

    def opened(self) -> OpenModel:
        """Return the model that runs, opened: the side's model, or the rewritten model."""
        return self.model if self.runs == self.model.path else open_model(self.runs)

    def runtime_of(self, plan: Plan) -> Runtime:
        """Return the runtime for a plan of this model."""
        return self.elsewhere.get(targets.target_of(plan).name, self.runtime)

    @property
    def ort_version(self) -> str:
        """The version of ONNX Runtime, onnxruntime-web or onnxruntime-node that runs the plan; "" if unknown."""
        return self.runtime_of(self.plan).version_of(self.plan)

    @property
    def added_providers(self) -> frozenset[str]:
        """Execution providers that are only in builds of ONNX Runtime other than the user's."""
        added = (name for name, runtime in self.elsewhere.items() if runtime != self.runtime)
        return frozenset(targets.find(name).provider.name for name in added)

    @property
    def unmet(self) -> dict[str, list[str]]:
        """Settings of the plan with the settings that each needs and the plan lacks, all as ``knob=value``."""
        return knobs.unmet(self.plan.settings)

    @property
    def record(self) -> Side:
        """The side's record for the document, without results of trials."""
        return self.placed_record(())

    def placed_record(self, trials: Sequence[Measured]) -> Side:
        """Return the side's record for the document, with the placement of nodes in the last trial."""
        placement = trials[-1].done.placement if trials else ()
        return Side(
            label=self.label,
            model=self.model.info,
            plan=self.plan,
            runtime=self.runtime,
            bundle="" if self.bundle is None else str(self.bundle),
            placement=placement,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SideText:
    """One side as written by the user.

    Attributes:
        text: Path of the model, bundle or plan; None for A's model.
        option: Option of the settings, such as "--b-set", for errors; the option for rewrites is then "--b-rewrite".
        runtime: The requested runtime; None for the default.
        target: Target of this side only; None for the target of all sides.
        ort_web: The onnxruntime-web of this side only; None for the onnxruntime-web of all sides.
    """

    text: str | None
    settings: Sequence[str] = ()
    option: str = "--set"
    rewrites: Sequence[str] = ()
    runtime: str | None = None
    target: str | None = None
    ort_web: str | None = None


def resolve(
    side: SideText,
    *,
    common: Plan,
    base_model: OpenModel | None = None,
    scratch: Path,
    custom_ops: Sequence[str] = (),
    limits: Limits = USUAL_LIMITS,
    browser: BrowserSetup | None = None,
    plain: bool = False,
    say: Callable[[str], None] = lambda sentence: None,
    alone: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> ResolvedSide:
    """Open the model of a side, with its plan and runtime.

    Args:
        side: The side as written.
        common: The plan that both sides share (``--plan``, ``--set``), which the side's settings override.
        base_model: A's model, for a B without a model.
        scratch: Folder for rewritten models and models from git.
        custom_ops: Libraries with operators of the model, for rewrites that load it.
        limits: Limits of the process that rewrites it.
        browser: The browser and onnxruntime-web for pages; None if no page is to be opened.
        plain: Whether to use a bundle's plain model without the bundle's plan, as the base of another confirmation.
        say: Callback for progress messages.
        alone: Context that is entered while the model is rewritten.

    Raises:
        UsageError, ModelError, RuntimeNotFound: The side cannot be resolved.
    """
    runtime = named_runtimes.find(side.runtime, say)
    opened = _open(side, common, base_model, runtime, scratch, plain=plain)
    model, label, bundle, runtime = opened.model, opened.label, opened.bundle, opened.runtime
    _require_holdable(model)
    option = f"{side.option.removesuffix('set')}rewrite"
    own = Plan(
        settings=knobs.parse_settings(list(side.settings), side.option),
        rewrites=tuple(rewrites.parse(text, option) for text in side.rewrites),
    )
    plan = _on_target(merge(opened.plan, own), side, runtime)
    runtime = with_providers(plan, runtime, side.runtime)
    if side.ort_web is not None and not plan.is_web:
        raise UsageError(
            "applies only to a side that runs in a browser",
            where=f"onnxruntime-web {side.ort_web}",
            do=f"--target {targets.in_browsers()[0]}",
        )
    loads = replace(browser, ort_web=side.ort_web) if browser and side.ort_web is not None else browser
    runtime = with_web_or_node(runtime, plan, loads, say)
    runs = model.path
    # A bundle's model is already rewritten.
    rewriting = bool(plan.rewrites) and bundle is None
    if rewriting:
        plan = merge(Plan(settings=rewrites.settings_for(plan.rewrites)), plan)
    plan = canonical(plan, "settings taken together")
    if rewriting:
        _require_uncalibrated(plan, model.path)
        tool = ToolProcess(
            runtime=runtime,
            folder=scratch,
            plan=optimisation_part(plan),
            custom_ops=tuple(custom_ops),
            limits=limits,
        )
        with alone():
            say(f"rewriting {label}: {', '.join(r.name for r in plan.rewrites)}")
            runs = _rewritten(
                model, plan, folder=scratch / "rewritten", tool=tool, option=f"{option} ({label})", say=say
            )
    return ResolvedSide(
        label=label,
        model=model,
        plan=plan,
        runtime=runtime,
        runs=runs,
        bundle=bundle,
        own_settings=frozenset(dict(plan.settings.items() - common.settings.items())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenedText:
    """A side's model, and the plan and runtime before the side's own options.

    Attributes:
        label: Name of the side in messages.
        bundle: Folder of the side's bundle; None for other sides.
    """

    model: OpenModel
    label: str
    plan: Plan
    runtime: Runtime
    bundle: Path | None = None


def _open(
    side: SideText,
    common: Plan,
    base_model: OpenModel | None,
    runtime: Runtime,
    scratch: Path,
    *,
    plain: bool,
) -> _OpenedText:
    """Open what a side's text names: a model, a revision in git, a bundle, or a plan for the base's model."""
    if side.text is None:
        if base_model is None:
            raise UsageError("no model was given", do="ortune compare A.onnx B.onnx")
        return _OpenedText(model=base_model, label=base_model.path.name, plan=common, runtime=runtime)
    path = Path(side.text)
    git = from_git.split(side.text)
    if git:
        model = open_model(from_git.checkout(*git, scratch / "git"), called=side.text)
        return _OpenedText(model=model, label=side.text, plan=common, runtime=runtime)
    if path.suffix == ".json":
        if base_model is None:
            raise UsageError(
                "A must be a model or a bundle, not a plan",
                where=side.text,
                do="ortune compare m.onnx plan.json",
            )
        plan = merge(common, read_plan(path))
        return _OpenedText(model=base_model, label=path.name, plan=plan, runtime=runtime)
    if bundle_format.is_bundle(path):
        return _open_bundle(path, side, common, runtime, plain=plain)
    return _OpenedText(model=open_model(path), label=path.name, plan=common, runtime=runtime)


def _open_bundle(path: Path, side: SideText, common: Plan, runtime: Runtime, *, plain: bool) -> _OpenedText:
    """Open a bundle: its plain model if that was requested, or if the tuned one does not fit this machine."""
    info, plan = bundle_format.read(path), common
    digests.require_intact(path, info.model, info.plain_model)
    if not plain:
        runtime = with_providers(info.plan, runtime, side.runtime, info.requirements)
    foreign = _misfit(info, runtime)
    name = info.plain_model or info.model if plain or foreign else info.model
    note = " (plain)" if plain else f" (plain: {foreign})" if foreign else ""
    model = open_model(path / name)
    if not plain:
        plan = merge(plan, _unbound(info) if foreign else bundle_plan(info))
    return _OpenedText(model=model, label=path.name + note, plan=plan, runtime=runtime, bundle=path)


def _rewritten(
    model: OpenModel, plan: Plan, *, folder: Path, tool: ToolProcess, option: str, say: Callable[[str], None]
) -> Path:
    """Return the path of the side's model after its rewrites, and report rewrites that change nothing.

    Args:
        model: The opened model.
        plan: The plan with the rewrites.
        folder: Folder of rewritten models.
        tool: Performs the steps that need ONNX Runtime.
        option: The option of the rewrites, for errors.
        say: Callback for messages.

    Raises:
        UsageError: No rewrite changes the model.
    """
    rewritten = rewrites.rewrite_model(model, plan.rewrites, folder, tool)
    unchanged = [
        (step.spec.name, *step.result.reasons[:1]) for step in rewritten.steps if not step.result.modified
    ]
    what = "; ".join(": ".join((f"{name} changes nothing", *reason)) for name, *reason in unchanged)
    if not rewritten.modified:
        # If measured, it would look like a rewrite without effect on the time.
        raise UsageError(what, where=option, do="omit it; ortune check names the rewrites that apply")
    if unchanged:
        say(what)
    return rewritten.path


def _require_uncalibrated(plan: Plan, path: Path) -> None:
    """Check that no rewrite runs the model, since its inputs are not known yet."""
    for spec in plan.rewrites:
        if rewrites.find(spec.name).calibrated:
            text = ",".join(f"{name}={value}" for name, value in spec.params.items())
            asked = f"{spec.name}:{text}" if text else spec.name
            write = shlex.join(["ortune", "rewrite", operand(str(path)), asked])
            raise UsageError(
                "is calibrated on inputs, so it cannot be applied while a model is opened",
                where=f"rewrite {asked}",
                do=f"write the model first with {write} --inputs PATH, and pass that file",
            )


def _require_holdable(model: OpenModel) -> None:
    """Check that a model fits in this machine's memory, before its weights are read."""
    # Each tensor counts, since several may share a range of a file.
    needed_bytes = model.facts.size_bytes + sum(tensor.length or 0 for tensor in model.external)
    most = memory_bytes()
    if needed_bytes > most > 0:
        gib = f"{needed_bytes / 2**30:,.0f} GiB of weights, and this machine has {most / 2**30:,.0f} GiB of memory"
        raise ModelError(
            f"The model has {gib}.",
            where=str(model.path),
            do="Use a machine with more memory, or quantize its weights.",
        )


def _on_target(plan: Plan, side: SideText, runtime: Runtime) -> Plan:
    """Return the plan for the target of the side, or else of the plan, or else of the runtime."""
    if side.target is not None:
        return msgspec.structs.replace(plan, providers=targets.find(side.target).providers)
    if runtime.node is not None and not plan.providers:
        return msgspec.structs.replace(plan, providers=targets.find(NODE.target).providers)
    if recipes(side.runtime or "") and of_target(side.runtime or "").target and not plan.providers:
        # "openvino" asks for OpenVINO, not for the CPU provider of a build that has it.
        return msgspec.structs.replace(plan, providers=targets.find(side.runtime or "").providers)
    return plan


def optimisation_part(plan: Plan) -> Plan:
    """Return the part of a plan that determines the optimised graph: the providers and their options."""
    settings = {k: v for k, v in plan.settings.items() if knobs.find(k).channel == "provider_option"}
    return Plan(settings=settings, providers=plan.providers)


def _misfit(info: BundleInfo, runtime: Runtime) -> str:
    """Return the reason that a hardware-bound model does not fit this machine or runtime; "" if it does."""
    if not info.hardware_bound:
        return ""
    if machine.other_hardware(tuned_on(info.host)):
        return "tuned on other hardware"
    return machine.other_build(info.ort_version, runtime.ort_version)


def _unbound(info: BundleInfo) -> Plan:
    """Return a hardware-bound bundle's plan for its plain model, without the rewrites and the settings for these."""
    plan = bundle_plan(info)
    kept = {name: value for name, value in plan.settings.items() if name not in info.model_settings}
    return msgspec.structs.replace(plan, rewrites=(), settings=kept)


def require_unchanged(*sides: ResolvedSide) -> None:
    """Raise MeasurementError if a model's file changed since it was opened, since trials then ran different models."""
    for side in sides:
        file = side.model.changed()
        if file is not None:
            raise MeasurementError(
                "no verdict: the file changed during the measurement",
                where=str(file),
                do="run again when no other program writes to it",
                code="model-changed",
            )
