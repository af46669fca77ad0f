"""Notes on a profile's accuracy: overhead, interference, and gaps in its trace."""

from __future__ import annotations

from ortune.catalogue.providers import short_name
from ortune.durations import in_words
from ortune.printable import amount, first_of
from ortune.records import ProfileResult, TraceInfo
from ortune.show.numbers import duration, percent, shorten
from ortune.show.placement_words import placed
from ortune.show.profile_nodes import run_operators, share

ROUGH_SLOWDOWN = 1.3
SLOWDOWN_WORTH_SAYING = 0.03
MEASURING_PEAK = "measuring this machine's peak once, about ten seconds"
NOT_MAPPED = "optimised nodes were not mapped to your nodes: no time left in the budget"
OVER_BUDGET = "the shortest profile takes longer than the budget"
PEAK_DOUBTED = "nodes exceed the stored peak of this machine; measuring it again"


def no_time_for_peak(needed_s: float) -> str:
    """Return a sentence that says that the budget is too small to measure the machine's peak."""
    return f"measuring it takes about {in_words(needed_s)}, more than the budget allows (run ortune doctor)"


def no_peak(why: str, *, again: bool) -> str:
    """Return a sentence that says why the machine's peak was not measured (``again``: not measured again)."""
    return f"the machine's peak {'was not measured again' if again else 'is not known'}: {why}"


def too_many_runs(steady: int, last: int) -> str:
    """Return a note that only the last runs of a long trace are shown."""
    return f"only the last {last:,} of {steady:,} steady runs are shown"


def notes(result: ProfileResult) -> list[tuple[str, str]]:
    """Return the notes on the accuracy of the profile, as pairs (name, text)."""
    rows = [("profiling", slowdown(result)), ("machine", interference(result))]
    if len(times := _provider_times(result)) > 1:
        parts = [f"{_provider(p)} {share(ns, result)}" for p, ns in times.items()]
        rows.append(("providers", ", ".join(parts)))
    if result.device_ns:
        parts = [f"{_provider(p)} {duration(ns)}" for p, ns in result.device_ns.items()]
        rows.append(("on the device", f"{', '.join(parts)}, in parallel to the host and not part of the sum"))
    rows += [("trace", text) for text in trace_notes(result)]
    rows.append(("not mapped", unmapped(result)))
    rows.append(("memory", uncounted(result)))
    if result.side is not None:
        rows += [("placement", text) for text in placed(result.side.placement)]
    rows += [("note", text) for text in result.notes]
    return [(name, text) for name, text in rows if text]


def slowdown(result: ProfileResult) -> str:
    """Return a sentence on the profiler's overhead; "" if it is unknown."""
    ratio = result.slowdown_ratio
    if ratio is None:
        return ""
    if ratio >= ROUGH_SLOWDOWN:
        return f"runs take {ratio:.2f}x the time of those without it, so small nodes appear too expensive"
    if abs(ratio - 1) <= SLOWDOWN_WORTH_SAYING:
        return "runs take as long as without it, within 3 %"
    return f"runs take {ratio:.2f}x the time of those without it (another process)"


def interference(result: ProfileResult) -> str:
    """Return the fraction of the mean run that is interference and the system load while profiling, as text."""
    parts = []
    if result.fast_ns is not None and result.wall_ns:
        beyond = max(0.0, 1 - result.fast_ns / result.wall_ns)
        parts.append(
            f"{percent(beyond, 0)} of the mean run is interference; without it a run takes "
            f"{duration(result.fast_ns)}"
        )
    if result.sensors is not None and result.sensors.load1 is not None:
        parts.append(f"load {result.sensors.load1:.1f} while profiling")
    return "; ".join(parts)


def trace_notes(result: ProfileResult) -> list[str]:
    """Return notes on the data that is missing in the trace."""
    said_first = {lack.what for lack in result.trace.lacks}
    return [text for text in result.trace.missing if text not in said_first]


def damage(result: ProfileResult) -> list[str]:
    """Return sentences about damage in the traces that were read, which are shown before any number."""
    b = result.against.b_trace if result.against else None
    if b is None:
        return _damage(result.trace, "the trace")
    return _damage(result.trace, "the trace of A") + _damage(b, "the trace of B")


def _damage(trace: TraceInfo, which: str) -> list[str]:
    sentences = []
    if trace.n_unreadable:
        n = trace.n_unreadable
        why = (
            "it cannot be read, or its times are impossible"
            if n == 1
            else ("they cannot be read, or their times are impossible")
        )
        sentences.append(
            f"{which} is damaged: {n:,} {'event is' if n == 1 else 'events are'} left out: {why}"
        )
    if not trace.complete:
        sentences.append(f"{which} was truncated; the readable part is shown")
    if n := trace.n_mended:
        sentences.append(
            f"{which} is damaged: {n:,} {'event is' if n == 1 else 'events are'} not JSON (an extra comma), and "
            f"{'was' if n == 1 else 'were'} read without the comma"
        )
    if n := trace.left_out_runs:
        runs = trace.n_runs + n
        sentences.append(
            f"{which} is damaged: {n:,} of {runs:,} runs lost events and {'is' if n == 1 else 'are'} left out"
        )
    if n := trace.lost_runs:
        lost = f"{n:,} of {trace.n_runs:,} runs" if trace.n_runs > 1 else "the run"
        sentences.append(
            f"{which} is damaged: {lost} lost events, so time outside the recorded nodes is unexplained"
        )
    if n := trace.n_outside:
        sentences.append(
            f"{which} is damaged: {n:,} {'execution of a node is' if n == 1 else 'executions of nodes are'} left out: "
            "the run around them was not recorded completely"
        )
    return [*sentences, *(f"{which} has {lack.what}" for lack in trace.lacks if lack.code != "end")]


def uncounted(result: ProfileResult) -> str:
    """Return a note with the number of values of unknown size that the memory totals omit; "" if none are omitted."""
    n = result.memory.n_unknown if result.memory else 0
    return f"{amount(n, 'value is', 'values are')} of unknown size and not counted" if n else ""


def unmapped(result: ProfileResult) -> str:
    """Return a note with the number and first names of nodes that could not be mapped to the user's; "" for none."""
    if not result.unmapped:
        return ""
    first = first_of([shorten(name, 32) for name in result.unmapped], 3)
    return f"{amount(len(result.unmapped), 'node')} of the optimised graph: {first}"


def untraced(reason: str) -> list[str]:
    """Return a note that GPU kernels are not timed, with the reason and the fix; [] if they are timed."""
    if not reason:
        return []
    return [
        f"the GPU's kernels are not timed ({reason}); in the environment of onnxruntime-gpu, run: "
        "pip install nvidia-cuda-cupti"
    ]


def _provider_times(result: ProfileResult) -> dict[str, float]:
    """Return the time in ns by provider in the run whose time is ``run_ns``, the largest first."""
    times: dict[str, float] = {}
    for operator in run_operators(result):
        times[operator.provider] = times.get(operator.provider, 0.0) + operator.time_ns
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def _provider(name: str) -> str:
    return short_name(name) or "no provider"
