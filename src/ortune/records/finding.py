"""What stands out, with its evidence and what to do."""

from __future__ import annotations

from ortune.records.base import Record


class Finding(Record, frozen=True, kw_only=True):
    """A rule's claim about this model or run."""

    code: str
    what: str
    where: tuple[str, ...] = ()
    evidence: str = ""
    fix: str = ""


class LookFact(Record, frozen=True, kw_only=True):
    """Something that stands out.

    Attributes:
        name: A short stable name ("dominant-node", "control-flow", ...).
        what: One sentence.
        where: Nodes, inputs or tensors by name.
        do: What may be done about it, "" where nothing need be.
    """

    name: str
    what: str
    where: tuple[str, ...] = ()
    do: str = ""
