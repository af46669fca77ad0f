"""What an exporter did badly, each with the command that mends it: as rules find it, or a check of its model."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec

from ortune.engines.conversion.kinds import SourceKind
from ortune.graph.model.open import OpenModel
from ortune.printable import operand
from ortune.records import ConversionFault, Finding, Plan, SourceOpened
from ortune.rules import Facts, rule_of
from ortune.rules.graph import (
    inlined_functions,
    old_opset,
    unfused_attention,
    unfused_gelu,
    unfused_hard_swish,
    unfused_layer_normalization,
)
from ortune.verbs._shared.spelling import command
from ortune.verbs.bisect.options import Options as BisectOptions
from ortune.verbs.convert.options import Options

_OPSETS = {
    unfused_layer_normalization: 17,
    old_opset: 18,
    unfused_gelu: 20,
    unfused_attention: 23,
}
"""What PyTorch's exporters leave in parts, or old, and the first opset that has an operator for it."""
_FUNCTIONS = {
    unfused_hard_swish: "hardswish",
    unfused_layer_normalization: "layer_norm",
    unfused_gelu: "gelu",
    unfused_attention: "scaled_dot_product_attention",
}
"""What both exporters write as one operator. The same arithmetic by hand stays in parts at any opset."""
_DYNAMO, _SCRIPT = "dynamo", "torchscript"


def again(options: Options, kind: SourceKind, fault: ConversionFault) -> tuple[str, ...]:
    """Commands for a model at fault whose source has a conversion that is right: to write that, and to compare the two.

    Args:
        options: That named the model.
        kind: Of its source.
        fault: Of the model; without a node that differs there is nothing to compare.
    """
    names = (Path(f"{kind.stem}{f'-{n}' if n else ''}.onnx") for n in count())
    place = next(name for name in names if not name.exists())
    anew = command("convert", replace(options, model=None, verify=False, output=place))
    if fault.node is None:
        return (anew,)
    feeding = {name: getattr(options, name) for name in ("shape", "dim", "inputs", "custom_ops", "runtime")}
    return (anew, command("bisect", BisectOptions(a=place, b=options.model, **feeding)))


def findings(model: OpenModel, source: SourceOpened, text: str) -> tuple[Finding, ...]:
    """Return what rules find in a converted model that another export would not have.

    The converters of other frameworks have no option that mends what these rules find.

    Args:
        model: As it was exported.
        source: What the framework says of the source.
        text: The source as it was named.
    """
    facts = Facts(model=model, plan=Plan())
    opset = model.facts.opsets.get("", 0)
    findings = list(rule_of(inlined_functions).findings(facts))
    if _DYNAMO not in source.exporters:
        return tuple(findings)
    for module in (*_FUNCTIONS, old_opset):
        first = _OPSETS.get(module, 0)
        fix = f"export it again: {_command(text, ['--opset', str(first)])}"
        if opset >= first:
            fix = f"call torch.nn.functional.{_FUNCTIONS.get(module)} in the model: it is exported as one operator"
        for finding in rule_of(module).findings(facts):
            findings.append(msgspec.structs.replace(finding, fix=fix))
    return tuple(findings)


def fixed_axes(model: OpenModel, asked: str, source: SourceOpened, text: str) -> str:
    """Says that a PyTorch module came out with all sizes fixed, since none was asked to be dynamic; "" if not."""
    if asked or _SCRIPT not in source.exporters or not source.inputs:
        return ""
    first = source.inputs[0]
    sizes = "x".join(str(size) for size in first.shape)
    return (
        f"all sizes are fixed, {first.name} at {sizes}, because --dynamic was not passed; "
        f"to keep the batch dynamic: {_command(text, ['--dynamic', 'batch'])}"
    )


def _command(text: str, options: Sequence[str]) -> str:
    return shlex.join(["ortune", "convert", operand(text), *options, "--force"])
