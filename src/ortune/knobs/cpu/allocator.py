"""The memory allocator of the process, put in place by preloading its library.

What it is: mimalloc, jemalloc or tcmalloc instead of the C library's malloc, through ``LD_PRELOAD``.
Why it costs: ONNX Runtime allocates outside its arena too; small models with many nodes feel the allocator.
Evidence: the library is mapped into the process; latency and peak memory.
Fix and its safety: preload the library in the service's environment; exact.
Example: ``--set allocator=mimalloc``
References: ONNX Runtime documentation, "mimalloc allocator usage".
"""

from ortune.records import Knob

KNOB = Knob(
    name="allocator",
    aliases=("malloc",),
    channel="preload",
    key="allocator",
    kind="choice",
    choices=("mimalloc", "jemalloc", "tcmalloc"),
    default="the system's malloc",
    probe="maps",
    conflicts=("malloc_huge_pages",),
    summary="memory allocator by preload",
    tries=("mimalloc", "jemalloc", "tcmalloc"),
    group="first",
)
