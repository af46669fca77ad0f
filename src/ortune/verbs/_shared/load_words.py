"""The load of a measurement in words, and sentences on calls that start at given times."""

from __future__ import annotations

from ortune.printable import amount
from ortune.records import LoadFigures, Workload
from ortune.show.numbers import duration


def at_rate(rate_per_s: float, kind: str) -> str:
    """Return a rate and a kind of arrivals in words: "50/s, poisson arrivals"."""
    return f"{rate_per_s:.4g}/s, {kind.replace(':', ' ')} arrivals"


def generator_late(rate_per_s: float | None, load: LoadFigures) -> str:
    """Return why there is no answer if the generator was late; the rate of a single call is None."""
    at = "" if rate_per_s is None else f" at {rate_per_s:.4g}/s"
    return (
        f"no answer{at}: calls started {duration(load.late_ns)} late on average, "
        f"{100 * load.late_share:.0f} % of the latency; use a lower --rate or a machine with a free CPU"
    )


def rows(load: LoadFigures, callers: str = "the callers") -> list[tuple[str, str, str]]:
    """Return rows (name, value, explanation) on the parts of the mean latency and on the generator's CPU time.

    Args:
        load: The load.
        callers: What limits the rate.
    """
    return [
        (
            "waited for a caller",
            duration(load.waited_ns),
            f"{100 * load.waited_share:.0f} % of the mean latency",
        ),
        ("started late", duration(load.late_ns), f"{100 * load.late_share:.1f} % of the mean latency"),
        ("offered load", f"{100 * load.offered_share:.0f} %", f"of what {callers} can serve"),
        ("generator", f"{100 * load.own_cpu_share:.1f} %", "of one CPU"),
    ]


def load_words(work: Workload, arrival: str = "") -> str:
    """Return the load in words: "one caller, back to back", "4 callers on each of 2 sessions, 30 ms apart"."""
    apart = arrival or (f"{work.gap_ns / 1e6:g} ms apart" if work.gap_ns else "back to back")
    if work.callers * work.sessions == 1:
        return f"one caller, {apart}"
    on = f" on each of {work.sessions} sessions" if work.sessions > 1 else ""
    return f"{amount(work.callers, 'caller')}{on}, {apart}"
