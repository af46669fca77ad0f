"""Estimates of a finding's share of the run and of the gain of its fix, before anything is measured.

The gain is bounded by the share of the nodes that the fix changes, since the rest of the run stays. Measured gains of
the same fix are reported only for models of similar operators and size. They are stored in ``brought.json`` with the
composition of the models; ``tools/make_brought.py`` generates it from ``docs/results.md``.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec
import onnx_ir as ir

from ortune import rewrites
from ortune.graph.model.graphs import nodes, parameters
from ortune.records import Brought, Finding, ModelCost, ProfileResult
from ortune.rules._concerned import named_nodes, share_of_run, share_of_work

TABLE = Path(__file__).parent / "brought.json"

SHARE_MAY_BE = 3.0
"""Maximum ratio of a real fraction to its estimate, since small nodes cost more than their operations and bytes."""

ALIKE = 0.7
"""Minimum ratio of common operators to all operators for two models to count as similar."""
AS_LARGE = 1.5
"""Maximum ratio of the numbers of parameters for two models to count as similar."""
MOST_NODES = 5_000
"""Models with more nodes are not analysed, since finding the nodes that rewrites change would take too long."""


class ModelKind(msgspec.Struct, frozen=True, kw_only=True):
    """Composition of a model, by which similar models are found.

    Attributes:
        operators: Number of nodes, keyed by operator.
        parameters: Number of elements of all weights.
    """

    operators: dict[str, int]
    parameters: int


class MeasuredGains(msgspec.Struct, frozen=True, kw_only=True):
    """Measured gains of rewrites, the content of ``brought.json``.

    Attributes:
        rewrites: Measured gains, keyed by rewrite.
        models: Composition of the measured models, keyed by name.
    """

    rewrites: dict[str, list[Brought]] = {}
    models: dict[str, ModelKind] = {}


@functools.cache
def measured() -> MeasuredGains:
    """Return the table of measured gains in the package, which is read once and cached."""
    return msgspec.json.decode(TABLE.read_bytes(), type=MeasuredGains)


def kind_of(model: ir.Model) -> ModelKind:
    """Return the numbers of nodes per operator and of parameters of a model."""
    operators = Counter(node.op_type for node in nodes(model))
    return ModelKind(
        operators=dict(sorted(operators.items())), parameters=sum(tensor.size for tensor in parameters(model))
    )


def are_similar(one: ModelKind, other: ModelKind) -> bool:
    """Return whether two models are similar in operators and size."""
    a, b = Counter(one.operators), Counter(other.operators)
    sizes = sorted((one.parameters, other.parameters))
    # 60 Conv and 20 Add against 60 Conv and 30 Relu have 60 of 110 in common, 0.55: not similar.
    return (a & b).total() >= ALIKE * (a | b).total() and sizes[1] <= AS_LARGE * sizes[0]


def similar_gains(finding: Finding, kind: ModelKind) -> tuple[Brought, ...]:
    """Return the gains of a finding's fix on similar models, most certain first; empty unless the fix is one rewrite.

    Gains that exceed the bound for this model are excluded.
    """
    if finding.plan is None or len(finding.plan.rewrites) != 1 or finding.plan.settings:
        return ()
    table = measured()
    rows = table.rewrites.get(finding.plan.rewrites[0].name, ())
    least = finding.least_ratio or 0.0
    fitting = (row for row in rows if row.ratio >= least and are_similar(table.models[row.model], kind))
    return tuple(sorted(fitting, key=lambda row: (not row.proven, bool(row.others))))


def estimated(
    findings: Iterable[Finding], model: ir.Model, cost: ModelCost | ProfileResult
) -> tuple[Finding, ...]:
    """Return the findings with their fraction of the run, a bound on the gain, and gains measured on other models.

    Args:
        findings: Findings on the model; an existing fraction is kept.
        model: The model.
        cost: The model's operations and bytes by node, or a profiled run.
    """
    if sum(1 for _ in nodes(model)) > MOST_NODES:
        return tuple(findings)
    kind = kind_of(model)
    bounded = (_bounded(finding, model, cost) for finding in findings)
    return tuple(
        msgspec.structs.replace(finding, brought=similar_gains(finding, kind)) for finding in bounded
    )


def _bounded(finding: Finding, model: ir.Model, cost: ModelCost | ProfileResult) -> Finding:
    if finding.share_ratio is not None:
        return finding  # a rule's own share is that of the named nodes, not of all that the fix can change
    plan = finding.plan
    by_rewrites = plan is not None and bool(plan.rewrites) and not plan.settings
    changed = [rewrites.changed_nodes(model, spec) for spec in plan.rewrites] if plan and by_rewrites else []
    named, every = named_nodes(finding, model), {node for some in changed for node in some}
    concerned = _together(named, every) if named else [*every]
    rest = every.difference(concerned)  # nodes of another finding with the same fix
    if isinstance(cost, ProfileResult):
        shares = share_of_run(concerned, model, cost)
    else:
        share = share_of_work(concerned, model, cost)
        # An estimated share of 10 % may be 30 %, so at least 70 % of the run remain.
        shares = None if share is None else (share, min(1.0, SHARE_MAY_BE * share))
    if shares is None:
        return finding
    return msgspec.structs.replace(
        finding,
        share_ratio=shares[0],
        share_from="profile" if isinstance(cost, ProfileResult) else "cost",
        # A setting, or a rewrite by a tool, can speed up more than the named nodes.
        least_ratio=1 - shares[1] if changed and all(changed) and not rest and shares[1] < 1 else None,
    )


def _together(named: Sequence[ir.Node], changed: Collection[ir.Node]) -> list[ir.Node]:
    """Return the nodes that a finding names, and the changed nodes connected to them through changed nodes."""
    joined, waiting = dict.fromkeys(named), [*named]
    while waiting:
        node = waiting.pop()
        makers = [value.producer() for value in node.inputs if value is not None]
        readers = [use.node for value in node.outputs for use in value.uses()]
        for beside in (*makers, *readers):
            if beside is not None and beside in changed and beside not in joined:
                joined[beside] = None
                waiting.append(beside)
    return [*joined]
