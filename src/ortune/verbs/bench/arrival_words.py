"""Sentences on an open loop: whether the rate could be served, and the parts of the latency."""

from __future__ import annotations

from ortune.records import BenchRow
from ortune.verbs._shared import load_words
from ortune.verbs.bench.result import ArrivalRow, BenchResult


def load_of(row: BenchRow, result: BenchResult) -> ArrivalRow | None:
    """Return the open-loop load of a row; None if calls were made one after another."""
    if not result.arrivals:
        return None
    return result.arrivals[[one.case for one in result.rows].index(row.case)]


def no_latency(row: BenchRow, result: BenchResult) -> bool:
    """Return whether a row has no valid latency, because its rate could not be served or generated."""
    arrival = load_of(row, result)
    return arrival is not None and arrival.verdict != "measured"


def instead(row: BenchRow, result: BenchResult) -> str:
    """Return why a row has no valid latency, as a sentence without a subject; "" if its latency is valid."""
    arrival = load_of(row, result)
    if arrival is None or arrival.verdict == "measured":
        return ""
    load = arrival.load
    if arrival.verdict == "generator":
        return load_words.generator_late(result.rate_per_s, load)
    callers = result.load.partition(", ")[0]
    return (
        f"cannot serve {result.rate_per_s:.4g}/s: {load.served_per_s:.3g} requests/s at most ({callers}), so the queue "
        "keeps growing; use a lower --rate or more --callers"
    )


def rows(row: BenchRow, result: BenchResult) -> list[tuple[str, str, str]]:
    """Return rows (name, value, explanation) on the parts of the mean latency and on the generator's CPU time."""
    arrival = load_of(row, result)
    return [] if arrival is None else load_words.rows(arrival.load)


def by_gap(row: BenchRow, result: BenchResult) -> str:
    """Return the remark that the gap between requests sets the throughput; empty if it does not."""
    # A gap shorter than the request does not limit the throughput, and calls at given times have no gap.
    if result.arrivals or result.gap_ns <= row.median_ns.value:
        return ""
    return f" (set by the gap of {result.gap_ns / 1e6:g} ms)"
