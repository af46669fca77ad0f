"""Result of running a program with a bundle's changes."""

from __future__ import annotations

from ortune.records import AppliedRun, MemoryChange


class RunResult(AppliedRun, frozen=True, kw_only=True):
    """``result`` of ``ortune run --json``.

    Attributes:
        headline: Summary of the changes and the processes in which they were made, in one sentence.
        bundle: The folder of the bundle.
        variables: Environment variables that it set for the whole program.
        contains: The gain that the bundle states.
        memory: The peak memory that was measured when it was created.
    """

    headline: str = ""
    bundle: str = ""
    variables: dict[str, str] = {}
    contains: str = ""
    memory: MemoryChange | None = None
    notes: tuple[str, ...] = ()
