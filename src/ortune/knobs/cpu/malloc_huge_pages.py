"""Whether the C library's malloc requests huge pages.

What it is: with ``thp``, glibc (2.35 or newer) advises the kernel to back its memory with 2 MiB pages, which works
    where ``/sys/kernel/mm/transparent_hugepage/enabled`` is ``madvise``; ``off`` is glibc's default.
Why it costs: weights of hundreds of megabytes in 4 KiB pages cause constant TLB misses; with huge pages, memory is
    allocated in larger pieces.
Evidence: ``AnonHugePages`` of the process (``/proc/self/smaps_rollup``); latency and peak memory.
Fix and its safety: ``GLIBC_TUNABLES=glibc.malloc.hugetlb=1`` in the service's environment; exact.
Example: ``--set huge_pages=thp``
References: GNU C Library manual, "Memory Allocation Tunables".
"""

from ortune.knobs.knob import OFTEN, Knob

KNOB = Knob(
    name="malloc_huge_pages",
    aliases=("huge_pages",),
    channel="env",
    key="GLIBC_TUNABLES",
    kind="choice",
    choices=("off", "thp"),
    spelled=(("off", "glibc.malloc.hugetlb=0"), ("thp", "glibc.malloc.hugetlb=1")),
    default="off",
    probe="huge_pages",
    conflicts=("allocator", "transparent_huge_pages"),
    system="linux",
    summary="malloc requests huge pages",
    tries=("thp",),
    prior=OFTEN,
    priors={"latency": 0.25, "memory": 0.01},
)
