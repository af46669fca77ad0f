"""The document of an explanation."""

from __future__ import annotations

from ortune.records.base import Record


class Described(Record, frozen=True, kw_only=True):
    """One rule.

    Attributes:
        code: Never used again for anything else.
        name: For the pattern that it finds.
        title: In one line.
        tier: "stable", "preview" or "if-measured".
        reads: Whether it reads a model alone, and so is asked by ``ortune check``.
        sections: What it says of itself, by heading; () in a list of all.
        bad: A model that it fires on, in the text form of ONNX; "" where it shows none.
    """

    code: str
    name: str
    title: str
    tier: str
    reads: bool = False
    sections: tuple[tuple[str, str], ...] = ()
    bad: str = ""


class ExplainResult(Record, frozen=True, kw_only=True):
    """One rule in full, or all of them in a line each."""

    rules: tuple[Described, ...]
    whole: bool
