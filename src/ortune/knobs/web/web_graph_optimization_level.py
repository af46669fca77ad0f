"""How far onnxruntime-web optimises the graph when it creates a session.

What it is: ``disabled``, ``basic`` (constants folded, batch normalisation into convolutions), ``extended`` (fusions for
    a provider's kernels), ``layout`` or ``all``.
Why it costs: optimising takes time at each start; unfused nodes run one by one.
Evidence: session creation time; latency.
Fix and its safety: ``all``, unless the file is already optimised or the start time matters most; exact (sums are
    reassociated).
Example: ``--target web-wasm --set web_level=basic``
References: onnxruntime-common, ``graphOptimizationLevel``.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="web_graph_optimization_level",
    aliases=("web_level",),
    channel="web_session",
    key="graphOptimizationLevel",
    kind="choice",
    choices=("disabled", "basic", "extended", "layout", "all"),
    default="all",
    summary="graph optimisation level at each start",
    tries=("extended", "basic"),
    prior=SELDOM,
    priors={"cold-start": 0.3},
)
