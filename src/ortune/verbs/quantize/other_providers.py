"""Lower precision on other execution providers: their own number types, and models quantized for the CPU provider."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from ortune import rewrites, targets
from ortune.catalogue.knobs import lower_precisions, strict_settings, without_instructions
from ortune.engines.quantizing.quantizing import STATIC, is_of_other_tool, with_parameters
from ortune.records import Measured, Plan, Value
from ortune.search.phases import SENSITIVITY_SHARE
from ortune.verbs.quantize.precision import Precision, QuantizedModel, is_right
from ortune.verbs.quantize.result import PlannedTarget

FIRST = 2
"""Number of CPU methods tested before the other providers, and of their model files that each provider runs first."""
FLOAT16 = "float32-to-float16"
EMULATED = "its device is emulated by the CPU here"
MOST_MORE = 3
"""Number of further model files that each provider runs: the fastest within the tolerance on the CPU provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProvider:
    """An execution provider other than the side's, with the number type for layers that a model file keeps in float.

    Attributes:
        target: Name of the provider's target.
        settings: Settings for the lowest number type within the tolerance, else for the model's own type.
    """

    target: str
    settings: Mapping[str, Value]

    def plan(self, of: Plan) -> Plan:
        """Return a CPU plan changed to run on this provider."""
        return msgspec.structs.replace(
            of, providers=targets.find(self.target).providers, settings={**of.settings, **self.settings}
        )


class OtherProviders:
    """The other providers of one session.

    Args:
        precision: Creates, runs and compares models.
        names: Targets of the providers.
        absent: Maps requested targets that do not run here to the reason.

    Attributes:
        absent: The passed mapping, plus the targets whose device turned out to be emulated.
    """

    def __init__(self, precision: Precision, names: Sequence[str], absent: Mapping[str, str]) -> None:
        self._precision, self._names = precision, names
        self._providers: list[OtherProvider] = []
        self.absent = dict(absent)

    def floats(self) -> list[QuantizedModel]:
        """Test the float model in the number types of each provider and return the models that run.

        These models need no file, so they are tested early and may use a larger part of the time than other models.
        """
        found: list[QuantizedModel] = []
        for name in self._names:
            provider = self._chosen(name, found)
            if provider is not None:
                self._providers.append(provider)
        return found

    def first(self, files: Iterable[QuantizedModel]) -> list[QuantizedModel]:
        """Test the first model files on each provider with tested number types and return the models that run.

        Args:
            files: The models that run on the CPU provider.
        """
        first = sorted(files, key=lambda model: model.time_ns or math.inf)[:FIRST]
        static = next((model.plan for model in first if model.plan.rewrites[-1].name == STATIC), None)
        own = [
            provider.plan(file)
            for provider in self._providers
            if static is not None
            for file in _of_its_kind(static, provider.target)
        ]
        return [*self._whole_models(first), *self._precision.whole_models(own)]

    def more(self, models: Sequence[QuantizedModel], methods: Sequence[Plan]) -> list[QuantizedModel]:
        """Test further files on the other providers, from the fastest within the tolerance, and return those that run.

        Args:
            models: All models so far.
            methods: The plans for the CPU provider.
        """
        tested = {_file(model.plan) for model in models if model.plan.providers}
        tested |= {_file(row.plan) for row in self._precision.rows if row.plan.providers}
        right = [model for model in models if not model.plan.providers and is_right(model)]
        right.sort(key=lambda model: model.time_ns or 0.0)
        others = [
            provider.plan(plan)
            for provider in self._providers
            for plan in methods
            if is_of_other_tool(plan) and _file(plan) not in tested
        ]
        given = [model for model in right if _file(model.plan) not in tested][:MOST_MORE]
        known = {provider.plan(model.plan).id for model in given for provider in self._providers}
        return [
            *self._whole_models(given),
            *self._precision.whole_models([plan for plan in others if plan.id not in known]),
        ]

    def _chosen(self, name: str, found: list[QuantizedModel]) -> OtherProvider | None:
        """Test a provider's number types and return the provider with the type for layers that files keep in float.

        Models that run are appended to `found`. Returns None if no model runs or the device is emulated.
        """
        precision, target = self._precision, targets.find(name)
        settings = precision.baseline.side.plan.settings
        provider = target.provider.name
        strict = strict_settings(provider)
        features = precision.baseline.host.features
        types = _number_types(provider, features)
        for own in lower_precisions(provider):
            if lacking := without_instructions(own, features):
                plan = Plan(providers=target.providers, settings={**settings, **own})
                precision.refuse(plan, lacking)
        plans = [Plan(providers=target.providers, settings={**settings, **own}) for own in types]
        if targets.find(name).provider.hardware == "gpu" and self._is_emulated(plans[-1], name):
            return None
        ran = {model.plan.id: model for model in precision.whole_models(plans, SENSITIVITY_SHARE)}
        found += ran.values()
        if not ran:
            return None
        found += precision.whole_models(_in_float16(plans[-1], name))
        chosen = (own for plan, own in zip(plans, types, strict=True) if is_right(ran.get(plan.id)))
        return OtherProvider(target=name, settings=next(chosen, strict))

    def _is_emulated(self, plan: Plan, name: str) -> bool:
        """Return whether the CPU emulates the GPU, which makes times meaningless; if so, add the target to `absent`."""
        baseline = self._precision.baseline
        trial = baseline.executor.trial(baseline.arm(f"{name}, first run", plan=plan), runs=0)
        if not isinstance(trial, Measured) or not targets.target_of(plan).emulated(trial):
            return False
        self.absent[name] = EMULATED
        return True

    def _whole_models(self, files: Sequence[QuantizedModel]) -> list[QuantizedModel]:
        kept = {provider.plan(model.plan).id: model.kept for model in files for provider in self._providers}
        plans = [provider.plan(model.plan) for model in files for provider in self._providers]
        return [replace(model, kept=kept[model.plan.id]) for model in self._precision.whole_models(plans)]


def planned(
    absent: Mapping[str, str], files: Sequence[Plan], settings: Mapping[str, Value]
) -> tuple[PlannedTarget, ...]:
    """Return the plans for targets that do not run here, in the order in which ``OtherProviders`` would test them.

    Args:
        absent: Maps the targets to the reason that they do not run here.
        files: Plans of the CPU provider's methods, in the order in which they are tested.
        settings: Settings of the float model.
    """
    found = []
    for name, why in absent.items():
        target = targets.find(name)
        provider = target.provider.name
        # The instruction sets of the other machine are unknown, so all number types are planned.
        types = _number_types(provider, ())
        floats = [Plan(providers=target.providers, settings={**settings, **own}) for own in types]
        static = next((plan for plan in files if plan.rewrites[-1].name == STATIC), None)
        given = [*files[:FIRST], *(_of_its_kind(static, name) if static is not None else [])]
        last = OtherProvider(target=name, settings=types[-1])
        plans = [*floats, *_in_float16(floats[-1], name), *map(last.plan, given)]
        found.append(PlannedTarget(target=name, why=why, plans=tuple(plans)))
    return tuple(found)


def _number_types(provider: str, features: Collection[str]) -> list[dict[str, Value]]:
    """Return a provider's settings for each number type, exact last; {} means the provider's default."""
    strict = strict_settings(provider)
    lower = lower_precisions(provider, features)
    has_settings = bool(lower_precisions(provider))
    return [*lower, *([{}] if strict and not has_settings else []), strict]


def _in_float16(of: Plan, target: str) -> list[Plan]:
    """Return a list with the float model's plan in float16; [] if the rewrite does not apply to the target."""
    if target not in rewrites.find(FLOAT16).targets:
        return []
    return [msgspec.structs.replace(of, rewrites=(*of.rewrites, rewrites.parse(FLOAT16)))]


def _of_its_kind(static: Plan, target: str) -> list[Plan]:
    """Return plans of static quantization in the formats that the target's provider prefers; [] if it prefers none."""
    kinds = targets.find(target).provider.static_int8
    return [with_parameters(static, **rewrites.parse(f"{STATIC}:{params}").params) for params in kinds]


def shippable(plan: Plan, named: Collection[str]) -> bool:
    """Return whether a plan may win: it runs on the CPU provider or on a target that the user named."""
    return not plan.providers or targets.target_of(plan).name in named


def _file(plan: Plan) -> str:
    return Plan(rewrites=plan.rewrites).id
