"""Options of ``ortune explain``: a rule, rewrite or setting, or words to search for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ortune.verbs._shared.common import Page
from ortune.verbs._shared.spelling import OUT, Argument, Option

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "rules"
EXAMPLE = 'ortune.explain("SHP004").summary()'


@dataclass(frozen=True, kw_only=True)
class Options:
    """What does a finding's code mean? Without a code, lists all rules.

    Also explains rewrites and settings by name. Any other word is looked up in the names and titles of all three.
    """

    code: Annotated[
        str | None,
        Argument(
            "[CODE]", "A rule's code (such as GRA002) or name, the name of a rewrite or setting, or a word."
        ),
    ] = None
    search: Annotated[
        str | None,
        Option(
            "--search", "TEXT", "List rules, rewrites and settings whose text contains all these words.", OUT
        ),
    ] = None
    report: Page = None
