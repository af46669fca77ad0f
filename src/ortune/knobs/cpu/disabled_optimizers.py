"""Single graph optimisers that are left out.

What it is: names of ONNX Runtime's graph transformers, separated by semicolons (a comma makes one unknown name, and
    ONNX Runtime takes unknown names without a word; ortune refuses them).
Why it costs: a fusion replaces nodes by one kernel, and that kernel can be slower here than the nodes were, for want
    of threads or of a vectorised path; or it hides a pattern from a better fusion.
Evidence: ``GraphTransformer NAME modified: 1`` in the log at level INFO; latency with the optimiser left out.
Fix and its safety: leave out the one that is measured to cost; exact (sums may be reassociated).
Example: ``--set without=SkipLayerNormFusion``
References: ``onnxruntime_session_options_config_keys.h``; microsoft/onnxruntime#10538.
"""

from ortune.records import Knob

KNOB = Knob(
    name="disabled_optimizers",
    aliases=("without",),
    channel="session_config",
    key="optimization.disable_specified_optimizers",
    kind="text",
    default="none left out",
    summary="graph optimisers left out, separated by semicolons",
    group="first",
    per_model=True,
)
