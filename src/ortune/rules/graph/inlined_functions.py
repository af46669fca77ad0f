"""Inlining the model's functions multiplies the size of the graph.

What it is: model-local functions, as PyTorch exporters write them, that expand to 10,000 nodes or more and to at least
    eight times the nodes in the file.
Why it costs: ONNX Runtime inlines every call at session creation and optimises each copy. Session creation takes
    minutes, and far more memory than the file size suggests.
Evidence: the number of nodes of each function, times its calls.
Fix and its safety: advice: export again with the exporter's optimisation enabled, or inline the functions and fold
    constants offline, once.
Example: a model from ``torch.onnx.export(dynamo=True)`` that was not optimised
References: microsoft/onnxruntime#20354.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir

from ortune.graph.model.extent import copies
from ortune.graph.model.graphs import nested
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA015"
TIER = "preview"

_NODES, _TIMES = 10_000, 8


def _model(calls: int, name: str) -> onnx.ModelProto:
    def function(called: str, body: str, times: int) -> str:
        lines = [f"h{i + 1} = {body} (h{i})" for i in range(times)]
        return (
            f'<opset_import: ["" : 17, "local" : 1], domain: "local">\n'
            f"{called} (h0) => (h{times}) {{ {chr(10).join(lines)} }}"
        )

    lines = [f"[{name}_{i}] v{i + 1} = local.block (v{i})" for i in range(calls)]
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>\n'
        f"stack (float[8] v0) => (float[8] v{calls}) {{ {chr(10).join(lines)} }}\n"
        f"{function('block', 'local.cell', 40)}\n{function('cell', 'Relu', 40)}"
    )


def bad() -> onnx.ModelProto:
    """Return a model of eight blocks of forty cells of forty nodes: 12,800 nodes in a file with 88."""
    return _model(8, "bad")


def good() -> onnx.ModelProto:
    """Return a model of two blocks of forty cells of forty nodes."""
    return _model(2, "block")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on the function calls of the main graph if inlining multiplies the number of nodes."""
    if facts.model is None or not facts.model.ir.functions:
        return
    model = facts.model.ir
    own = {name: sum(1 for graph in nested(body) for _ in graph) for name, body in model.functions.items()}
    written = sum(own[name] * times for name, times in copies(model).items())
    main = [node for graph in nested(model.graph) for node in graph]
    in_file = len(main) + sum(own.values())
    calls: list[ir.Node] = [node for node in main if node.op_identifier() in model.functions]
    if written >= max(_NODES, _TIMES * in_file):
        yield Finding(
            code=CODE,
            what=f"{in_file:,} nodes in the file become {written:,} once functions are inlined: {counted(calls)}",
            where=tuple(map(name_of, calls)),
            fix="export again with the exporter's optimisation enabled",
        )
