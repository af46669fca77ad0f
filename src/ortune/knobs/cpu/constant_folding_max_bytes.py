"""The largest tensor that constant folding may create, in bytes.

What it is: a node whose folded output would be larger is left in the graph; 0 means no limit.
Why it costs: folding an Expand or a ConstantOfShape can store tensors of gigabytes in the session, which a run would
    otherwise create only when needed; without folding, every run computes them again.
Evidence: load time, peak memory, size of the optimised model.
Fix and its safety: a megabyte where load time or memory matters; exact.
Example: ``--set fold_bytes=1048576``
References: microsoft/onnxruntime#28055, #19902.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="constant_folding_max_bytes",
    aliases=("fold_bytes",),
    since="1.27",
    channel="session_config",
    key="optimization.constant_folding_max_output_size_in_bytes",
    kind="int",
    minimum=0,
    default="1 GiB",
    summary="largest tensor that constant folding may create",
    tries=("1048576",),
    prior=SELDOM,
    applies=lambda model: model.has("ConstantOfShape", "Expand", "Tile", "Range"),
    priors={"memory": 0.4, "cold-start": 0.4},
)
