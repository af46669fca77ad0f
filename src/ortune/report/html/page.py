"""The report of a tuning as one page, without a script."""

from __future__ import annotations

from ortune.records import Envelope, TuneResult
from ortune.report import tune_words as words
from ortune.report.html import frame
from ortune.report.html import tune as folder


def render(envelope: Envelope[TuneResult]) -> str:
    """The whole report of a tuning as one HTML document.

    Args:
        envelope: The document of ``ortune tune``.
    """
    result = envelope.result
    verdict, *rest = frame.sections(folder, envelope)
    machine = f" on {envelope.host.cpu}" if envelope.host else ""
    return frame.page(
        "tune/page.html.j2",
        product="tuning report",
        subject=result.side.label,
        origin=f"{result.estimand}{machine}, onnxruntime {result.side.runtime.ort_version}",
        headline=result.headline or words.headline(result),
        basis="Times are candidate against baseline in randomised blocks of fresh processes; "
        "a factor above 1x is better.",
        ortune=envelope.ortune,
        session=result.session,
        styles=["style.css"],
        verdict=verdict.body,
        sections=rest,
    )
