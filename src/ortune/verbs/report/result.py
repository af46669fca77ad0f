"""Result of ``ortune report``: stored sessions, briefs and bug reports."""

from __future__ import annotations

from typing import Literal

from ortune.records import BundleInfo, Envelope, Figures, Host, Plan, Timeline
from ortune.records.base import Record
from ortune.verbs.skeleton.result import SkeletonResult


class IssueReport(Record, frozen=True, kw_only=True):
    """A bug report in a folder: a text and a skeleton, without paths or names of the user.

    Attributes:
        path: The text, in Markdown.
    """

    path: str
    skeleton: SkeletonResult


class SoFar(Record, frozen=True, kw_only=True):
    """Partial measurements of one configuration of an unfinished session; a description, not a claim.

    Attributes:
        name: The side or shape ("A", "B", "current", "seq=16"); "" if the plan identifies it.
    """

    name: str = ""
    plan: Plan
    figures: Figures | None = None
    n_failed: int = 0


class StoredSession(Record, frozen=True, kw_only=True):
    """A stored session, or a bundle.

    Attributes:
        id: "" for a bundle whose session is not stored.
        at: Start time, UTC, ISO 8601; "" if not recorded.
        label: The subject of the session, in words.
        state: "done"; "stopped" early with a result; "failed" with an error; "unfinished"
            (interrupted, or still running); "unreadable".
        headline: The headline of the session; "" if there is none.
        host: The machine that it was measured on.
        here: Whether ``host`` is this machine, by fingerprint; None if unknown.
        build: The package that ran the model: "onnxruntime 1.31.1", "onnxruntime-web 1.30.0"; "" if unknown.
        trouble: Reason that the session cannot be shown in full, as one sentence.
        so_far: Partial results of an unfinished session.
        bundle: ``ortune.json`` of a bundle.
        document: The document as printed.
        timeline: Timeline of a profile, if it was kept and is requested.
    """

    id: str
    at: str = ""
    verb: str
    label: str = ""
    state: Literal["done", "stopped", "failed", "unfinished", "unreadable"]
    verdict: str = ""
    headline: str = ""
    host: Host | None = None
    here: bool | None = None
    ortune: str = ""
    build: str = ""
    trouble: str = ""
    so_far: tuple[SoFar, ...] = ()
    bundle: BundleInfo | None = None
    document: Envelope[Record] | None = None
    timeline: Timeline | None = None

    @property
    def result(self) -> Record | None:
        """Result of the document; None without one."""
        return self.document.result if self.document else None


class Contrast(Record, frozen=True, kw_only=True):
    """A property in which sessions differ: one value per session, in their order.

    Attributes:
        breaks: Whether times of the sessions must not be compared because of this property.
    """

    name: str
    values: tuple[str, ...]
    breaks: bool = False


class History(Record, frozen=True, kw_only=True):
    """Several sessions side by side, without a verdict, because a verdict needs common blocks.

    Attributes:
        comparable: Whether model, workload, machine and runtime are equal, so the times describe the same thing.
        next_step: The command that can confirm a difference; "" for none.
    """

    contrasts: tuple[Contrast, ...]
    comparable: bool
    warnings: tuple[str, ...] = ()
    next_step: str = ""


class BriefFigure(Record, frozen=True, kw_only=True):
    """A measured quantity today and with the other plan.

    Attributes:
        unit: "ns", "bytes" or "CPUs".
        today: Median over trials (for CPUs: CPU seconds per run times the load).
        tuned: ``today`` times ``ratio``.
        ratio_low, ratio_high: Interval of the paired ratio; None without an interval, when both values are medians.
        shown: Whether the whole interval is on one side of 1.
    """

    name: str
    unit: Literal["ns", "bytes", "CPUs"]
    today: float
    tuned: float
    ratio: float
    ratio_low: float | None = None
    ratio_high: float | None = None
    shown: bool = False


class BriefRisk(Record, frozen=True, kw_only=True):
    """One risk to consider before shipping."""

    name: str
    level: Literal["fine", "look", "stop"]
    what: str


class Brief(Record, frozen=True, kw_only=True):
    """A one-page summary for decision makers.

    Attributes:
        decision: "ship", "keep" the current configuration, "unproven", or "stop" (wrong outputs, a guard failed).
        answer: The decision as a sentence.
        load_per_s: Requests per second for which CPUs are estimated; ``load_given`` is whether the user gave it.
        today_plan, tuned_plan: Today's plan and the tuned plan in words.
        figures: The objective first, then CPU time and memory; empty if nothing was measured.
        cpus: CPUs busy at that load; None if CPU time was not measured.
        cpus_there: CPUs of the measured machine; None if unknown.
        cpus_note: Reason that ``cpus`` is a lower bound and no saving is claimed; "" if neither applies.
    """

    subject: str
    decision: Literal["ship", "keep", "unproven", "stop"]
    answer: str
    evidence: str
    today_plan: str
    tuned_plan: str = ""
    load_per_s: float
    load_given: bool = False
    figures: tuple[BriefFigure, ...] = ()
    cpus: BriefFigure | None = None
    cpus_there: int | None = None
    cpus_note: str = ""
    risks: tuple[BriefRisk, ...] = ()
    next_steps: tuple[str, ...] = ()


class ReportResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune report --json``.

    Attributes:
        kind: "list", "told" (one session), "history" (several) or "brief"; "told" for a bug report.
        n_stored: Number of stored sessions, listed or not.
        issue: The written bug report.
        text: The written text on the findings of a recorded application; "" for none.
        troubles: Sentences on sessions and bundles that could not be read.
    """

    kind: Literal["list", "told", "history", "brief"]
    sessions: tuple[StoredSession, ...] = ()
    n_stored: int = 0
    history: History | None = None
    brief: Brief | None = None
    issue: IssueReport | None = None
    text: str = ""
    troubles: tuple[str, ...] = ()
