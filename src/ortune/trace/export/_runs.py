"""Threads of runs, which are not in the columns of a trace."""

from __future__ import annotations

import numpy as np

from ortune.trace.table import NO_RUN, Numbers, Trace


def run_threads(trace: Trace) -> Numbers:
    """Return the thread of each run's first node (runs,); 0 for a run without nodes."""
    thread = np.zeros(trace.n_runs, dtype=np.int64)
    rows = np.flatnonzero(trace.run != NO_RUN)
    rows = rows[np.argsort(-trace.start_ns[rows], kind="stable")]
    thread[trace.run[rows]] = trace.thread[rows]  # the earliest comes last and is kept
    return thread
