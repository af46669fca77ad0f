"""The possible saving in one sentence: outside the kernels, and within them up to the machine's peak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ortune.printable import amount
from ortune.records import Headroom
from ortune.show.numbers import shorten

_WORDS: Mapping[str, str] = {
    "thread-wait": "thread wait",
    "between-nodes": "overhead",
    "outside-run": "overhead",
    "control-flow": "overhead",
    "device-copies": "copies",
    "casts-and-layout": "casts and layout",
    "shape-arithmetic": "shapes",
}

_REMEDIES: Mapping[str, str] = {
    "thread wait": "fewer threads help",
    "overhead": "fewer nodes (fusions, fixed shapes), I/O binding or larger batches help",
    "copies": "keeping values on one device helps",
    "casts and layout": "one type and one layout throughout help",
    "shapes": "fixed shapes help",
}

NEAR = 0.7  # share of the peak; products of usual shapes seldom get closer
PROVEN = 0.9  # share of the peak and of the kernels' time, from which on settings cannot improve the kernels
COVERED = 0.5  # share of the kernels' time that must be known before a ratio to the peak is reported
SMALL = 0.5  # share of the run, above which waiting for a device, or work outside the kernels, dominates
MOSTLY = 0.5  # share of the kernels' time, above which executions too short to be judged dominate
TELLING = 0.2  # share of the peak, from which on a lower bound is worth reporting
COSTS = 1.1  # times the unprofiled run, above which the profiler's overhead is mentioned
LONGEST = 60


def worded(headroom: Headroom) -> Headroom:
    """Return the headroom with its sentence filled in."""
    return msgspec.structs.replace(headroom, sentence=sentence(headroom))


def sentence(headroom: Headroom) -> str:
    """Return the possible saving in one sentence."""
    why = f"the possible saving is unknown ({headroom.unbounded}); " if headroom.unbounded else ""
    if headroom.settings_ratio is None:
        return f"{why}{_disturbed(headroom)}{_plain(headroom)}"
    inside = _device(headroom.device_ratio) if headroom.device_ratio > SMALL else _kernels(headroom)
    return f"{why}{_outside(headroom, headroom.settings_ratio)}; {inside}"


def _limited(headroom: Headroom) -> bool:
    """Return whether the run uses fewer threads than the machine has CPUs."""
    return 0 < headroom.threads < headroom.cpus


def _owner_of_peak(headroom: Headroom) -> str:
    """Return whose peak the kernels are compared to: "this machine's", "one thread's", "2 threads'"."""
    if not _limited(headroom):
        return "this machine's"
    return "one thread's" if headroom.threads == 1 else f"{headroom.threads} threads'"


def _disturbed(headroom: Headroom) -> str:
    what = f"the profiler and other programs ({headroom.busy})" if headroom.busy else "the profiler"
    slower = "slow" if headroom.busy else "slows"
    factor = f"{headroom.slowdown_ratio or 0.0:.1f}"
    return (
        f"{what} {slower} even the fastest runs by a factor of {factor}, so the profile does not show what "
        "settings can gain; run ortune tune"
    )


def _plain(headroom: Headroom) -> str:
    """Return a lower bound of the kernels' fraction of the peak, from the unprofiled run; "" if the bound is low."""
    ratio = headroom.plain_kernels_ratio
    return (
        f"; its kernels run at {round(100 * ratio)} % or more of {_owner_of_peak(headroom)} peak"
        if ratio >= TELLING
        else ""
    )


def _outside(headroom: Headroom, outside: float) -> str:
    # On a busy machine, this is about the fastest run, while the tables show the mean run.
    run = "the run at its fastest" if headroom.busy else "the run"
    used = "is" if headroom.threads == 1 else "are"
    more = (
        f"; more threads may speed them up ({headroom.threads} of {amount(headroom.cpus, 'CPU')} {used} used)"
    )
    more = more if _limited(headroom) else ""
    if outside < 0.005:
        return f"almost none of {run} is outside the kernels{more}"
    shown = ", ".join(f"{word} {percent}" for word, percent in _whole(_by_word(headroom.parts), outside))
    own = ""
    if headroom.slowdown_ratio is None:
        own = "; this includes an unknown profiler overhead"
    elif headroom.slowdown_ratio > COSTS:
        own = "; this includes the profiler overhead"
    return f"{round(100 * outside)} % of {run} is outside the kernels ({shown}{own}){more}"


def _by_word(parts: Mapping[str, float]) -> dict[str, float]:
    words: dict[str, float] = {}
    for name, share in parts.items():
        words[_WORDS[name]] = words.get(_WORDS[name], 0.0) + share
    return words


def _whole(words: Mapping[str, float], settings: float) -> Iterator[tuple[str, int]]:
    """Yield each word with its whole percents, the largest first and without zeros.

    The percents add up to the rounded total of ``settings``.
    """
    # Shares of 3.6, 3.6 and 2.8 % are first cut to 3, 3 and 2. The two percents missing to 10 go to the
    # largest remainders, which gives 4, 3 and 3.
    whole = {word: int(100 * share) for word, share in words.items()}
    missing = round(100 * settings) - sum(whole.values())
    for word in sorted(words, key=lambda w: 100 * words[w] - whole[w], reverse=True)[: max(0, missing)]:
        whole[word] += 1
    for word, percent in sorted(whole.items(), key=lambda item: -item[1]):
        if percent:
            yield word, percent


def _device(share: float) -> str:
    return (
        f"{round(100 * share)} % of the run waits for the device or transfers inputs and outputs, so only faster or "
        "fewer kernels there help, or values that stay on the device"
    )


def _kernels(headroom: Headroom) -> str:
    covered, whose = headroom.covered_ratio, _owner_of_peak(headroom)
    if sum(headroom.parts.values()) > SMALL:
        words = _by_word(headroom.parts)
        remedy = _REMEDIES[max(words, key=words.__getitem__)]
        return f"less than half of the run is spent in kernels, so start outside them: {remedy}"
    if headroom.kernels_ratio is None:
        faster = "they exceed the stored peak (measure it again with ortune doctor)"
        why = headroom.no_peak or headroom.busy or (faster if headroom.beyond_peak else "")
        return f"kernel efficiency relative to {whose} peak is unknown{f': {why}' if why else ''}"
    if covered < COVERED:
        return f"kernel efficiency relative to {whose} peak is known for only {round(100 * covered)} % of kernel time"
    if headroom.overhead_ratio > MOSTLY:
        each_us = headroom.overhead_ns / headroom.overhead_calls / 1000
        return (
            f"most of the kernels' time goes to {headroom.overhead_calls:.0f} executions of {each_us:.1f} us, "
            "too short to reach any peak: per-node overhead dominates, and fewer nodes or larger batches help"
        )
    what = "memory bandwidth" if headroom.memory_bound else "peak"
    partly = (
        f" in the {round(100 * covered)} % of kernel time for which it is known" if covered < PROVEN else ""
    )
    of = f" ({headroom.peak_of})" if headroom.peak_of else ""
    return (
        f"the kernels run at {round(100 * headroom.kernels_ratio)} % of {whose} {what}{partly}{of}"
        f"{_next(headroom, headroom.kernels_ratio)}"
    )


def _next(headroom: Headroom, ratio: float) -> str:
    """Return a phrase on ways to make the kernels faster, with the most expensive nodes if far from the peak."""
    more = "more threads, " if _limited(headroom) else ""
    if ratio < NEAR:
        most = "threads, " if not _limited(headroom) and headroom.threads != 1 else more
        dearest = ", ".join(
            f"{shorten(n.name, LONGEST) or 'an unnamed node'} "
            f"({n.op_type}, {round(100 * n.share_ratio)} % of the lost time)"
            for n in headroom.dearest
        )
        return f": {most}fusions, layout or another engine may help; most expensive: {dearest}"
    # The same work with the same number of threads is close to the peak, so nothing else can help.
    bounded = ratio >= PROVEN and headroom.covered_ratio >= PROVEN and not headroom.unbounded
    only, help_ = (f"only {more}", "will help") if bounded else (more, "may help")
    if headroom.memory_bound:
        return f": {only}smaller weights (int8, 4 bits) or a larger batch {help_}"
    if headroom.int8:
        return f", already in int8: {only}a smaller model or another machine {help_}"
    return f": {only}int8 or another engine {help_}"
