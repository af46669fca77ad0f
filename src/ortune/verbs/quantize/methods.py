"""Quantization methods that are worth testing on a model, each applied to the whole model."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import onnx_ir as ir

from ortune import rewrites
from ortune.catalogue.providers import CPU
from ortune.engines.quantizing.quantizing import (
    DYNAMIC,
    STATIC,
    WEIGHTS,
    is_of_other_tool,
    may_saturate,
    unsaturated,
    widest_first,
    with_parameters,
)
from ortune.graph.dot_products import saturates
from ortune.graph.nodes import holds
from ortune.records import Host, Plan, RewriteSpec

_GROUND = ("initializers-out-of-inputs", "constant-folding:limit=1048576")
"""Rewrites that turn weights that are graph inputs, or that are stored in other types, into constants."""
LONG_BLOCK = "128"
"""Block size (weights per scale) that is tested in addition to the usual block sizes."""


def methods_worth_testing(
    model: ir.Model, side: Plan, host: Host, packages: Collection[str] = ()
) -> tuple[list[Plan], ir.Model]:
    """Return a plan for each method worth testing on the CPU, and the model after preparation for the quantizer.

    Methods that may differ in speed come first: one of each kind, then the second of each kind. Variants with a
    smaller error at the same speed follow. ONNX Runtime's standard configurations are always included.

    Args:
        model: The float model; not changed.
        side: Plan of the float model.
        packages: Installed packages of other quantizers.
        host: The machine. If pairs of 8-bit products saturate on it, 7-bit weights are tested first.
    """
    ground: list[RewriteSpec] = []
    for text in _GROUND:
        spec, copy = rewrites.parse(text), model.clone()
        rewrites.find(spec.name).apply(copy, spec.params)
        # Only if it uncovers further weights: otherwise a rewrite without effect would be part of every plan.
        if _weights(copy) > _weights(model):
            model, ground = copy, [*ground, spec]
    proposed = [
        Plan(rewrites=(*ground, spec), settings=side.settings)
        for spec, _ in rewrites.proposals(
            model, ("numerics",), objective="latency", target=CPU.target, packages=packages
        )
        if rewrites.find(spec.name).family == rewrites.FAMILY
    ]
    # Methods that quantize most of the weights may gain most; ties keep the order of the proposals.
    proposed.sort(key=lambda plan: -round(4 * _reached(model, plan) / max(1, _weights(model))))
    # Other quantizers take longer than ONNX Runtime's, so they come after one method of each kind.
    others = [plan for plan in proposed if is_of_other_tool(plan)]
    proposed = [plan for plan in proposed if plan not in others]
    forms = _forms(proposed, model, host)
    singles = [
        _with_last_rewrite(plan, unsaturated(plan.rewrites[-1], model, host)) for plan in _singles(proposed)
    ]
    products = [form for form in forms if form.rewrites[-1].params.get("operators") == "products"]
    of_weights = [form for form in forms if form.rewrites[-1].name == WEIGHTS]
    varied = [*_first_of_each(forms), *products[:1], *of_weights[1:]]
    variants = [plan for form in varied for plan in _variants(form, model, host)]
    plans = [*widest_first(forms), *singles[:1], *others, *widest_first(variants), *singles[1:]]
    return list({plan.id: plan for plan in plans}.values()), model


def _forms(proposed: Sequence[Plan], model: ir.Model, host: Host) -> list[Plan]:
    """Return the plans that may differ in speed, with 7-bit weights if 8-bit sums may saturate on this processor."""
    forms = _equalized(proposed, model)
    if host.machine.lower() in ("x86_64", "amd64"):
        # Kernels convert signed activations to unsigned there, which is slower: they are only tested as singles, last.
        forms = [plan for plan in forms if plan.rewrites[-1].params.get("activations") != "s8"]
    if not saturates(host):
        return forms
    return [with_parameters(plan, range="7") if may_saturate(plan.rewrites[-1]) else plan for plan in forms]


def _singles(proposed: Sequence[Plan]) -> list[Plan]:
    """Return plans with the standard settings of ONNX Runtime's quantizers, the one with per-tensor scales first."""
    static = [plan for plan in proposed if plan.rewrites[-1].name == STATIC]
    return [*(with_parameters(plan, scales="tensor") for plan in static[:1]), *proposed]


def _first_of_each(plans: Sequence[Plan]) -> list[Plan]:
    """Return the first plan of each kind of method."""
    first: dict[str, Plan] = {}
    for plan in plans:
        first.setdefault(plan.rewrites[-1].name, plan)
    return list(first.values())


def _with_last_rewrite(plan: Plan, spec: RewriteSpec) -> Plan:
    """Return the plan with its last rewrite replaced."""
    return msgspec.structs.replace(plan, rewrites=(*plan.rewrites[:-1], spec))


def _with_earlier_rewrite(plan: Plan, spec: RewriteSpec) -> Plan:
    """Return the plan with a rewrite inserted before its last rewrite."""
    return msgspec.structs.replace(plan, rewrites=(*plan.rewrites[:-1], spec, plan.rewrites[-1]))


def _equalized(plans: Sequence[Plan], model: ir.Model) -> list[Plan]:
    """Return the plans with cross-layer equalization before static quantization, if equalization changes the model."""
    spec = rewrites.parse("cross-layer-equalization")
    if not rewrites.find(spec.name).apply(model.clone(), spec.params).modified:
        return list(plans)
    return [_with_earlier_rewrite(plan, spec) if plan.rewrites[-1].name == STATIC else plan for plan in plans]


def _variants(plan: Plan, model: ir.Model, host: Host) -> list[Plan]:
    """Return variants of a method with a smaller error at similar speed.

    The variants of weight-only quantization have other block sizes or compute in float32.
    """
    kind, plans = plan.rewrites[-1].name, list[Plan]()
    if kind == WEIGHTS:
        # Products in float32 are more exact but slower with many rows; longer blocks have fewer scales to read.
        return [with_parameters(plan, products="float32"), with_parameters(plan, block=LONG_BLOCK)]
    if kind not in (STATIC, DYNAMIC):
        return plans
    if kind == DYNAMIC and saturates(host) and not holds(model, *rewrites.RECURRENT):
        plans.append(with_parameters(plan, range="8", weights="u8"))
    smooth = rewrites.parse("smooth-quant")
    refuses = rewrites.find(smooth.name).refuses
    if refuses is not None and not refuses(model):
        plans.append(_with_earlier_rewrite(plan, smooth))
    if kind == STATIC:
        plans.append(with_parameters(plan, bias="corrected"))
        if plan.rewrites[-1].params.get("operators") == "products":
            # Ranges without outliers reduced the error of a file classifier from 70 % to 25 % when only products were
            # quantized. With all operators in 8 bits, they increased the error of two of three models.
            plans.append(with_parameters(plan, calibration="percentile"))
    return plans


def _reached(model: ir.Model, plan: Plan) -> int:
    """Return the number of weight bytes that a method quantizes."""
    reach = {
        STATIC: rewrites.PRODUCTS,
        DYNAMIC: ("MatMul", "Gemm", *rewrites.RECURRENT),
        WEIGHTS: ("MatMul",),
    }
    return rewrites.weight_bytes(model, *reach.get(plan.rewrites[-1].name, ()))


def _weights(model: ir.Model) -> int:
    return rewrites.weight_bytes(model, *rewrites.PRODUCTS, *rewrites.RECURRENT)
