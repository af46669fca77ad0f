"""Pairs of QuantizeLinear and DequantizeLinear around a product, and the reasons that they are not fused with it.

The behaviour of ONNX Runtime was observed in graphs optimized by version 1.32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.graph.constants import constant
from ortune.graph.limits import limits
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import is_op, maker_of, only_user, with_operator
from ortune.records import Finding, Host
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

PASSED = op_set("Cast Dropout Expand Identity MaxPool Reshape Slice Squeeze Transpose Unsqueeze")
"""Operators across which ONNX Runtime moves QuantizeLinear up and DequantizeLinear down. Cast and Expand are moved only
if they change nothing, which is not checked here."""
_SIGNED = "int8 and read by several nodes"
_PASSED_DOWN = PASSED | op_set("Pad")


def in_float(
    code: str, facts: Facts, operators: tuple[str, ...], island: Callable[[ir.Node, Host | None], str]
) -> Iterator[Finding]:
    """Yield a finding on products between quantized values that compute in float, if the target is the CPU.

    Args:
        code: Code of the rule.
        facts: Facts with the model.
        operators: Operators that the rule covers.
        island: Function that returns why a product computes in float; "" if it does not, or is not between quantized
            values.
    """
    if facts.model is None or facts.target != CPU.target:
        return
    products = with_operator(facts.model.ir, *operators)
    why = {node: why for node in products if (why := island(node, facts.host))}
    if why:
        yield Finding(
            code=code,
            what=f"{subject([*why], 'runs', 'run')} in float32 between quantized values",
            where=tuple(map(name_of, why)),
            evidence="; ".join(dict.fromkeys(why.values())),
            fix=remedy(why.values()),
        )


def dequantized(value: ir.Value | None) -> bool:
    """Return whether a DequantizeLinear computes a value."""
    return is_op(maker_of(value), "DequantizeLinear")


def dequantizer(value: ir.Value | None) -> ir.Node | None:
    """Return the DequantizeLinear that ONNX Runtime moves down to the reader of a value; None if there is none."""
    while (maker := maker_of(value)) is not None and is_op(maker, *_PASSED_DOWN):
        value = maker.inputs[0]
    return maker if is_op(maker, "DequantizeLinear") else None


def output_quantizer(node: ir.Node) -> tuple[ir.Node | None, str]:
    """Return (QuantizeLinear after a product or None, why the two do not fuse or "")."""
    value = node.outputs[0]
    user = only_user(value)
    activation = user if user is not None and is_op(user, "Relu", "Clip") else None
    if activation is not None:
        value = activation.outputs[0]
        user = only_user(value)
    while user is not None and is_op(user, *PASSED) and user.inputs[0] is value:
        value = user.outputs[0]
        user = only_user(value)
    if user is None:
        return (
            None,
            "its output is a graph output" if value.is_graph_output() else "several nodes read its output",
        )
    if not is_op(user, "QuantizeLinear"):
        return None, f"{user.op_type} follows instead of QuantizeLinear"
    return user, _why_not_folded(activation, user) if activation is not None else ""


def why_input_open(value: ir.Value | None) -> str:
    """Return a clause that says why a product's input does not come from a DequantizeLinear; "" if it does."""
    if dequantizer(value) is not None:
        return ""
    first = maker_of(value)
    source = "it is a graph input" if first is None else f"{first.op_type} produces it"
    return f"its input is not quantized: {source}"


def signed(node: ir.Node, quantize: ir.Node, host: Host | None) -> str:
    """Return a clause on int8 values around a product that several nodes read; "" if they do not prevent fusion.

    On x86, ONNX Runtime converts int8 values to uint8, except values with several readers, and fuses only pairs of
    equal type.
    """
    if host is None or host.machine.lower() not in ("x86_64", "amd64"):
        return ""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    before = source.inputs[0].producer() if source is not None and source.inputs[0] is not None else None
    sides = {"input": before, "output": quantize}
    signed_sides = [name for name, node in sides.items() if node is not None and _stays_signed(node)]
    verb = "are" if len(signed_sides) > 1 else "is"
    return f"its {' and '.join(signed_sides)} {verb} {_SIGNED}" if signed_sides else ""


def remedy(reasons: Iterable[str]) -> str:
    """Return the text of a fix: the quantizer options that remove the given reasons."""
    listed_reasons = [*reasons]
    stays = [reason for reason in listed_reasons if " stays, " in reason]
    of_int8 = [reason for reason in listed_reasons if reason.endswith(_SIGNED)]
    wanted = ["asymmetric activations (ActivationSymmetric=False)"] if stays else []
    wanted += ["uint8 activations"] if of_int8 else []
    alphas = [reason for reason in listed_reasons if reason.startswith(("its alpha", "its beta"))]
    others = len(listed_reasons) > len(stays) + len(of_int8) + len(alphas)
    wanted += ["alpha and beta of Gemm set to 1"] if alphas else []
    wanted += ["the adjacent operators included"] if others else []
    return f"quantize again with {' and '.join(wanted)}"


def _stays_signed(quantize: ir.Node) -> bool:
    """Return whether a QuantizeLinear computes int8 values with several readers, all through DequantizeLinear."""
    zero = constant(quantize.inputs[2]) if len(quantize.inputs) > 2 else None
    if not is_op(quantize, "QuantizeLinear") or zero is None or zero.dtype != np.int8:
        return False
    readers = [use.node for use in quantize.outputs[0].uses()]
    if not readers or not all(is_op(reader, "DequantizeLinear") for reader in readers):
        return False
    read = [reader.outputs[0] for reader in readers]
    return sum(len(tuple(value.uses())) + value.is_graph_output() for value in read) > 1


def _why_not_folded(activation: ir.Node, quantize: ir.Node) -> str:
    """Return a clause that says why ONNX Runtime does not fold an activation into the next QuantizeLinear, or ""."""
    bounds = _bounds(quantize)
    if bounds is None:
        return ""
    low, high, zero_point, lowest = bounds
    if is_op(activation, "Relu"):
        stays = f"Relu stays, because the zero point of QuantizeLinear is {zero_point}, not {lowest}"
        return stays if zero_point != lowest else ""
    cuts, step = limits(activation), (high - low) / 255
    if cuts is None or (cuts[0] < low + step and cuts[1] > high - step):
        return ""
    least, most = cuts
    return f"Clip stays, because its range {least:g} to {most:g} is narrower than {low:g} to {high:g} of QuantizeLinear"


def _bounds(quantize: ir.Node) -> tuple[float, float, int, int] | None:
    """Return (lowest value, highest value, zero point, lowest integer) of 8-bit quantization; None if unknown."""
    if {"output_dtype", "block_size"} & quantize.attributes.keys():
        return None
    scale = constant(quantize.inputs[1])
    zero_point_value = quantize.inputs[2] if len(quantize.inputs) > 2 else None
    zero = np.zeros((), np.uint8) if zero_point_value is None else constant(zero_point_value)
    if (
        scale is None
        or zero is None
        or scale.size != 1
        or zero.size != 1
        or zero.dtype not in (np.uint8, np.int8)
    ):
        return None
    kind, zero_point, step = np.iinfo(zero.dtype), int(zero.item()), float(scale.item())
    return (kind.min - zero_point) * step, (kind.max - zero_point) * step, zero_point, int(kind.min)
