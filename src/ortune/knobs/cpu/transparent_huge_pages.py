"""Whether the kernel may use huge pages for this process.

What it is: ``never`` turns transparent huge pages off for the process, whatever the system's setting.
Why it costs: if the system always uses huge pages, memory grows in pieces of 2 MiB, which the kernel needs time to
    find and clear. This causes latency spikes in the first runs.
Evidence: ``THP_enabled`` in ``/proc/self/status``; peak memory, first runs.
Fix and its safety: ``prctl(PR_SET_THP_DISABLE)`` before the session is created; exact.
Example: ``--set thp=never``
References: Linux manual page prctl(2); kernel documentation, "Transparent Hugepage Support".
"""

from ortune.knobs.knob import SELDOM, Knob

KNOB = Knob(
    name="transparent_huge_pages",
    aliases=("thp",),
    channel="process",
    key="transparent_huge_pages",
    kind="choice",
    choices=("system", "never"),
    default="system",
    probe="thp",
    system="linux",
    summary="huge pages for this process",
    tries=("never",),
    prior=SELDOM,
)
