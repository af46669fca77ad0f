"""Result of ``ortune explain``: rules, rewrites and settings, in full or as a list."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record


class Described(Record, frozen=True, kw_only=True):
    """One rule, rewrite or setting.

    Attributes:
        code: A rule's code, never reused; "" for the others.
        name: The name; a rule is named after the pattern that it finds.
        title: One line.
        tier: "stable", "preview" or "if-measured".
        reads: Whether the rule needs only a model, so that ``ortune check`` applies it.
        sections: The documentation by heading; () in a list.
        bad: A model with this finding, in ONNX text form; "" if there is no example.
        kind: "rule", "rewrite" or "setting".
        safety: Safety class of a rewrite or a setting.
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
    """One rule, rewrite or setting in full, or a list with one line each.

    Attributes:
        rules: The first in full if ``whole``; the others have similar names.
        search: The search text; "" for none.
    """

    rules: tuple[Described, ...]
    whole: bool
    search: str = ""
