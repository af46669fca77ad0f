"""The deprecated build of onnxruntime-web reads 8-bit values incorrectly on WebGPU.

What it is: DequantizeLinear of uint8 or int8 in the JSEP build, the default of ``import 'onnxruntime-web'``, with
    WebGPU.
Why it costs: outputs are silently wrong, because the kernel reads four values as one (version 1.30).
Evidence: the build, the provider and the operator.
Fix and its safety: exact: the asyncify build (onnxruntime-web/webgpu), whose kernel is correct.
Example: ``--target web-webgpu --set web_build=asyncify``
References: microsoft/onnxruntime#32578; huggingface/transformers.js#1512.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.catalogue.providers import WEB_WEBGPU
from ortune.graph.model.graphs import nodes
from ortune.records import Finding, Plan
from ortune.rules._browsers import JSEP, build_run
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "WEB016"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on DequantizeLinear nodes, if JSEP runs the model."""
    if facts.model is None or facts.target != WEB_WEBGPU.target or build_run(facts) != JSEP:
        return
    pairs = [node for node in nodes(facts.model.ir) if node.op_type == "DequantizeLinear" and not node.domain]
    if pairs:
        yield Finding(
            code=CODE,
            severity="error",
            what=f"outputs are wrong because the jsep build misreads 8-bit values on WebGPU: {counted(pairs)}",
            where=tuple(map(name_of, pairs)),
            fix="import 'onnxruntime-web/webgpu'",
            plan=Plan(settings={BUILD.name: "asyncify"}),
            safety="exact",
        )
