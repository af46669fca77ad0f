"""Findings in words, for all verbs, and the commands that measure the effects of their fixes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ortune.durations import as_option
from ortune.printable import amount, first_of
from ortune.records import (
    FUNCTIONAL_ONLY,
    Brought,
    Envelope,
    Finding,
)
from ortune.show.answer_commands import plan_options
from ortune.show.document import Annotation, Document, Line
from ortune.show.numbers import factor, shorten

NO_CLAIMS = "the outputs are not finite (measure anyway with --allow non-finite)"
NAMED = 3
GROUNDS = 2
LONGEST_NAME = 60
BOUNDED = 0.2
"""Minimum share of the run that a fix must affect for its bound to be reported, as a fraction."""


def skipped_checks(left_out: Sequence[str], enough_s: float) -> str:
    """Return a sentence that says that checks were skipped for lack of time, with a sufficient budget."""
    names = list(dict.fromkeys(left_out))
    checks = amount(len(names), "check was", "checks were")
    return (
        f"{checks} skipped for lack of time: {first_of(names, NAMED)} "
        f"(--budget {as_option(enough_s)} is enough)"
    )


def unmet(setting: str, missing: Sequence[str]) -> str:
    """Return a sentence on a plan's setting that needs other settings which the plan lacks."""
    return f"{setting} needs {' and '.join(missing)}, not set here, so it may have no effect"


def places(finding: Finding) -> str:
    """Return the finding's nodes in brackets; "" if its sentence already contains one of them, even shortened."""
    where = [name for name in finding.where if name]
    said = re.split(r"[\s,()=:]+", finding.what)
    whole = (re.search(rf"(?<!\w){re.escape(name)}(?!\w)", finding.what) for name in where)
    if not where or any(whole) or any(_names(word, name) for word in said for name in where):
        return ""
    return f" ({first_of([shorten(name, LONGEST_NAME) for name in where], NAMED)})"


def _names(word: str, name: str) -> bool:
    begin, cut, end = word.partition("...")
    return bool(cut and begin and end and name.startswith(begin) and name.endswith(end))


def estimate(finding: Finding) -> str:
    """Return the limit of a fix's speed-up, and its effect on similar models.

    "" if both are unknown or the fix was measured.
    """
    if finding.verified is not None:
        return ""
    parts = [_bound(finding)] if (finding.least_ratio or 0.0) >= BOUNDED else []
    parts += [_brought(gain) for gain in finding.brought[:GROUNDS]]
    return f"estimate: {', '.join(parts)}" if parts else ""


def _bound(finding: Finding) -> str:
    """Return a phrase on the maximum speed-up, from the nodes' estimated and largest possible share of the run."""
    assert finding.share_ratio and finding.least_ratio
    share, least = finding.share_ratio, finding.least_ratio
    measured = finding.share_from == "profile"
    text = f"at most {'' if measured else 'about '}{factor(1 / (1 - share))}x"
    if factor(1 / least) == factor(1 / (1 - share)):
        return text
    times = f"if these nodes take {(1 - least) / share:.0f} times their estimated share"
    why = "with the nodes that could not be mapped" if measured else times
    return f"{text} ({factor(1 / least)}x {why})"


def _brought(gain: Brought) -> str:
    others = f", together with {' and '.join(gain.others)}" if gain.others else ""
    doubt = "" if gain.proven else ", unconfirmed"
    interval = f"{factor(1 / gain.ratio_high)}-{factor(1 / gain.ratio_low)}x"
    return f"{factor(1 / gain.ratio)}x ({interval}{doubt}) measured on a similar model ({gain.model}){others}"


def rows(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return rows for the findings on the model; ``caveats`` returns the findings on the measurement."""
    return [("finding", finding.sentence()) for finding in findings if not about_measurement(finding)]


def caveats(findings: Iterable[Finding]) -> list[str]:
    """Return the sentences of the findings on the measurement, which limit its verdict."""
    return [f.sentence(evidence=False) for f in findings if about_measurement(f)]


def alerts(envelope: Envelope[Any]) -> list[str]:
    """Return the sentence of each alert."""
    return [alert.sentence(evidence=False) for alert in envelope.alerts]


def _alerted(document: Document, envelope: Envelope[Any]) -> Document:
    """Return the document with the envelope's alerts before everything else."""
    if not envelope.alerts:
        return document
    return replace(
        document,
        before=[*document.before, *(Line(text, "bad") for text in alerts(envelope))],
        annotations=[*to_annotate(envelope.alerts), *document.annotations],
    )


def _configured(document: Document, envelope: Envelope[Any]) -> Document:
    """Return the document with a line, after its first lines, on the options that a project's file set."""
    if envelope.configured is None:
        return document
    configured = envelope.configured
    return document.with_below_lines(Line(f"set by {configured.file}: {', '.join(configured.options)}"))


def with_common_parts(document: Document, envelope: Envelope[Any]) -> Document:
    """Return the document with the parts that all verbs share: alerts, and options set by a project's file."""
    return _configured(_alerted(document, envelope), envelope)


def functional_only(findings: Sequence[Finding]) -> bool:
    """Return whether nothing was timed because the browser's GPU is emulated in software."""
    return any(finding.code == FUNCTIONAL_ONLY for finding in findings)


def about_measurement(finding: Finding) -> bool:
    """Return whether a finding is about the measurement, not about the model."""
    return finding.code.startswith("MSR")


def to_annotate(findings: Iterable[Finding]) -> list[Annotation]:
    """Return an annotation for a GitHub job for each finding."""
    return [
        Annotation(
            level="notice" if f.severity == "note" else f.severity,
            title=f"ortune {f.code}",
            lines=["; ".join(part for part in (f.what, f.fix) if part)],
        )
        for f in findings
    ]


def measurable(findings: Iterable[Finding], again: Sequence[str]) -> tuple[Finding, ...]:
    """Return the findings with each fix that is a plan replaced by the command that measures its effect.

    Args:
        findings: Findings on one model.
        again: Command-line arguments for the same model with the same inputs and settings.
    """
    return tuple(
        finding
        if finding.plan is None
        else msgspec.structs.replace(
            finding, fix=shlex.join(["ortune", "compare", *again, *plan_options(finding.plan, "--b-")])
        )
        for finding in findings
    )
