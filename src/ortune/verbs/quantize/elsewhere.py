"""Fewer bits on other execution providers: their own number types, and the files of the CPU provider's methods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from ortune import rewrites, targets
from ortune.catalogue.knobs import lower_precisions, strict_settings
from ortune.engines.quantizing.quantizing import STATIC, changed
from ortune.records import Plan, Value
from ortune.verbs.quantize.precision import Model, Precision
from ortune.verbs.quantize.race import is_right

FIRST = 2
"""Methods of the CPU provider that are tested before another provider, and files that each of those is given first."""
MOST_MORE = 3
"""Files that another provider is given after these: the fastest ones that keep the tolerance on the CPU provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProvider:
    """An execution provider other than the side's own, as it computes what a file leaves in float.

    Attributes:
        target: Its target.
        settings: Of the number type: the fewest bits that keep the tolerance, else the model's own type.
    """

    target: str
    settings: Mapping[str, Value]

    def plan(self, of: Plan) -> Plan:
        """Return a plan of the CPU provider with this provider in its place."""
        return msgspec.structs.replace(
            of, providers=targets.find(self.target).providers, settings={**of.settings, **self.settings}
        )


class Elsewhere:
    """The other providers of one session.

    Args:
        precision: Makes, runs and compares models.
        names: Their targets.
    """

    def __init__(self, precision: Precision, names: Sequence[str]) -> None:
        self._precision, self._names = precision, names
        self._providers: list[OtherProvider] = []

    def models(self, files: Iterable[Model]) -> list[Model]:
        """Return the float model in each provider's own number types, and the first files there.

        Args:
            files: Models of the CPU provider that run.
        """
        found: list[Model] = []
        for name in self._names:
            provider = self._chosen(name, found)
            if provider is not None:
                self._providers.append(provider)
        first = list(files)[:FIRST]
        static = next((model.plan for model in first if model.plan.rewrites[-1].name == STATIC), None)
        own = [
            provider.plan(changed(static, **rewrites.parse(f"{STATIC}:{params}").params))
            for provider in self._providers
            for params in targets.find(provider.target).provider.static_int8
            if static is not None
        ]
        return [*found, *self._given(first), *self._precision.whole_models(own)]

    def more(self, models: Sequence[Model]) -> list[Model]:
        """Return what further files give: the fastest that keep the tolerance on the CPU provider."""
        tested = {_file(model.plan) for model in models if model.plan.providers}
        tested |= {_file(row.plan) for row in self._precision.rows if row.plan.providers}
        right = [model for model in models if not model.plan.providers and is_right(model)]
        right.sort(key=lambda model: model.time_ns or 0.0)
        return self._given([model for model in right if _file(model.plan) not in tested][:MOST_MORE])

    def _chosen(self, name: str, found: list[Model]) -> OtherProvider | None:
        """Test the number types of a provider, and return it with the one for what files leave in float.

        None if the model does not run there.
        """
        precision, target = self._precision, targets.find(name)
        settings = precision.baseline.side.plan.settings
        provider = target.provider.name
        strict = strict_settings(provider)
        types = [*lower_precisions(provider, precision.baseline.host.features), strict]
        plans = [Plan(providers=target.providers, settings={**settings, **own}) for own in types]
        ran = {model.plan.id: model for model in precision.whole_models(plans)}
        found += ran.values()
        if not ran:
            return None
        chosen = (own for plan, own in zip(plans, types, strict=True) if is_right(ran.get(plan.id)))
        return OtherProvider(target=name, settings=next(chosen, strict))

    def _given(self, files: Sequence[Model]) -> list[Model]:
        kept = {provider.plan(model.plan).id: model.kept for model in files for provider in self._providers}
        plans = [provider.plan(model.plan) for model in files for provider in self._providers]
        return [replace(model, kept=kept[model.plan.id]) for model in self._precision.whole_models(plans)]


def shippable(plan: Plan, named: Collection[str]) -> bool:
    """Return whether a plan may be the answer: it runs in the user's own runtime, or on a target that was named."""
    return not plan.providers or targets.of(plan).name in named


def _file(plan: Plan) -> str:
    return Plan(rewrites=plan.rewrites).id
