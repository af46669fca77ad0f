"""Tries a few quantized models once each, and proposes the models with right outputs that are not slower."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import onnx_ir as ir

from ortune import rewrites, targets
from ortune.engines.quantizing.inputs import QuantizationInputs
from ortune.engines.quantizing.outputs import QuantizedOutputs
from ortune.engines.quantizing.precision_table import error_class
from ortune.engines.racing.tuning import Tuning
from ortune.graph.dot_products import saturates
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import holds
from ortune.measuring.limits import patience_s
from ortune.measuring.pilot import PILOT_RUNS
from ortune.records import (
    NO_TIME,
    Host,
    Measured,
    Plan,
    PrecisionRow,
    RewriteSpec,
    messages,
)
from ortune.rewrites import FAMILY
from ortune.search.figures import TIMES, figure
from ortune.search.phases import QUANTIZE_SHARE
from ortune.search.proposals.plans import PlanProposal

STATIC, DYNAMIC, WEIGHTS = "static-int8", "dynamic-int8", "weight-only-bits"
MOST_TRIED = 9
FIRST = 2  # models that are tried on the CPU provider before other providers run any
MOST_GIVEN = 2  # quantized models of the CPU provider that each other provider runs too
MOST_LEFT_OUT = 3  # operators named by errors that are excluded, one after another
PRIOR_FASTER, FASTER = 0.95, 0.9  # plans whose ratio was below FASTER are raced first
SILENT = "outputs are nearly zero for these inputs, so the error is unknown (pass real inputs with --data)"
NOT_SLOWER = 1.05  # a single observation above this ratio rejects a model


def may_saturate(spec: RewriteSpec) -> bool:
    """Return whether a rewrite creates int8 weights of full range, with which 16-bit sums can saturate."""
    if spec.name not in (STATIC, DYNAMIC):
        return False
    return spec.params.get("range") != "7" and spec.params.get("weights") != "u8"


def unsaturated(spec: RewriteSpec, model: ir.Model, host: Host) -> RewriteSpec:
    """Return the rewrite, with 7-bit weights if an LSTM with 8-bit weights would be wrong on this processor."""
    exact = not saturates(host) or not may_saturate(spec)
    if spec.name != DYNAMIC or exact or not holds(model, *rewrites.RECURRENT):
        return spec
    return rewrites.canonical(RewriteSpec(name=spec.name, params={**spec.params, "range": "7"}))


def is_quantising(plan: Plan) -> bool:
    """Return whether a plan runs a quantized model."""
    return any(rewrites.find(spec.name).family == FAMILY for spec in plan.rewrites)


class Quantising:
    """Creates and tries the quantized models of one tuning."""

    def __init__(self, run: Tuning, inputs: QuantizationInputs) -> None:
        self._run, self._inputs = run, inputs
        # A share of the time left now, by journalled times, so a resumed session decides the same.
        self._budget, self._began_s = run.whole_budget.share(QUANTIZE_SHARE), run.whole_budget.spent_s
        self._outputs = QuantizedOutputs(run.baseline, run.replay, inputs.checking, source=run.models.source)
        self._seen: set[str] = set()
        self.rows: list[PrecisionRow] = []

    def chosen(self, proposed: Sequence[PlanProposal], bases: Sequence[Plan] = ()) -> list[PlanProposal]:
        """Return the plans to race: the quantized plans with right outputs that are not slower, and all other plans.

        Args:
            proposed: The plans, of which those that quantize are tried first.
            bases: Plans of other execution providers, which are also tried with the fastest quantized models.
        """
        waiting = _proposed_widest_first([p for p in proposed if is_quantising(p.plan)])
        if waiting:
            self._run.watch.tell(messages.TestingModels(n_models=len(waiting)))
        raced: list[PlanProposal] = []
        while waiting and len(own := self._own_rows) < MOST_TRIED:
            if len(own) == FIRST:
                raced += self._on_other_providers(bases)
            proposal = waiting.pop(0)
            if proposal.plan.id in self._seen:
                continue
            self._seen.add(proposal.plan.id)
            if self.rows and self._budget.left_ns < 0:
                self._add(proposal.plan)
                continue
            row, again = self._tried(proposal.plan)
            self.rows.append(row)
            more = [PlanProposal(plan=plan, origin=why, prior=proposal.prior) for plan, why in again]
            # Models that failed to run are retried at once; more accurate variants wait for untried models.
            waiting = [*waiting, *more] if row.outputs is not None else [*more, *waiting]
            if not row.why:
                prior = PRIOR_FASTER if (row.ratio or 1.0) < FASTER else proposal.prior
                raced.append(PlanProposal(plan=proposal.plan, origin=proposal.origin, prior=prior))
        raced += self._on_other_providers(bases)
        self._suggest_budget()
        others = [p for p in proposed if not is_quantising(p.plan)]
        return sorted([*others, *raced], key=lambda p: -p.prior)

    @property
    def _own_rows(self) -> list[PrecisionRow]:
        return [row for row in self.rows if not row.plan.providers]

    def _on_other_providers(self, bases: Sequence[Plan]) -> list[PlanProposal]:
        """Return the plans that run a quantized model on another provider with right outputs and not slower.

        Called again, it tries only the models that are new since.

        Args:
            bases: One plan of each provider, without a quantized model.
        """
        return [proposal for base in bases for proposal in self._on(base)]

    def _on(self, base: Plan) -> list[PlanProposal]:
        own = self._own_rows
        # A file may suit the provider better than the CPU, so those that are slower there are given too.
        right = [row for row in own if row.outputs is not None and row.outputs.ok]
        right.sort(key=lambda row: row.ratio or 1.0)
        files = [row.plan for row in right[:MOST_GIVEN]]
        static = next((row.plan for row in own if row.plan.rewrites[-1].name == STATIC), None)
        for params in targets.target_of(base).provider.static_int8 if static is not None else ():
            assert static is not None
            files.append(with_parameters(static, **rewrites.parse(f"{STATIC}:{params}").params))
        files += [row.plan for row in right[MOST_GIVEN:] if is_of_other_tool(row.plan)]
        kept: list[PlanProposal] = []
        for file in files:
            plan = msgspec.structs.replace(
                file, providers=base.providers, settings={**file.settings, **base.settings}
            )
            if plan.id in self._seen:
                continue
            self._seen.add(plan.id)
            if self._budget.left_ns < 0:
                self._add(plan)
                continue
            row, _ = self._tried(plan)
            self.rows.append(row)
            if not row.why:
                kept.append(PlanProposal(plan=plan, origin=base.describe(), prior=PRIOR_FASTER))
        return kept

    def _add(self, plan: Plan) -> None:
        """Add a row for a plan whose model was not tried for lack of time."""
        self.rows.append(PrecisionRow(plan=plan, within_ratio=None, why=NO_TIME, tested=False))

    def _suggest_budget(self) -> None:
        """Set the budget to suggest to one that is enough for all models, if there was no time for some."""
        run, n_tested = self._run, sum(row.tested for row in self.rows)
        if n_tested and n_tested < len(self.rows):
            each_s = (run.whole_budget.spent_s - self._began_s) / n_tested
            needed_s = self._began_s + len(self.rows) * each_s / QUANTIZE_SHARE
            run.checks_s = max(run.checks_s, run.whole_budget.enough_s(needed_s))

    def _tried(self, plan: Plan) -> tuple[PrecisionRow, list[tuple[Plan, str]]]:
        """Create and run the model of one plan; return its row, and plans to try instead, each with its origin."""
        baseline, name = self._run.baseline, f"bits-{plan.id}"
        left_s = self._budget.left_s
        model, failed = self._run.plan_runs.model_of(
            plan, max(left_s, patience_s(baseline.pilot.trial_ns, 0))
        )
        self._run.record_other_work()
        if model is None:
            return PrecisionRow(plan=plan, within_ratio=None, why=failed), self._without(plan, failed)
        size = model_bytes(model)
        arm = baseline.arm(name, plan=plan, model=model)
        outcome = baseline.executor.trial(arm, runs=PILOT_RUNS)
        if not isinstance(outcome, Measured):
            row = PrecisionRow(plan=plan, within_ratio=None, size_bytes=size, why=outcome.what)
            return row, self._without(plan, outcome.what)
        difference = self._outputs.difference(
            plan, lambda: (model, failed), self._run.plan_runs.tolerance_of(plan)
        )
        ratio = _ratio(baseline.pilot.first, outcome)
        row = PrecisionRow(
            plan=plan,
            within_ratio=error_class(difference),
            calibrated=rewrites.find(plan.rewrites[-1].name).calibrated,
            ratio=ratio,
            size_bytes=size,
            outputs=difference,
        )
        if not difference.ok:
            return msgspec.structs.replace(row, why=difference.what), self._nearer(plan)
        if difference.unjudged:
            # A detector returns nothing for noise, and so does a broken one.
            return msgspec.structs.replace(row, within_ratio=None, why=SILENT), []
        if self._run.search.race.objective in TIMES and ratio is not None and ratio > NOT_SLOWER:
            why = f"slower than the default in the first screening ({1 / ratio:.2g}x)"
            return msgspec.structs.replace(row, why=why), []
        return row, []

    def _without(self, plan: Plan, said: str) -> list[tuple[Plan, str]]:
        """Return the plan, with its origin, that leaves the operator named by an error in float; [] without a name."""
        spec = plan.rewrites[-1]
        left = left_in_float(spec)
        kind = named_operator(self._run.side.model.ir, said, left)
        if not kind:
            return []
        again = without_operator(plan, kind)
        return [(again, f"without {kind}, which an error message named")] if again is not None else []

    def _nearer(self, plan: Plan) -> list[tuple[Plan, str]]:
        """Return a more accurate variant of a plan, with its origin; [] if there is none left.

        The first variant leaves the first and last MatMul, Gemm or Conv in float; the second calibrates by
        percentile.
        """
        spec = plan.rewrites[-1]
        if "ends" not in left_in_float(spec):
            return [
                (
                    with_parameters(plan, leave="+".join([*left_in_float(spec), "ends"])),
                    "without the first and last MatMul, Gemm or Conv",
                )
            ]
        if spec.name == STATIC and "calibration" not in spec.params:
            return [(with_parameters(plan, calibration="percentile"), "ranges without outliers (percentile)")]
        return []


def named_operator(model: ir.Model, said: str, but: Sequence[str] = ()) -> str:
    """Return the type of the first operator that an error names, by type or node name; "" if it names none."""
    kinds = {node.op_type for node in nodes(model)} - set(but)
    by_name = {node.name: node.op_type for node in nodes(model) if node.name and node.op_type in kinds}
    for word in re.findall(r"[^\s'\"(),:]+", said):
        if word in kinds or word in by_name:
            return word if word in kinds else by_name[word]
        # The names of unnamed nodes and of inserted quantizers begin with the type.
        for kind in sorted(kinds, key=len, reverse=True):
            if word.startswith(f"{kind}_"):
                return kind
    return ""


def without_operator(plan: Plan, kind: str) -> Plan | None:
    """Return the plan with one more operator type left in float; None at the maximum number of such types."""
    left = left_in_float(plan.rewrites[-1])
    return with_parameters(plan, leave="+".join([*left, kind])) if len(left) < MOST_LEFT_OUT else None


def widest_first(plans: Sequence[Plan]) -> list[Plan]:
    """Return the plans in rounds of one per rewrite, so that every rewrite is tried even if the budget ends early.

    Quantizers of other packages take longer than ONNX Runtime's, and come last in their round.
    """
    counts: dict[str, int] = {}
    places = []
    for plan in plans:
        name = plan.rewrites[-1].name
        counts[name] = counts.get(name, 0) + 1
        places.append((counts[name], is_of_other_tool(plan)))
    return [plan for _, plan in sorted(zip(places, plans, strict=True), key=lambda pair: pair[0])]


def is_of_other_tool(plan: Plan) -> bool:
    """Return whether a plan's model is created by a quantizer of another package."""
    return any(rewrites.find(spec.name).needs for spec in plan.rewrites[-1:])


def _proposed_widest_first(proposed: Sequence[PlanProposal]) -> list[PlanProposal]:
    order = {plan.id: place for place, plan in enumerate(widest_first([p.plan for p in proposed]))}
    return sorted(proposed, key=lambda proposal: order[proposal.plan.id])


def left_in_float(spec: RewriteSpec) -> list[str]:
    """Return the parts that a rewrite leaves in float: operator types, layers, or "ends" (first and last layer)."""
    return [word for word in spec.params.get("leave", "").split("+") if word]


def with_parameters(plan: Plan, **params: str) -> Plan:
    """Return the plan with changed parameters of its last rewrite."""
    spec = plan.rewrites[-1]
    other = RewriteSpec(name=spec.name, params=rewrites.find(spec.name).canonical({**spec.params, **params}))
    return msgspec.structs.replace(plan, rewrites=(*plan.rewrites[:-1], other))


def _ratio(base: Measured, trial: Measured) -> float | None:
    before, after = figure(base, "median"), figure(trial, "median")
    return after / before if before and after else None


def model_bytes(model: Path) -> int:
    """Return the bytes of a model's file and external data, which must be alone in their folder."""
    return sum(f.stat().st_size for f in model.parent.iterdir() if f.suffix != ".json")
