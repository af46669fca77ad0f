"""What is stored, told again."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.bundle import BundleInfo
from ortune.records.envelope import Envelope
from ortune.records.machine import Host
from ortune.records.measure import Figures
from ortune.records.plan import Plan
from ortune.records.skeleton import IssueReport
from ortune.records.timeline import Timeline


class SoFar(Record, frozen=True, kw_only=True):
    """One contestant of a session that never ended: what was measured of it by then, a description without a claim.

    Attributes:
        name: Which side or shape it is ("A", "B", "today", "seq=16"); "" where the plan tells it apart.
    """

    name: str = ""
    plan: Plan
    figures: Figures | None = None
    n_failed: int = 0


class StoredSession(Record, frozen=True, kw_only=True):
    """A session of the store, or a bundle, as it is told again.

    Attributes:
        id: "" for a bundle whose session is not in the store.
        at: When it began, UTC, ISO 8601; "" where that is not recorded.
        label: What it is about, in the words that the session was given.
        state: "done"; "stopped" early with an answer; "unfinished" (cut off, or still running); "unreadable".
        headline: Its answer in words; "" where there is none.
        host: The machine that it was measured on.
        here: Whether that is this machine, by fingerprint; None where not known.
        build: What ran the model: "onnxruntime 1.31.1", "onnxruntime-web 1.30.0"; "" where that is not known.
        trouble: One sentence when it cannot be told in full.
        so_far: Of an unfinished session.
        bundle: ``ortune.json``, where a bundle is told.
        document: As the verb printed it.
        timeline: Of a profile, where it was kept and is asked for.
    """

    id: str
    at: str = ""
    verb: str
    label: str = ""
    state: Literal["done", "stopped", "unfinished", "unreadable"]
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
        """What the document tells; None without one."""
        return self.document.result if self.document else None


class Contrast(Record, frozen=True, kw_only=True):
    """A property in which sessions differ: one value a session, in their order.

    Attributes:
        breaks: Times of these sessions must not be compared because of it.
    """

    name: str
    values: tuple[str, ...]
    breaks: bool = False


class History(Record, frozen=True, kw_only=True):
    """Several sessions side by side. It never says which is faster: that needs blocks that hold both.

    Attributes:
        comparable: Model, workload, machine and runtime agree, so that the times describe the same thing.
        next_step: The command that would prove a difference, or "".
    """

    contrasts: tuple[Contrast, ...]
    comparable: bool
    warnings: tuple[str, ...] = ()
    next_step: str = ""


class BriefFigure(Record, frozen=True, kw_only=True):
    """One figure today and with the other plan.

    Attributes:
        unit: "ns", "bytes" or "CPUs".
        today: Median over trials (of CPUs: CPU seconds a run times the load).
        tuned: ``today`` times ``ratio``.
        ratio_low, ratio_high: Interval of the paired ratio; None where there is none: both are medians then.
        shown: The whole interval lies on one side of 1.
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
    """One thing to know before shipping."""

    name: str
    level: Literal["fine", "look", "stop"]
    what: str


class Brief(Record, frozen=True, kw_only=True):
    """One page for people who decide.

    Attributes:
        decision: "ship", "keep" what runs, "unproven", or "stop" (wrong outputs, a guard failed).
        answer: The decision as a sentence.
        load_per_s: Requests a second that the CPUs are reckoned for; ``load_given`` says whether by the user.
        today_plan, tuned_plan: In words.
        figures: The objective first, then CPU time and memory; empty where nothing was measured.
        cpus: CPUs busy at that load; None where CPU time was not measured.
        cpus_there: CPUs that there are on the machine that was measured; None where that is not known.
        cpus_note: Why ``cpus`` is the least that is busy, and no saving is claimed; "" where it is not so.
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
        kind: "list", "told" (one session), "history" (several) or "brief"; of a bug report, "told".
        n_stored: Sessions in the store, listed or not.
        issue: A bug report that was written.
        troubles: What could not be read, one sentence each.
    """

    kind: Literal["list", "told", "history", "brief"]
    sessions: tuple[StoredSession, ...] = ()
    n_stored: int = 0
    history: History | None = None
    brief: Brief | None = None
    issue: IssueReport | None = None
    troubles: tuple[str, ...] = ()
