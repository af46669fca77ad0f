"""Proposes changes of one setting, best prior first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ortune.catalogue import knobs
from ortune.catalogue.computed.web_build import build_of, why_no_effect
from ortune.catalogue.facts import ModelFacts
from ortune.catalogue.knob import WEB, Knob, Together, prior_of
from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.catalogue.providers import CPU, find
from ortune.objectives import Objective
from ortune.records import Channel, Value
from ortune.search.proposals import priors

FIRST = 0.15
"""Minimum prior of a change for which trials are shortened as far as necessary to try the change."""

_HOST_OF_A_GPU = 0.3
"""Factor for the prior of a setting of host threads or memory if a GPU computes."""

_CHANGES: Mapping[str, str] = {
    "numerics": "changes outputs within the tolerance",
    "behaviour": "changes how the process behaves",
    "advice": "needs manual work",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingProposal:
    """One change from the default.

    Attributes:
        settings: The change, with the settings that it needs.
        origin: Source of the proposal, for users.
        prior: Probability that the change helps, 0 to 1.
    """

    settings: dict[str, Value]
    origin: str
    prior: float


def proposals(
    facts: ModelFacts,
    cpus: int,
    ort_version: str,
    allocators: Collection[str],
    *,
    objective: Objective = "latency",
    allow: Collection[str] = (),
    providers: Collection[str] = (),
    channels: Collection[Channel] = (),
    asked: Mapping[str, Value] | None = None,
    features: Collection[str] = (),
    latency_ns: float | None = None,
) -> tuple[list[SettingProposal], list[str]]:
    """Return the changes of one setting to try.

    Args:
        facts: Facts about the model.
        cpus: CPUs available to the process.
        ort_version: Version of the runtime under test.
        allocators: Memory allocators that can be preloaded on this machine.
        objective: Quantity to improve.
        allow: Safety classes other than ``exact`` ("numerics", "behaviour"), or names of single settings, that may be
            proposed.
        providers: Execution providers of the plan, empty for the CPU provider; settings of other providers are not
            proposed.
        channels: Channels by which settings reach the process; empty for all channels except those of a browser page.
        asked: Settings that every plan has.
        features: Instruction sets of the processor; empty if they are unknown.
        latency_ns: Latency with the default settings; None if unknown.

    Returns:
        Proposals, best prior first, and the reasons that other changes that might help are not proposed.
    """
    proposed: list[SettingProposal] = []
    left_out = []
    for knob, text, by_kind in _candidates(facts, cpus, ort_version, objective):
        if not _belongs(knob, text, providers, channels):
            continue
        reason = refusal(knob, text, ort_version, allocators, allow)
        if reason := reason or knobs.without_instructions({knob.name: text}, features):
            left_out.append(reason)
            continue
        idle = why_no_effect(knob, build_of(asked or {}, next(iter(providers), "")))
        # Else propose the setting with the build that reads it, unless the user chose a build.
        if idle and BUILD.name in (asked or {}):
            left_out.append(idle)
            continue
        needs = knobs.parse_settings([*knob.needs, *([f"{BUILD.name}={knob.builds[0]}"] if idle else [])])
        settings = {**needs, knob.name: knobs.parse_value(knob, text)}
        prior = by_kind * (_HOST_OF_A_GPU if _of_the_host(knob, providers) else 1.0)
        variants = [SettingProposal(settings=settings, origin=f"setting {knob.name}", prior=prior)]
        variants += _together(settings, knob.together, objective)
        # The table has run times, which do not apply to memory or loading.
        if objective in ("latency", "throughput"):
            moved = [
                priors.adjusted(variant.prior, variant.settings, cpus, latency_ns) for variant in variants
            ]
            variants = [replace(variant, prior=prior) for variant, prior in zip(variants, moved, strict=True)]
        proposed += variants
    # The sort is stable: equal priors stay in the order of their names.
    return sorted(proposed, key=lambda p: -p.prior), list(dict.fromkeys(left_out))


def _of_the_host(knob: Knob, providers: Collection[str]) -> bool:
    """Return whether a GPU computes and a setting only concerns the host's threads or memory."""
    on_gpu = any(find(name).hardware == "gpu" for name in providers)
    return on_gpu and not knob.provider and knob.channel != "call_style"


def _belongs(knob: Knob, text: str, providers: Collection[str], channels: Collection[Channel]) -> bool:
    """Return whether a setting can reach the process of a plan, and has an effect on its providers."""
    if knob.channel not in channels if channels else knob.channel in WEB:
        return False
    if knob.provider and knob.provider not in providers:
        return False
    return any(knob.runs_on(text, provider) for provider in providers or (CPU.name,))


def _together(
    settings: dict[str, Value], others: Sequence[Together], objective: Objective
) -> Iterator[SettingProposal]:
    """Yield the change combined with each further setting that is useful only together with it."""
    for other in others:
        prior = prior_of(other.priors, objective)
        if prior:
            both = {**settings, **knobs.parse_settings([other.setting])}
            yield SettingProposal(settings=both, origin=other.origin, prior=prior)


def _candidates(
    facts: ModelFacts, cpus: int, ort_version: str, objective: Objective
) -> Iterator[tuple[Knob, str, float]]:
    for knob in knobs.all_knobs().values():
        for text, by_model in _filled(knob.values(facts, ort_version), cpus).items():
            prior = knob.prior_for(objective, text, by_model)
            if prior > 0:
                yield knob, text, prior


def _filled(values: Mapping[str, float], cpus: int) -> dict[str, float]:
    """Return the priors by value, with numbers of CPUs filled in and placeholders below 2 removed."""
    places = {"{cpus}": cpus, "{cpus/2}": cpus // 2, "{cpus-1}": cpus - 1}
    # A value of one is listed literally if it is worth trying, so placeholders that become one are not
    # needed.
    return {str(places.get(text, text)): prior for text, prior in values.items() if places.get(text, 2) > 1}


def refusal(
    knob: Knob, text: str, ort_version: str, allocators: Collection[str], allow: Collection[str]
) -> str:
    """Return the reason that a change is not proposed; "" if it may be. The arguments are those of ``proposals``."""
    too_old = knobs.why_too_old(knob, ort_version)
    if too_old:
        return too_old
    if knob.channel == "preload" and text not in allocators:
        return f"{knob.name}={text}: the library is not installed here"
    safety = knob.safety_of(text)
    if safety != "exact" and not {safety, knob.name} & set(allow):
        return f"{knob.name}={text} {_CHANGES[safety]}: --allow {safety}"
    return ""
