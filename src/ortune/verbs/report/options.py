"""Options of ``ortune report``: stored sessions to show, and the form of the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ortune.errors import UsageError
from ortune.verbs._shared.common import Page, StoreFolder
from ortune.verbs._shared.spelling import OUT, AnyPath, Argument, Option

LAST = 20
_PER_S = {"": 1.0, "s": 1.0, "m": 1 / 60, "min": 1 / 60, "h": 1 / 3600, "d": 1 / 86400}
FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "sessions"
EXAMPLE = 'ortune.report("newest").summary()'


@dataclass(frozen=True, kw_only=True)
class Options:
    """Show stored results. Runs nothing, except with --issue.

    Without an argument, lists the stored sessions. One session is shown in full, several side by side.
    """

    sessions: Annotated[
        Sequence[AnyPath],
        Argument(
            "[SESSION|MODEL|BUNDLE]...",
            "Session ID or its first characters, 'newest', a model (its newest session), a bundle NAME.ortune, or a "
            "recording app.workload. "
            "Without an argument: the list of stored sessions.",
        ),
    ] = ()
    brief: Annotated[
        bool,
        Option(
            "--brief",
            "",
            "A one-page summary for decision makers. Default: the newest tuning or comparison.",
            OUT,
        ),
    ] = False
    load: Annotated[
        str | float | None,
        Option(
            "--load",
            "200/s",
            "With --brief: request rate (/s, /min, /h or /d) for which CPUs are estimated.",
            OUT,
        ),
    ] = None
    issue: Annotated[
        AnyPath | None,
        Option(
            "--issue",
            "FOLDER",
            "Write a bug report in a new folder: on MODEL without weights or names (issue.md and skeleton.onnx), or on "
            "the findings of a recording (issue.md).",
            OUT,
        ),
    ] = None
    last: Annotated[int, Option("--last", "N", "Number of sessions to list.", OUT, least=1)] = LAST
    store: StoreFolder = None
    report: Page = None
    timeline: bool = False

    @property
    def load_per_s(self) -> float | None:
        """Requests per second for the brief; None if the brief uses an example load."""
        return None if self.load is None else rate(self.load)


def rate(text: str | float, option: str = "--load") -> float:
    """Parse a request rate ("200/s", "12000/min", "5e6/d" or a plain number) and return requests per second."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*(?:/\s*(s|m|min|h|d))?\s*", str(text))
    value = float(match.group(1)) * _PER_S[match.group(2) or ""] if match else 0.0
    if not 0 < value < 1e12:
        raise UsageError(
            f"{text!r} is not a request rate", where=option, do="use 200/s or 12000/min, for example"
        )
    return value
