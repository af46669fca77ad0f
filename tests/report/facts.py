"""What a text says, whatever its words: figures with their units, verdicts, names and options, in their order."""

from __future__ import annotations

import re

VERDICTS = (
    "faster", "slower", "less", "more", "no", "not", "nothing", "inconclusive", "equivalent", "wrong", "failed",
    "FAILED", "MISSED", "WORSE", "SLOWER", "undecided", "confirmed", "unconfirmed", "exploratory", "retired", "passed",
    "guess", "identical", "best", "winner", "default", "today", "median",
)  # fmt: skip
UNITS = (
    "ns",
    "us",
    "ms",
    "s",
    "min",
    "h",
    "%",
    "x",
    "KiB",
    "MiB",
    "GiB",
    "GB/s",
    "GFLOP/s",
    "GOP/s",
    "GFLOP",
    "FLOP",
)
FACT = re.compile(
    r"--[a-z][\w-]*(?:=\S+?(?=[\s,;:)]|$))?"  # an option, with its value where that is joined to it
    r"|[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?:-\d+(?:\.\d+)?)?"  # a figure or a range
    rf"(?:\s?(?:{'|'.join(map(re.escape, sorted(UNITS, key=len, reverse=True)))})(?![\w/]))?"
    r"|(?<!\w)p\d\d(?!\w)"
    r"|(?<!\w)[A-Z]{3}\d{3}(?!\w)"  # a code
    r"|[\w.]*[\w]=[\w.:-]*\w"  # a setting
    r"|[\w.-]*(?:/[\w.-]+)+"  # a path, or the name of a node
    r"|(?<![\w.])\w+\.(?:onnx|json|html|ort|py)\b"
    rf"|(?<!\w)(?:{'|'.join(VERDICTS)})(?!\w)"
)


def facts(text: str) -> list[str]:
    """The facts of a text in their order."""
    return [" ".join(fact.split()) for fact in FACT.findall(" ".join(text.split()))]


def says(text: str, what: str) -> bool:
    """Whether a text holds these facts one after the other, with nothing but words between them."""
    mine, theirs = facts(what), facts(text)
    assert mine, f"no fact in {what!r}"
    return any(theirs[i : i + len(mine)] == mine for i in range(len(theirs)))
