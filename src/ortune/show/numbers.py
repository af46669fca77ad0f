"""Formatting of times, sizes, ratios and counts for people."""

from __future__ import annotations

import math
import re

from ortune.durations import as_option, in_words

NOMINAL = 0.95
"""Level of intervals without an explicit level; with several claims, the level holds for all claims together."""
MOST_DETECTABLE = 1.0
"""Minimum detectable effect, as a fraction, that is too large to be shown as a number."""


def duration(nanoseconds: float, digits: int = 3) -> str:
    """Format a time with ``digits`` significant digits, in a suitable unit: "9.87 ms", "1.20 s", "92 min"."""
    if abs(nanoseconds) >= 1e12:
        return in_words(nanoseconds / 1e9)
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(nanoseconds) >= size:
            return f"{significant(nanoseconds / size, digits)} {unit}"
    return f"{nanoseconds:.{digits - 3}f} ns"


def significant(value: float, digits: int = 3) -> str:
    """Format a number with ``digits`` significant digits and without an exponent."""
    whole = 1 if abs(value) < 10 else 2 if abs(value) < 100 else 3
    return f"{value:.{digits - whole}f}"


UNKNOWN = "not known"


def memory(size_bytes: float | None, digits: int = 3) -> str:
    """Format a memory size as whole MiB, or as GiB with decimals from 1 GiB on; None is "not known".

    With more than three digits, MiB have decimals too.
    """
    if size_bytes is None:
        return UNKNOWN
    if size_bytes >= 2**30:
        return f"{size_bytes / 2**30:.{digits - 1}f} GiB"
    mebibytes = size_bytes / 2**20
    return f"{mebibytes:.0f} MiB" if digits <= 3 else f"{significant(mebibytes, digits - 1)} MiB"


def percent(share: float | None, digits: int = 1) -> str:
    """Format a fraction in percent: 0.021 is "2.1 %"; None is "nothing"."""
    return "nothing" if share is None else f"{100 * share:.{digits}f} %"


def whole_percent(share: float) -> str:
    """Format a fraction in whole percents: "21 %", "under 1 %"."""
    return f"{100 * share:.0f} %" if share >= 0.01 else "under 1 %"


def speed(ratio: float) -> str:
    """Format a time ratio as a speed: 0.90 is "1.11x faster", 1.05 is "1.05x slower"."""
    return f"{factor(1 / ratio)}x faster" if ratio < 1 else f"{factor(ratio)}x slower"


def factor(value: float) -> str:
    """Format a factor with three digits, or up to four decimals if it would round to 1: "1.34", "12.3", "1.004"."""
    if value >= 10:
        return significant(value)
    digits = next((n for n in (2, 3) if float(f"{value:.{n}f}") != 1), 4)
    return f"{value:.{2 if value == 1 else digits}f}"


def times(value: float) -> str:
    """Return a factor: "1.11x", "17.3x"."""
    return f"{significant(value)}x"


def factors(ratio_low: float | None, ratio_high: float | None) -> str:
    """Return an interval of time ratios as speed-up factors: "1.09-1.13"; a missing bound is described in words."""
    if not ratio_low:
        return f"{significant(1 / ratio_high)} or more" if ratio_high else "no bound"
    return (
        f"{significant(1 / ratio_high)}-{significant(1 / ratio_low)}"
        if ratio_high
        else f"up to {significant(1 / ratio_low)}"
    )


def change(ratio: float) -> str:
    """Format a ratio as a signed change: 0.981 is "-1.9 %". Changes close to -100 % have more digits: "-99.98 %"."""
    percents = 100 * (ratio - 1)
    digits = next((n for n in (1, 2, 3) if percents == -100 or f"{percents:.{n}f}" != f"{-100:.{n}f}"), 4)
    return f"{percents:+.{digits}f} %"


def change_words(ratio: float, below: str, above: str) -> str:
    """Return a ratio as a change with a word for its direction: 0.877 is "12.3 % less" for ``below`` "less"."""
    return f"{change(ratio)[1:]} {below if ratio < 1 else above}"


def span(ratio_low: float, ratio_high: float | None) -> str:
    """Return an interval as signed changes: "-1.2 % to +0.4 %"; a missing bound is described in words."""
    if ratio_high is None:
        return f"{change(ratio_low)} or more" if ratio_low else "no bound"
    return f"{change(ratio_low)} to {change(ratio_high)}" if ratio_low else f"up to {change(ratio_high)}"


def interval_name(level: float) -> str:
    """Return the name of an interval by its level: "95 % interval", "96.9 % interval"."""
    return f"{100 * level:.3g} % interval"


def detectable(share: float | None) -> str:
    """Format a minimum detectable effect: "2.1 %", or "cannot be told (above 100 %)" from 100 % on."""
    if share is None:
        return UNKNOWN
    return (
        percent(share) if share < MOST_DETECTABLE else f"cannot be told (above {percent(MOST_DETECTABLE, 0)})"
    )


def rounding(text: str) -> float:
    """Return the rounding error of a formatted number relative to its value: half a unit of its last digit."""
    # "12.3 ms" may be off by 0.05, which is 0.4 % of it.
    match = re.match(r"[\d,]+(?:\.(\d+))?", text)
    value = float(match[0].replace(",", "")) if match else 0.0
    return 0.5 * 10.0 ** -len((match and match[1]) or "") / value if value else 0.0


def rate(nanoseconds: float, digits: int = 3) -> str:
    """Format the throughput that corresponds to a time per run: "847 runs/s"."""
    a_second = 1e9 / nanoseconds if nanoseconds else float("inf")
    return f"{a_second:,.0f} runs/s" if a_second >= 1000 else f"{significant(a_second, digits)} runs/s"


def difference(relative: float) -> str:
    """Format a relative difference of outputs: "identical" for 0, or else "equal within 3e-7"."""
    return "identical" if relative == 0 else f"equal within {relative:.0e}".replace("e-0", "e-")


ROOM = 1.2
"""Factor by which a suggested budget exceeds the time that measuring takes."""


def waiting(seconds: float) -> str:
    """Return a duration with one or two digits, as an estimate: "40 s", "6 min", "3 h"."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1.0, float(f'{seconds:.1g}')):.0f} s"


def enough(seconds: float) -> str:
    """Return the ``--budget`` option that allows ``seconds`` of measuring, with a margin."""
    # Rounded up to tens of seconds: 70 s of measuring are --budget 90s.
    return f"--budget {as_option(math.ceil(ROOM * seconds / 10) * 10)}"


def likeness(cosine: float) -> str:
    """Format a cosine with enough digits that it is not rounded to 1: "0.97", "0.99999"."""
    digits = next((n for n in range(2, 9) if float(f"{cosine:.{n}f}") != 1), 9)
    return "1" if cosine >= 1 else f"{cosine:.{digits}f}"


def shorten(text: str, length: int = 40) -> str:
    """Shorten a text to ``length`` characters in the middle, because paths differ at their ends."""
    if len(text) <= length:
        return text
    tail = (length - 3) * 2 // 3
    return f"{text[: length - 3 - tail]}...{text[-tail:]}"


def shorten_end(text: str, length: int = 150) -> str:
    """Shorten a text to ``length`` characters at the end."""
    return text if len(text) <= length else text[: length - 3].rstrip() + "..."


def shorten_list(text: str, length: int) -> str:
    """Shorten a list to ``length`` characters by dropping its last items: "a, b, ..."; no word is cut."""
    items = text.split(", ")
    for n in range(len(items), 0, -1):
        kept = ", ".join(items[:n]) + (", ..." if n < len(items) else "")
        if len(kept) <= length:
            return kept
    return f"{items[0].partition(':')[0]}{', ...' if len(items) > 1 else ''}"


def size(n_bytes: int) -> str:
    """Return a file size: "713 B", "12.3 KiB", "4.52 MiB", "1.90 GiB"."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if n_bytes >= scale:
            return f"{significant(n_bytes / scale)} {unit}"
    return f"{n_bytes} B"


def operations(count: float) -> str:
    """Format a number of floating-point operations: "5.91 GFLOP", "12.3 MFLOP"."""
    for unit, scale in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if count >= scale:
            return f"{significant(count / scale)} {unit}"
    return f"{count:.0f} FLOP"


def counted(number: int, one: str, many: str = "") -> str:
    """Format a number with its noun, in the singular or plural: "1 call", "1,200 calls"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
