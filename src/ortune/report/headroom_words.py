"""What can still be won, in one sentence: outside the kernels, and in them up to the machine's peak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ortune.records import Headroom
from ortune.report.numbers import shorten

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

NEAR = 0.7  # of the peak: a product of usual shapes seldom gets nearer
PROVEN = 0.9  # of the peak, in so much of the kernels' time: from there on kernels leave nothing to settings
COVERED = 0.5  # of the kernels' time: with less of it known, a ratio would speak of the rest too
SMALL = 0.5  # of the run: where kernels take less, they are not what the run consists of
MOSTLY = 0.5  # of the kernels' time: where executions too short to judge take more, they are what there is
TELLING = 0.2  # of the peak: a run that consists of other things than kernels says less of them
COSTS = 1.1  # times the run without the profiler: from there on the profiler's own cost is told
LONGEST = 60


def worded(found: Headroom) -> Headroom:
    """The headroom with its sentence."""
    return msgspec.structs.replace(found, sentence=sentence(found))


def sentence(found: Headroom) -> str:
    """All of it in one sentence."""
    why = f"nothing bounds what can be won ({found.unbounded}); " if found.unbounded else ""
    if found.settings_ratio is None:
        return f"{why}{_disturbed(found)}{_plain(found)}"
    inside = _device(found.device_ratio) if found.device_ratio > SMALL else _kernels(found)
    return f"{why}{_outside(found, found.settings_ratio)}; {inside}"


def _limited(found: Headroom) -> bool:
    """Whether more threads could be used."""
    return 0 < found.threads < found.cpus


def _whose(found: Headroom) -> str:
    """What has the peak that the kernels are held against."""
    if not _limited(found):
        return "this machine's"
    return "one thread's" if found.threads == 1 else f"{found.threads} threads'"


def _disturbed(found: Headroom) -> str:
    what = f"the profiler, or that {found.busy}, makes" if found.busy else "the profiler itself makes"
    longer = f"{found.slowdown_ratio or 0.0:.1f} times as long"
    return (
        f"{what} this run, at its fastest, take {longer}, so its parts do not tell what settings can win: "
        "only ortune tune does"
    )


def _plain(found: Headroom) -> str:
    """How near the kernels are at least, from the run without the profiler; "" where that says next to nothing."""
    ratio = found.plain_kernels_ratio
    return (
        f"; its kernels run at {round(100 * ratio)} % or more of {_whose(found)} peak"
        if ratio >= TELLING
        else ""
    )


def _outside(found: Headroom, outside: float) -> str:
    # Beside other programs the mean run, which tables show, has other parts than the one that nothing disturbs.
    run = "the run at its fastest" if found.busy else "the run"
    used = "is" if found.threads == 1 else "are"
    more = f"; in them more threads may win ({found.threads} of {found.cpus} CPUs {used} used)"
    more = more if _limited(found) else ""
    if outside < 0.005:
        return f"next to nothing of {run} is outside the kernels{more}"
    shown = ", ".join(f"{word} {percent}" for word, percent in _whole(_by_word(found.parts), outside))
    own = ""
    if found.slowdown_ratio is None:
        own = "; what the profiler itself costs is in it, and not known"
    elif found.slowdown_ratio > COSTS:
        own = "; what the profiler itself costs is in it"
    return f"{round(100 * outside)} % of {run} is outside the kernels ({shown}{own}){more}"


def _by_word(parts: Mapping[str, float]) -> dict[str, float]:
    words: dict[str, float] = {}
    for name, share in parts.items():
        words[_WORDS[name]] = words.get(_WORDS[name], 0.0) + share
    return words


def _whole(words: Mapping[str, float], settings: float) -> Iterator[tuple[str, int]]:
    """Whole percents that add up to that of all, the largest first; none of 0."""
    found = {word: int(100 * share) for word, share in words.items()}
    missing = round(100 * settings) - sum(found.values())
    for word in sorted(words, key=lambda w: 100 * words[w] - found[w], reverse=True)[: max(0, missing)]:
        found[word] += 1
    for word, percent in sorted(found.items(), key=lambda item: -item[1]):
        if percent:
            yield word, percent


def _device(share: float) -> str:
    return (
        f"{round(100 * share)} % of the run waits for the device: only faster kernels there, or fewer of them, make it "
        "shorter"
    )


def _kernels(found: Headroom) -> str:
    covered, whose = found.covered_ratio, _whose(found)
    if sum(found.parts.values()) > SMALL:
        words = _by_word(found.parts)
        remedy = _REMEDIES[max(words, key=words.__getitem__)]
        return f"less than half of the run is kernels: {remedy} before faster kernels do"
    if found.kernels_ratio is None:
        faster = "they are faster than the stored one (ortune doctor measures it again)"
        why = found.no_peak or found.busy or (faster if found.beyond_peak else "")
        return f"how near the kernels are to {whose} peak is not known{f': {why}' if why else ''}"
    if covered < COVERED:
        return f"how near the kernels are to {whose} peak is known for only {round(100 * covered)} % of their time"
    if found.overhead_ratio > MOSTLY:
        each_us = found.overhead_ns / found.overhead_calls / 1000
        return (
            f"most of the kernels' time goes to {found.overhead_calls:.0f} executions of {each_us:.1f} us, too short "
            "for any peak to matter: overhead for each node bounds them, and fewer nodes or larger batches help"
        )
    what = "memory bandwidth" if found.memory_bound else "peak"
    partly = f" in the {round(100 * covered)} % of their time that is known" if covered < PROVEN else ""
    known = f" ({found.peak_of})" if found.peak_of else ""
    return (
        f"the kernels run at {round(100 * found.kernels_ratio)} % of {whose} {what}{partly}{known}"
        f"{_next(found, found.kernels_ratio)}"
    )


def _next(found: Headroom, ratio: float) -> str:
    """What may make the kernels faster; only this will, where they are near enough to the peak."""
    more = "more threads, " if _limited(found) else ""
    if ratio < NEAR:
        most = "threads, " if not _limited(found) and found.threads != 1 else more
        dearest = ", ".join(
            f"{shorten(n.name, LONGEST) or 'a node without a name'} "
            f"({n.op_type}, {round(100 * n.share_ratio)} % of what is lost)"
            for n in found.dearest
        )
        return f": {most}fusions, layout or another engine may help; most expensive: {dearest}"
    # Known to leave nothing to be won with the same work and the same threads.
    bounded = ratio >= PROVEN and found.covered_ratio >= PROVEN and not found.unbounded
    only, help_ = (f"only {more}", "will help") if bounded else (more, "may help")
    if found.memory_bound:
        return f": {only}smaller weights (int8, 4 bits) or a larger batch {help_}"
    if found.int8:
        return f", in int8 already: {only}a smaller model or another machine {help_}"
    return f": {only}int8 or another engine {help_}"
