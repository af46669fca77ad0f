"""Finds defects of an exported model, by rules and by the check of its outputs, with commands that fix them."""

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
from ortune.verbs.convert import export_words
from ortune.verbs.convert.options import Options

_OPSETS = {
    unfused_layer_normalization: 17,
    old_opset: 18,
    unfused_gelu: 20,
    unfused_attention: 23,
}
"""Maps a rule to the first opset with an operator for the pattern that PyTorch's exporters otherwise decompose."""
_FUNCTIONS = {
    unfused_hard_swish: "hardswish",
    unfused_layer_normalization: "layer_norm",
    unfused_gelu: "gelu",
    unfused_attention: "scaled_dot_product_attention",
}
"""Maps a rule to the torch.nn.functional function that both exporters write as one operator.

The same arithmetic written by hand stays decomposed at any opset."""
_DYNAMO, _SCRIPT = "dynamo", "torchscript"


def again(options: Options, kind: SourceKind, fault: ConversionFault) -> tuple[str, ...]:
    """Return commands that convert the source of a faulty model again and compare the two models.

    Args:
        options: The options, including the faulty model.
        kind: Kind of the model's source.
        fault: Fault of the model; if it names no node, the command for the comparison is omitted.
    """
    names = (Path(f"{kind.stem}{f'-{n}' if n else ''}.onnx") for n in count())
    place = next(name for name in names if not name.exists())
    anew = command("convert", replace(options, model=None, verify=False, output=place))
    if fault.node is None:
        return (anew,)
    feeding = {name: getattr(options, name) for name in ("shape", "dim", "inputs", "custom_ops", "runtime")}
    return (anew, command("bisect", BisectOptions(a=place, b=options.model, **feeding)))


def findings(model: OpenModel, source: SourceOpened, text: str) -> tuple[Finding, ...]:
    """Return the findings about a converted model that a different export would avoid.

    Rules with fixes for PyTorch's exporters are skipped for other frameworks.

    Args:
        model: The exported model.
        source: The framework's description of the source.
        text: Name of the source, as the user wrote it.
    """
    facts = Facts(model=model, plan=Plan())
    opset = model.facts.opsets.get("", 0)
    findings = list(rule_of(inlined_functions).findings(facts))
    if _DYNAMO not in source.exporters:
        return tuple(findings)
    for module in (*_FUNCTIONS, old_opset):
        first = _OPSETS.get(module, 0)
        fix = export_words.export_again(_command(text, ["--opset", str(first)]))
        if opset >= first:
            fix = export_words.call_function(_FUNCTIONS.get(module))
        for finding in rule_of(module).findings(facts):
            findings.append(msgspec.structs.replace(finding, fix=fix))
    return tuple(findings)


def fixed_axes(model: OpenModel, asked: str, source: SourceOpened, text: str) -> str:
    """Return a note that all sizes are fixed because --dynamic was not passed; "" if the source is not PyTorch's."""
    if asked or _SCRIPT not in source.exporters or not source.inputs:
        return ""
    first = source.inputs[0]
    sizes = "x".join(str(size) for size in first.shape)
    return export_words.all_fixed(first.name, sizes, _command(text, ["--dynamic", "batch"]))


def _command(text: str, options: Sequence[str]) -> str:
    return shlex.join(["ortune", "convert", operand(text), *options, "--force"])
