"""Which means of fewer bits are worth trying on a model, each for the whole of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import onnx_ir as ir

from ortune import rewrites
from ortune.analysis.dot_products import saturates
from ortune.experiment.quantising import (
    DYNAMIC,
    STATIC,
    changed,
    may_saturate,
    unsaturated,
    widest_first,
)
from ortune.providers import CPU
from ortune.records import Host, Plan, RewriteSpec

_GROUND = ("initializers-out-of-inputs", "constant-folding:limit=1048576")
"""What makes constants of weights that a caller may feed, and of weights that are stored in other types."""


def means(model: ir.Model, side: Plan, host: Host) -> tuple[list[Plan], ir.Model]:
    """Each means for the whole model that is worth trying on the CPU, and the model that a quantizer then sees.

    Args:
        model: Is not changed.
        side: What the float model runs with.
        host: Where pairs of 8-bit products saturate, weights of 7 bits are tried too: they run alike everywhere.
    """
    ground: list[RewriteSpec] = []
    for text in _GROUND:
        spec, copy = rewrites.parse(text), model.clone()
        rewrites.find(spec.name).apply(copy, spec.params)
        # Only where it uncovers further weights: a rewrite without effect would stand in every plan.
        if _weights(copy) > _weights(model):
            model, ground = copy, [*ground, spec]
    proposed = [
        Plan(rewrites=(*ground, unsaturated(spec, model, host)), settings=side.settings)
        for spec, _ in rewrites.proposals(model, ("numerics",), objective="latency", target=CPU.target)
        if rewrites.find(spec.name).family == rewrites.FAMILY
    ]
    plans, kinds = list[Plan](), set[str]()
    for plan in _equalized(proposed, model):
        kind = plan.rewrites[-1].name
        plans += [plan] if kind in kinds else [plan, *_variants(plan, model, host)]
        kinds.add(kind)
    # What reaches most of the weights may gain most; of those that reach as many the quicker to make is first.
    # In quarters of the weights: a little more reach is no reason to make a slow means first.
    plans.sort(key=lambda plan: -round(4 * _reached(model, plan) / max(1, _weights(model))))
    return widest_first(plans), model


def _behind(plan: Plan, spec: RewriteSpec) -> Plan:
    """The plan with a rewrite before its last one."""
    return msgspec.structs.replace(plan, rewrites=(*plan.rewrites[:-1], spec, plan.rewrites[-1]))


def _equalized(plans: Sequence[Plan], model: ir.Model) -> list[Plan]:
    """Static means behind equalized channels where these change the model; the first of them without it too, last."""
    spec = rewrites.parse("cross-layer-equalization")
    if not rewrites.find(spec.name).apply(model.clone(), spec.params).modified:
        return list(plans)
    static = [plan for plan in plans if plan.rewrites[-1].name == STATIC]
    behind = {plan.id: _behind(plan, spec) for plan in static}
    return [*(behind.get(plan.id, plan) for plan in plans), *static[:1]]


def _variants(plan: Plan, model: ir.Model, host: Host) -> list[Plan]:
    """What may be right where a means of 8 bits as it is usually made is not, the likeliest first."""
    kind, plans = plan.rewrites[-1].name, list[Plan]()
    if kind not in (STATIC, DYNAMIC):
        return plans
    if saturates(host) and may_saturate(plan.rewrites[-1]):
        plans.append(changed(plan, range="7"))
    smooth = rewrites.parse("smooth-quant")
    refuses = rewrites.find(smooth.name).refuses
    if refuses is not None and not refuses(model):
        plans.append(_behind(plan, smooth))
    if kind == STATIC:
        plans.append(changed(plan, bias="corrected"))
    return plans


def _reached(model: ir.Model, plan: Plan) -> int:
    """Bytes of the weights that a means stores in fewer bits."""
    reach = {
        STATIC: rewrites.PRODUCTS,
        DYNAMIC: ("MatMul", "Gemm", *rewrites.RECURRENT),
        "weight-only-bits": ("MatMul",),
    }
    return rewrites.weight_bytes(model, *reach.get(plan.rewrites[-1].name, ()))


def _weights(model: ir.Model) -> int:
    return rewrites.weight_bytes(model, *rewrites.PRODUCTS, *rewrites.RECURRENT)
