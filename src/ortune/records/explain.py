"""The document of an explanation."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record


class Described(Record, frozen=True, kw_only=True):
    """One rule, rewrite or setting.

    Attributes:
        code: A rule's, never used again for anything else; "" for the others.
        name: For the pattern that it finds.
        title: In one line.
        tier: "stable", "preview" or "if-measured".
        reads: Whether it reads a model alone, and so is asked by ``ortune check``.
        sections: What it says of itself, by heading; () in a list of all.
        bad: A model that it fires on, in the text form of ONNX; "" where it shows none.
        kind: What it is.
        safety: Of a rewrite or a setting.
    """

    code: str
    name: str
    title: str
    tier: str
    reads: bool = False
    sections: tuple[tuple[str, str], ...] = ()
    bad: str = ""
    kind: Literal["rule", "rewrite", "setting"] = "rule"
    safety: str = ""


class ExplainResult(Record, frozen=True, kw_only=True):
    """One rule, rewrite or setting in full; or all rules, or those that were looked for, in a line each.

    Attributes:
        rules: Where the first is in full, those after it have names like its own.
        search: What was looked for; "" where nothing was.
    """

    rules: tuple[Described, ...]
    whole: bool
    search: str = ""
