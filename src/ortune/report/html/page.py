"""The report of a tuning as one page."""

from __future__ import annotations

from ortune.records import Envelope, TuneResult
from ortune.report import finding_words
from ortune.report.html import frame
from ortune.report.html import tune as folder
from ortune.report.html.tune.verdict import title


def render(envelope: Envelope[TuneResult], *, stored: str = "") -> str:
    """The whole report of a tuning as one HTML document.

    Args:
        envelope: The document of ``ortune tune``.
        stored: Of a session that is told again, the line that says so.
    """
    result = envelope.result
    verdict, *rest = frame.sections(folder, envelope)
    machine = f" on {envelope.host.cpu}" if envelope.host else ""
    return frame.page(
        "tune/page.html.j2",
        product="tuning report",
        subject=result.side.label,
        origin=f"{result.estimand}{machine}, {result.side.runtime.build}",
        title=title(result),
        stored=stored,
        alerts=finding_words.alerts(envelope),
        basis="Times are candidate against baseline in randomised blocks of fresh processes; "
        "a factor above 1x is better.",
        ortune=envelope.ortune,
        session=result.session,
        styles=["style.css", "profile.css"],
        verdict=verdict.body,
        sections=rest,
    )
