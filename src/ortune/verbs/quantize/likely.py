"""Tests first the quantization methods that were best for an earlier model of the same structure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ortune.engines.quantizing.quantizing import with_parameters
from ortune.graph.fingerprints import digest
from ortune.records import Plan
from ortune.search.precision import ALIKE
from ortune.show import rewrite_words
from ortune.store import small_files
from ortune.verbs.quantize.precision import Precision, QuantizedModel, is_right

FOLDER = "methods"
"""Folder of the stored methods, one small file for each structure."""


class Methods(msgspec.Struct, frozen=True, kw_only=True):
    """Quantization methods by name; untested ones are in neither list.

    Attributes:
        best: Methods of the winner, and of correct models that were nearly as fast.
        worse: All other tested methods.
    """

    best: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()


class LikelyMethods:
    """The best and worse methods of earlier sessions, loaded from and saved to the store.

    Models have the same structure if they have the same kinds of layers; names, number and weights do not matter.
    Speed and error also depend on the processor, ONNX Runtime and the tolerance, so these must be equal. The earlier
    result only decides which methods are tested and in which order: all claims are from this session's measurements.
    """

    def __init__(self, precision: Precision) -> None:
        self._precision, side = precision, precision.baseline.side
        self._folder = precision.baseline.log.folder
        kinds = sorted({group.kind for group in precision.groups})
        about = (
            precision.baseline.host.fingerprint, side.runtime.build, precision.tolerance.text,
            repr(precision.limit), precision.baseline.comparer.metric,
        )  # fmt: skip
        self._key = digest(*about, *kinds)[:32]

    def split(self, plans: Sequence[Plan]) -> tuple[list[Plan], list[Plan]]:
        """Return the plans to test, the earlier best methods first, and separately the plans that were worse before."""
        known = self._precision.replay.once("likely-methods", Methods, self._load)
        if not any(_method(plan) in known.best for plan in plans):  # also if another version stored them
            return list(plans), []
        worse = [plan for plan in plans if _method(plan) in known.worse]
        wanted = [plan for plan in plans if plan not in worse]
        return sorted(wanted, key=lambda plan: _method(plan) not in known.best), worse

    def _load(self) -> Methods:
        stored = small_files.load(self._folder, FOLDER, self._key, Methods) if self._folder else None
        return stored or Methods()

    def keep(self, plans: Sequence[Plan], models: Sequence[QuantizedModel], winner: Plan) -> None:
        """Store the best methods of this session, and the methods that later sessions need not test.

        If the winner runs on another provider, the fastest model within the tolerance on the CPU provider counts too.

        Args:
            plans: Plans of all methods.
            models: The models of the tested plans; models on other providers are ignored.
            winner: Plan of the model that was confirmed to be faster.
        """
        models = [model for model in models if not model.plan.providers]
        right = [model for model in models if is_right(model) and model.time_ns is not None]
        times_ns = {model.plan.id: model.time_ns or 0.0 for model in right}
        if winner.providers and not right:
            return  # which of the methods is best on the CPU provider is unknown
        best_ns = min(times_ns.values()) if winner.providers else times_ns.get(winner.id, 0.0)
        near = [model.plan for model in right if (model.time_ns or 0.0) <= ALIKE * best_ns]
        best = {_method(plan) for plan in (winner, *near) if plan.rewrites}
        untested = {_method(plan) for plan in self._precision.untested}
        worse = {_method(plan) for plan in plans} - best - untested
        if self._folder:
            methods = Methods(best=tuple(sorted(best)), worse=tuple(sorted(worse)))
            small_files.keep(self._folder, FOLDER, self._key, methods)


def _method(plan: Plan) -> str:
    """Return the rewrites of a plan as text, without the names of the layers left in float."""
    return "; ".join(map(rewrite_words.spec, with_parameters(plan, leave="").rewrites))
