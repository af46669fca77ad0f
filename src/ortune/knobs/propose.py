"""The changes of one setting that tuning tries, best prior first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ortune import knobs
from ortune.knobs import priors
from ortune.knobs.facts import ModelFacts
from ortune.knobs.optimizers import worth_leaving_out
from ortune.records import Knob, Value

Objective = Literal["latency", "p95", "throughput", "cold-start", "memory", "cpu"]

FIRST = 0.15
"""From this prior on a change is tried before the time runs short."""

TINY = 40
"""Up to so many nodes a run can cost less than calling it."""

_BY_GROUP = {"first": 0.2, "late": 0.08, "never": 0.0}

# How likely a change pays, where that is more or less than its group says: by setting, or by setting and value.
_LATENCY: Mapping[str, float] = {
    "graph_optimization_level=basic": 0.4,
    "graph_optimization_level=extended": 0.35,
    "graph_optimization_level=layout": 0.1,
    "intra_op_num_threads": 0.35,
    "allocator": 0.3,
    "malloc_huge_pages": 0.25,
    "dq_matmulnbits_fusion": 0.4,
    "gelu_approximation": 0.3,
}
_PRIORS: Mapping[str, Mapping[str, float]] = {
    "latency": _LATENCY,
    "p95": {**_LATENCY, "dynamic_block_base": 0.4, "allow_spinning": 0.3},
    "throughput": {**_LATENCY, "intra_op_num_threads=1": 0.5, "allow_spinning": 0.3},
    "cpu": {
        **_LATENCY,
        "allow_spinning": 0.9,
        "intra_op_num_threads=1": 0.85,
        "spin_duration_us": 0.8,
        "force_spinning_stop": 0.6,
    },
    "memory": {
        "enable_cpu_mem_arena": 0.8,
        "arena_extend_strategy": 0.7,
        "disable_prepacking": 0.6,
        "device_allocator_for_initializers": 0.5,
        "enable_mem_pattern": 0.4,
        "memory_arena_shrinkage": 0.4,
        "constant_folding_max_bytes": 0.4,
        "allocator": 0.3,
        "disabled_optimizers=ConstantFolding": 0.3,
        "intra_op_num_threads=1": 0.3,
        "malloc_huge_pages": 0.01,
    },
    "cold-start": {
        "graph_optimization_level=basic": 0.7,
        "graph_optimization_level=disable": 0.6,
        "disable_prepacking": 0.6,
        "parallel_prepacking": 0.5,
        "constant_folding_max_bytes": 0.4,
        "graph_optimization_level=extended": 0.4,
        "disabled_optimizers=ConstantFolding": 0.3,
        "allocator": 0.2,
    },
}
_ONLY_LOADING = frozenset({"parallel_prepacking"})
"""Settings that change nothing once the session is there."""

_WITH_ALLOCATOR = 0.29
"""Prior of an allocator with ONNX Runtime's own arena off: every tensor then comes from the faster allocator. Just
below the allocator's own: what fails alone need not be tried together."""

_CHANGES: Mapping[str, str] = {
    "numerics": "changes the outputs within the tolerance",
    "behaviour": "changes how the process behaves",
    "advice": "needs your hands",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One change from the default.

    Attributes:
        settings: The change, with the settings that it needs.
        origin: Where it comes from, for people.
        group: "first", or "late" for what seldom pays.
        prior: How likely it is that the change pays, 0 to 1.
    """

    settings: dict[str, Value]
    origin: str
    group: Literal["first", "late"]
    prior: float


def proposals(
    facts: ModelFacts,
    cpus: int,
    ort_version: str,
    allocators: Collection[str],
    *,
    objective: Objective = "latency",
    allow: Collection[str] = (),
) -> tuple[list[Proposal], list[str]]:
    """What to try, one change at a time from the default.

    Args:
        facts: What the model holds.
        cpus: CPUs that the process really has.
        ort_version: The runtime that is measured.
        allocators: Memory allocators that can be preloaded here.
        objective: What is to become better.
        allow: Safety classes beside ``exact`` ("numerics", "behaviour") or single settings that may be proposed.

    Returns:
        Proposals, best prior first; and what is not proposed though it might help, each with the reason.
    """
    made, left_out = [], []
    for knob, text, by_kind in _candidates(facts, cpus, ort_version, objective):
        reason = refusal(knob, text, ort_version, allocators, allow)
        if reason:
            left_out.append(reason)
            continue
        needs = knobs.parse_settings(list(knob.needs))
        settings = {**needs, knob.name: knobs.parse_value(knob, text)}
        prior = priors.moved(by_kind, settings, cpus) if objective in ("latency", "throughput") else by_kind
        made.append(
            Proposal(
                settings=settings,
                origin=f"setting {knob.name}",
                group="first" if prior >= FIRST else "late",
                prior=prior,
            )
        )
    if objective != "cold-start":
        made += _without_arena(made)
    # The sort is stable: equals stay in the order of their names.
    return sorted(made, key=lambda p: -p.prior), list(dict.fromkeys(left_out))


def _without_arena(made: Sequence[Proposal]) -> list[Proposal]:
    """Each allocator that is proposed, with the arena off: the arena hides what a faster malloc could do."""
    return [
        Proposal(
            settings={**p.settings, "enable_cpu_mem_arena": False},
            origin="an allocator in the place of the arena",
            group="first",
            prior=_WITH_ALLOCATOR,
        )
        for p in made
        if "allocator" in p.settings
    ]


def _candidates(
    facts: ModelFacts, cpus: int, ort_version: str, objective: Objective
) -> Iterator[tuple[Knob, str, float]]:
    known = _PRIORS[objective]
    for knob in knobs.all_knobs().values():
        if knob.name in _ONLY_LOADING and objective != "cold-start":
            continue
        texts = knobs.values_for(knob, facts, ort_version)
        if knob.name == "graph_optimization_level" and objective == "cold-start":
            texts += ("disable",)
        for text in _filled(texts, cpus):
            by_default = _default_prior(knob, text, facts, ort_version, objective)
            prior = known.get(f"{knob.name}={text}", known.get(knob.name, by_default))
            if prior > 0:
                yield knob, text, prior


def _default_prior(knob: Knob, text: str, facts: ModelFacts, ort_version: str, objective: Objective) -> float:
    prior = _BY_GROUP[knob.group]
    if knob.name == "disabled_optimizers":
        prior = worth_leaving_out(facts, ort_version).get(text, prior)
    elif knob.name == "call_style" and facts.n_nodes <= TINY:
        prior = 0.3
    elif knob.name == "execution_mode" and facts.parallelism_ratio >= 2:
        prior = 0.2
    # What makes runs faster seldom makes loading faster or memory smaller.
    return prior / 2 if objective in ("cold-start", "memory") else prior


def _filled(texts: tuple[str, ...], cpus: int) -> list[str]:
    """The values with CPUs filled in; those that say the same twice, or make no sense here, dropped."""
    places = {"{cpus}": cpus, "{cpus/2}": cpus // 2, "{cpus-1}": cpus - 1}
    numbers = [str(places.get(text, text)) for text in texts]
    # One is a value of its own where it is worth trying; as half of two it would say nothing new.
    sensible = [n for n, text in zip(numbers, texts, strict=True) if text not in places or places[text] > 1]
    return list(dict.fromkeys(sensible))


def refusal(
    knob: Knob, text: str, ort_version: str, allocators: Collection[str], allow: Collection[str]
) -> str:
    """Why a change is not proposed, "" where it is; the arguments are those of ``proposals``."""
    too_old = knobs.too_old(knob, ort_version)
    if too_old:
        return too_old
    if knob.channel == "preload" and text not in allocators:
        return f"{knob.name}={text}: the library is not installed here"
    if knob.safety != "exact" and not {knob.safety, knob.name} & set(allow):
        return f"{knob.name}={text} {_CHANGES[knob.safety]}: --allow {knob.safety}"
    return ""
