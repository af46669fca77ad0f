"""How much a finding is about, and what its fix can win: what can be said before anything is measured.

The share of the nodes that the fix changes bounds it: what is left of the run stays as it is. What the same fix was
measured to bring is told of models alike in kind and size alone. ``brought.json`` holds that, and what these models
are made of; ``tools/make_brought.py`` makes it of ``docs/results.md``.
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
"""How many times its estimated share a part may really take: small nodes cost more than their operations and bytes."""

ALIKE = 0.7
"""Operators that two models of one kind have in common, of all that either has."""
AS_LARGE = 1.5
"""How many times as many parameters the larger of two models of one size has at most."""
MOST_NODES = 5_000
"""Of a larger model it is not worked out which nodes a rewrite changes."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is made of.

    Attributes:
        operators: How many nodes there are of each.
        parameters: Numbers among the weights.
    """

    operators: dict[str, int]
    parameters: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The table.

    Attributes:
        rewrites: What a rewrite brought, by its name.
        models: What the real models are made of, by their names.
    """

    rewrites: dict[str, list[Brought]] = {}
    models: dict[str, Kind] = {}


@functools.cache
def measured() -> Measured:
    """Return the table as it is in the package."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Measured)


def kind_of(model: ir.Model) -> Kind:
    """Return what a model is made of."""
    operators = Counter(node.op_type for node in nodes(model))
    return Kind(
        operators=dict(sorted(operators.items())), parameters=sum(tensor.size for tensor in parameters(model))
    )


def alike(one: Kind, other: Kind) -> bool:
    """Return whether two models are alike in kind and size."""
    a, b = Counter(one.operators), Counter(other.operators)
    sizes = sorted((one.parameters, other.parameters))
    # 60 Conv and 20 Add beside 60 Conv and 30 Relu have 60 of 110 in common, 0.55: of another kind.
    return (a & b).total() >= ALIKE * (a | b).total() and sizes[1] <= AS_LARGE * sizes[0]


def brought(finding: Finding, kind: Kind) -> tuple[Brought, ...]:
    """Return what the finding's fix brought on models alike, the surest first; nothing if it is no rewrite.

    Left out is what this model cannot gain, because the part that the fix changes is too small a share of it.
    """
    if finding.plan is None or len(finding.plan.rewrites) != 1 or finding.plan.settings:
        return ()
    table = measured()
    rows = table.rewrites.get(finding.plan.rewrites[0].name, ())
    least = finding.least_ratio or 0.0
    fitting = (row for row in rows if row.ratio >= least and alike(table.models[row.model], kind))
    return tuple(sorted(fitting, key=lambda row: (not row.proven, bool(row.others))))


def estimated(
    findings: Iterable[Finding], model: ir.Model, cost: ModelCost | ProfileResult
) -> tuple[Finding, ...]:
    """The findings with the share of the run that they are about, what bounds their fix, and what it brought elsewhere.

    Args:
        findings: Those that have a share already keep it.
        model: What they are about.
        cost: Of the model: its operations and bytes node by node, or a profiled run.
    """
    if sum(1 for _ in nodes(model)) > MOST_NODES:
        return tuple(findings)
    kind = kind_of(model)
    bounded = (_bounded(finding, model, cost) for finding in findings)
    return tuple(msgspec.structs.replace(finding, brought=brought(finding, kind)) for finding in bounded)


def _bounded(finding: Finding, model: ir.Model, cost: ModelCost | ProfileResult) -> Finding:
    if finding.share_ratio is not None:
        return (
            finding  # a rule's own share is that of what it is about, and not of all that its fix can change
        )
    plan = finding.plan
    by_rewrites = plan is not None and bool(plan.rewrites) and not plan.settings
    changed = [rewrites.changed_nodes(model, spec) for spec in plan.rewrites] if plan and by_rewrites else []
    named, every = named_nodes(finding, model), {node for some in changed for node in some}
    concerned = _together(named, every) if named else [*every]
    rest = every.difference(concerned)  # what another finding is about, which has the same fix
    if isinstance(cost, ProfileResult):
        shares = share_of_run(concerned, model, cost)
    else:
        share = share_of_work(concerned, model, cost)
        # Of an estimated 10 % the real share may be 30 %, so the fix can leave no less than 70 % of the run.
        shares = None if share is None else (share, min(1.0, SHARE_MAY_BE * share))
    if shares is None:
        return finding
    return msgspec.structs.replace(
        finding,
        share_ratio=shares[0],
        share_from="profile" if isinstance(cost, ProfileResult) else "cost",
        # A setting, or a rewrite by a tool, can make more faster than what is named.
        least_ratio=1 - shares[1] if changed and all(changed) and not rest and shares[1] < 1 else None,
    )


def _together(named: Sequence[ir.Node], changed: Collection[ir.Node]) -> list[ir.Node]:
    """Return the nodes that a finding names, and those of the changed ones that lie beside them, one beside another."""
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
