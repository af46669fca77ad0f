"""The memory allocator of the process, replaced by preloading its library.

What it is: mimalloc, jemalloc or tcmalloc instead of the C library's malloc, through ``LD_PRELOAD``.
Why it costs: ONNX Runtime allocates outside its arena too; for small models with many nodes the allocator matters.
Evidence: the library is mapped into the process; latency and peak memory.
Fix and its safety: preload the library in the service's environment; exact.
Example: ``--set allocator=mimalloc``
References: ONNX Runtime documentation, "mimalloc allocator usage".
"""

from ortune.knobs.knob import OFTEN, Knob, Together

KNOB = Knob(
    name="allocator",
    aliases=("malloc",),
    channel="preload",
    key="allocator",
    kind="choice",
    choices=("mimalloc", "jemalloc", "tcmalloc"),
    default="the system's malloc",
    probe="maps",
    summary="memory allocator, preloaded",
    tries=("mimalloc", "jemalloc", "tcmalloc"),
    prior=OFTEN,
    priors={"latency": 0.3, "memory": 0.3, "cold-start": 0.2},
    together=(
        Together(
            setting="enable_cpu_mem_arena=0",
            origin="an allocator instead of the arena",
            # The arena hides what a faster malloc could do. Just below the allocator's own prior: what fails alone need
            # not be tried with more.
            priors={"latency": 0.29, "memory": 0.29},
        ),
    ),
)
