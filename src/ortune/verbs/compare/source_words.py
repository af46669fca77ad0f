"""Sentences about sides that are run by their own framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortune.durations import in_words
from ortune.printable import amount
from ortune.records import Measured, Plan
from ortune.verbs.compare.result import CompareResult

_INTRA_OP = "intra_op_num_threads"


def threads(plan: Plan, trials: Sequence[Measured]) -> int | None:
    """Return the number of intra-op threads, as set or as read back from the trials; None if unknown."""
    done = trials[0].done
    if done.threads is not None:
        return done.threads + 1  # the calling thread is one of them
    verified = any(item.knob == _INTRA_OP and item.level == "effect" for item in done.read_back)
    return int(plan.settings[_INTRA_OP]) if verified else None


def same_threads(counts: Mapping[str, int | None]) -> str:
    """Return a sentence with the threads of each side and, if they differ, the option that makes them equal."""
    threads = {name: count for name, count in counts.items() if count is not None}
    parts = [f"{name}: {count}" for name, count in threads.items()]
    parts += [f"{name}: its own choice (n_jobs)" for name, count in counts.items() if count is None]
    if len(set(threads.values())) == 1 and len(threads) == len(counts):
        count = next(iter(threads.values()))
        return f"all sides use {amount(count, 'thread')} per operator"
    differ = len(set(threads.values())) > 1
    remedy = (
        f"; set the same number on all sides: --set {_INTRA_OP}={min(threads.values())}" if differ else ""
    )
    return f"threads per operator: {', '.join(parts)}{remedy}"


def frameworks(result: CompareResult) -> str:
    """Return each side's runtime: "A is PyTorch 2.13.0 (eager), B is onnxruntime 1.31.1"; "" without a framework."""
    a, b = result.base.runtime, result.new.runtime
    if a.source is None and b.source is None:
        return ""
    return f"A is {a.build}, {result.name} is {b.build}"


def not_compiled(called: str, needed_s: float) -> str:
    """Return a sentence that says that a mode of a framework was skipped because compiling would exceed the budget."""
    return f"{called} was not run: it compiles first, and {in_words(needed_s)} or more are not left of the budget"
