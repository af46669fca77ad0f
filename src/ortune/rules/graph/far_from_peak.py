"""A node takes many times as long as its roofline bound.

What it is: the roofline bound is the time that the node's operations and bytes need at this machine's measured peak.
    The node takes many times as long.
Why it costs: the kernel, the layout or the shape of the work uses little of what the machine can do.
Evidence: the node's fastest times are more than 5 times its roofline bound, and the node is not bound by overhead. In a
    browser the limit is 20 times, because WebAssembly has vectors of four floats and no fused multiply-add.
Fix and its safety: advice: another layout, a fusion, or another execution provider; ``ortune tune`` measures the
    options.
Example: a Conv with few channels, in a layout that is built for many
References: Williams, Waterman and Patterson, "Roofline", 2009.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import NAMED, called, percent, place
from ortune.rules.facts import Facts

CODE = "GRA006"

_TIMES = 5.0
_SCALE_IN_A_PAGE = 4.0
"""Factor by which a WebAssembly kernel may be slower than the native peak, since WebAssembly lacks AVX2's vectors of
eight floats and fused multiply-add."""
_WORTH_NAMING = 0.05


def find(facts: Facts) -> Iterator[Finding]:
    """Yield findings on the slowest profiled nodes that are far above their roofline bound, if the peak is known."""
    times = _TIMES * (_SCALE_IN_A_PAGE if facts.provider.in_page else 1.0)
    far = [
        n
        for n in facts.nodes(_WORTH_NAMING)
        if n.category == "kernels"
        and n.bound != "overhead"
        and n.floor_ns
        and n.least_ns > times * n.floor_ns
    ][:NAMED]
    head = facts.profile.headroom if facts.profile else None
    # If other programs used the CPUs, no execution may have been undisturbed.
    most, busy = ("up to ", f" ({head.busy})") if head is not None and head.busy else ("", "")
    for node in far:
        share = node.time_ns / facts.profile.wall_ns if facts.profile else 0.0
        name = called(node)
        kind = "" if node.op_type.lower() in name.lower() else f" ({node.op_type})"
        yield Finding(
            code=CODE,
            what=f"{name}{kind} takes {most}{node.least_ns / (node.floor_ns or 1.0):.0f}x its {node.bound} roofline "
            f"bound"
            f"{busy}, {percent(share)} of the run",
            where=place([node]),
            share_ratio=share,
        )
