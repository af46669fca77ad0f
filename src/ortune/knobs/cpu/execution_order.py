"""The order in which operators that are ready are run.

What it is: ``default`` walks the graph backwards from the outputs, depth first; ``priority_based`` walks forwards and
    runs the ready node with the highest priority; ``memory_efficient`` is for training builds only; others reject it.
Why it costs: the order decides which tensors are still in the caches, and how many live at the same time.
Evidence: latency and peak memory by order.
Fix and its safety: the order that measures faster; exact.
Example: ``--set order=priority_based``
References: ONNX Runtime Python API, ``ExecutionOrder``.
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="execution_order",
    aliases=("order",),
    channel="session_option",
    key="execution_order",
    kind="choice",
    choices=("default", "priority_based", "memory_efficient"),
    spelled=(
        ("default", "DEFAULT"),
        ("priority_based", "PRIORITY_BASED"),
        ("memory_efficient", "MEMORY_EFFICIENT"),
    ),
    default="default",
    summary="execution order of ready operators",
    tries=("priority_based",),
    prior=SELDOM,
    applies=lambda model: model.branches > 1,
)
