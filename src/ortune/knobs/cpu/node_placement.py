"""Which execution provider runs which nodes, by node name.

What it is: provider names, each with parts of node names in parentheses. If a name contains several of these parts, the
    longest applies. The setting does not affect other nodes.
Why it costs: nodes on the CPU between nodes on a device cost a copy to the CPU and back in every run. If all nodes
    before or after them are also kept on the CPU, the graph has one boundary instead of many.
Evidence: placement by provider, and the time of copies in a profile.
Fix and its safety: place all nodes that precede such CPU nodes on the CPU too, or all that follow them. ``tune``
    proposes both if the first run on the provider has such nodes; exact (sums may be reassociated).
Example: ``--target webgpu --set 'node_placement=CPUExecutionProvider(/head/)'``
References: ONNX Runtime 1.31, ``session.name_based_layer_assignment``.
"""

from ortune.knobs.knob import Knob
from ortune.providers import SUFFIX

_RULE = rf"\w+{SUFFIX}\([^();=\x00-\x1f]+\)"

KNOB = Knob(
    name="node_placement",
    since="1.31",
    channel="session_config",
    key="session.name_based_layer_assignment",
    kind="text",
    pattern=f"{_RULE}(;{_RULE})*",
    default="none: each provider takes what it can",
    summary="providers of nodes, by name",
)
