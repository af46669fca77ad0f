"""Sentences about stored sessions: when and where they were measured."""

from __future__ import annotations

from ortune.records import BundleInfo, Plan, ProfileResult
from ortune.show import headline, others_words
from ortune.show.machine_words import machine
from ortune.show.numbers import duration, memory
from ortune.verbs._shared import tune_headline
from ortune.verbs.report.result import SoFar, StoredSession

STATES = {
    "done": "",
    "stopped": "stopped early",
    "failed": "failed",
    "unfinished": "unfinished: interrupted, or still running",
    "unreadable": "cannot be read",
}
PLACES = {True: "this machine", False: "ANOTHER machine, not this one", None: ""}

NOT_KEPT = "it ended, but its result was not stored"


def when(session: StoredSession) -> str:
    """Return the start time of a session as text: "2026-11-20 14:03 UTC", or "date not recorded"."""
    return f"{session.at[:10]} {session.at[11:16]} UTC" if session.at else "date not recorded"


def provenance(session: StoredSession) -> str:
    """Return a line for the top of a stored result: when, where and with which ONNX Runtime it was measured."""
    if is_trace(session):
        parts = [f"read {when(session)} from a trace, which does not record where and when it was measured"]
    else:
        began = (
            f"measured {when(session)}"
            if session.at
            else "measured at a time that the bundle does not record"
        )
        place = PLACES[session.here]
        parts = [f"{began} on {machine(session.host)}" + (f" ({place})" if place else "")]
    if session.build:
        parts.append(session.build)
    if session.ortune:
        parts.append(f"ortune {session.ortune}")
    if session.id:
        parts.append(f"session {session.id}")
    return "; ".join([", ".join(parts), "not measured now"])


def is_trace(session: StoredSession) -> bool:
    """Return whether a session is a profile that was read from a trace instead of measured."""
    return isinstance(session.result, ProfileResult) and session.result.side is None


def summary(session: StoredSession) -> str:
    """Return a one-line summary of a session for the list: its state and headline."""
    if session.trouble and not session.headline:
        return session.trouble
    state = STATES[session.state]
    if session.state == "unfinished":
        n = sum(s.figures.n_trials for s in session.so_far if s.figures)
        if not n:
            return f"{state}; no results yet"
        what = "one configuration" if len(session.so_far) == 1 else f"{len(session.so_far)} configurations"
        return f"{state}; {n} trials of {what} measured"
    return "; ".join(p for p in (state, session.headline or session.verdict) if p)


def so_far_row(item: SoFar) -> tuple[str, ...]:
    """Return a row: plan, number of trials, latency, its interquartile range, CPU time per run, peak memory."""
    f = item.figures
    plan = ": ".join(part for part in (item.name, item.plan.describe()) if part)
    failed = f"{item.n_failed} failed" if item.n_failed else ""
    if f is None:
        return plan, failed or "0", "", "", "", ""
    latency = f"{duration(f.latency_low_ns)} to {duration(f.latency_high_ns)}"
    if f.n_trials == 1:
        latency = "one observation"
    trials = ", ".join(p for p in (str(f.n_trials), failed) if p)
    return (
        plan,
        trials,
        duration(f.latency_ns),
        latency,
        duration(f.cpu_per_run_ns),
        memory(f.peak_bytes),
    )


SO_FAR_HEADS = ("plan", "trials", "p50", "IQR", "CPU per run", "peak memory")
SO_FAR_NOTE = (
    "the session did not end, so there is no verdict; medians of the trials measured so far, not compared block "
    "by block"
)


def unreadable(error: str) -> str:
    """Return a sentence that says why a session's record cannot be read."""
    return f"it cannot be read: {error}"


def other_format(schema: str, written_by: str, here: str) -> str:
    """Return a sentence that says that a document was written by an incompatible version of ortune."""
    return (
        f"its document has format {schema!r}, written by ortune {written_by}, which ortune {here} cannot read"
    )


def bundle_alone(session: str, *, stored: bool) -> str:
    """Return a sentence that says why a bundle is shown without the session that created it."""
    origin = f"the session that made it, {session}," if session else "the session that made it"
    lost = "is in this store but has no readable result" if stored else "is not in this store"
    return f"{origin} {lost}, so only the bundle's own data is shown"


def bundled(info: BundleInfo) -> str:
    """Return a headline made from the data in a bundle."""
    proof = info.proof
    if proof is None:
        if info.plan == Plan():
            return "the default configuration: no better one was confirmed"
        return f"{info.plan.describe()}; the bundle contains no confirmation"
    said = headline.measured(proof, tune_headline.blocks_words(proof))
    doubts = others_words.doubts(proof)
    return headline.headline(
        proof.verdict, said, f"with {info.plan.describe()}", doubts, statistic=proof.statistic
    )
