"""Sizes of symbolic dimensions, set when the session is created.

What it is: ``batch=1;seq=128`` makes these dimensions numbers, by the name that the model gives them.
Why it costs: with dynamic dimensions, shape computations stay in the graph, memory is not planned ahead, WebNN leaves
    nodes on the CPU, and WebGPU cannot capture the graph.
Evidence: shape operators in the optimised graph; nodes that WebNN does not run.
Fix and its safety: the sizes that are used; behaviour: the session rejects all other sizes. A name that the model
    does not have is silently ignored.
Example: ``--target web-webnn --set web_free_dimensions=batch=1``
References: onnxruntime-common, ``freeDimensionOverrides``; microsoft/onnxruntime#16707, #17488.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="web_free_dimensions",
    aliases=("web_dims",),
    since="1.17",
    channel="web_session",
    key="freeDimensionOverrides",
    kind="text",
    pattern=r"[^;=\x00-\x1f]+=[1-9][0-9]{0,8}(;[^;=\x00-\x1f]+=[1-9][0-9]{0,8})*",
    parts="numbers",
    joined_by=";",
    default="dynamic, as in the model",
    safety="behaviour",
    summary="sizes of symbolic dimensions",
)
