"""``ortune explain``: what a rule finds, why it costs time, and what its fix may change."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Annotated

from ortune import rules
from ortune.experiment.document import document
from ortune.experiment.watcher import Watcher
from ortune.records import Described, Envelope, ExplainResult
from ortune.rules import Rule
from ortune.verbs._options import Argument, Page

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""

HEADING = re.compile(
    r"^(What it is|Why it costs|Evidence|Fix and its safety|Example|References): ", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a finding's code means: what the rule looks for, why it costs, and what to do; all rules without a code."""

    code: Annotated[
        str | None, Argument("[CODE]", "A rule's code or name: GRA002, initializers-in-inputs.")
    ] = None
    report: Page = None


def run(options: Options | None = None, watcher: Watcher | None = None) -> Envelope[ExplainResult]:
    """Describes one rule, or lists all.

    Raises:
        UsageError: There is no such rule.
    """
    o = options or Options()
    found = [rules.find_rule(o.code)] if o.code else list(rules.all_rules().values())
    result = ExplainResult(
        rules=tuple(_described(rule, whole=bool(o.code)) for rule in found), whole=bool(o.code)
    )
    return document("explain", result)


def _described(rule: Rule, *, whole: bool) -> Described:
    return Described(
        code=rule.code,
        name=rule.name,
        title=rule.title,
        tier=rule.tier,
        reads=rule.bad is not None,
        sections=_sections(rule.doc) if whole else (),
        bad=rule.shown if whole else "",
    )


def _sections(doc: str) -> tuple[tuple[str, str], ...]:
    """Headings of a docstring with their texts, each in one paragraph."""
    _, *parts = HEADING.split(inspect.cleandoc(doc))
    return tuple(
        (heading, re.sub(r"\s+", " ", text).strip().replace("``", "`"))
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    )
