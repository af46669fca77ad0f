"""Which execution provider runs which nodes, by their names.

What it is: provider names, each with parts of node names in parentheses. Of several parts that a name contains, the
    longest decides. Other nodes are placed as without the setting.
Why it costs: nodes that a device leaves to the CPU between its own cost a copy there and back in every run. Where
    nodes before or after them are kept on the CPU too, the graph has one border instead of many.
Evidence: placement by provider, and the time of copies in a profile.
Fix and its safety: the side of the first or the last such node on the CPU; ``tune`` proposes both for a provider whose
    first run shows them; exact (sums may be reassociated).
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
