"""The rules of the language of every page: retired words with what replaces them, spelling, and length of sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LONGEST = 30
"""Words of a sentence, without code and what stands in brackets."""

RETIRED = {
    # Ours alone: the field has a word.
    r"\bdear(er|est)\b": "more or most expensive",
    r"fastest tenth": "p10",
    r"middle half of the (trials|processes)": "IQR",
    r"would have been seen": "minimum detectable effect",
    r"(an|the) identical plan (looked|did not look|must look) identical": "A/A check",
    r"\ba known wait (of|\.)|\bpositive control,": "sensitivity check",
    r"the default stays": "no gain confirmed",
    r"no time for": "not tested",
    r"did not fit the budget": "not tested: budget too small",
    r"\bbudget (does not hold|holds not|holds no)\b": "the budget is too small",
    r"read back: (effect|echo)|[Ss]et, not verified": "verified, accepted, not verified",
    r"(x|its|their|the) floor": "roofline bound",
    r"the machine has phases": "performance drifted",
    r"\bcontestants?\b": "configuration",
    r"\bled the race\b": "looked fastest",
    r"\bleft aside\b": "rejected",
    r"\bin fewer bits\b|\bfloat and fewer bits\b": "lower precision, quantized",
    r"\bnot measured often enough\b": "too few samples",
    r"\btrembles?\b": "varies",
    r"\bunquiet\b": "busy",
    r"\b[Oo]pen sizes?\b|\bsizes? (that are|left|is) open\b": "dynamic dimension",
    r"\w (races|raced)\b|\b(races|raced) \w": "measures, compares",
    r"\bshown to pay\b|\bdid not pay\b|\bbrings? nothing\b": "gain confirmed, no gain",
    r"\b(is|are|be) no claims?\b": "claims nothing",
    r"\bnot proven\b": "unconfirmed",
    r"\bmade one with\b": "fused with",
    r"\btakes? (it|them) up\b|\btake them up\b": "fold",
    # Of a translation: a plain verb is there.
    r"\b(lies?|stands?) (beside|beyond|behind)\b": "is stored as external data; follows",
    r"\bstands? in (brackets|one|the way)\b": "is",
    r"\b(before and|and others) behind\b|\bbehind (it|them|NMS)\b": "after",
    r"\b(makes?|made) no sense\b": "is implausible",
    r"\bleft to the CPU\b": "on the CPU",
    r"\bthat were invented\b|\b[Ii]nvented inputs\b": "synthetic",
    r"\bfor want of\b": "because",
    r"\bthe one (fix|configuration) (measured|tried)\b": "only",
    r"\bat most at\b": "no further than",
    r"\b(what|nothing) stands out\b": "findings",
    r"\bheld against\b": "compared with",
    r"\bso that\b": "so",
    r"\bin place of\b": "instead of",
    r"\bat (each|every) call\b": "in every run",
    r"\b(is|are) told\b|\btells\b": "reports, shows",
    r"\banew\b": "again",
    r"\bsomebody\b|\bsomebody else's\b": "the user, another program",
    r"\binvented (inputs?|values?|data)\b": "synthetic",
    r"\bof its own accord\b|\bby itself alone\b": "automatically, alone",
    r"\btake[ns]? for unknown\b": "cannot treat as constants",
    r"\bright results\b": "correct outputs",
    r"\bagain and again\b": "repeatedly",
    r"\bhangs on\b": "depends on",
    r"\bmeanwhile ended\b|\bat once again\b": "immediately",
    # Numbers and spelling.
    r"\b1 (blocks|nodes|runs|trials|threads|processes|findings|inputs|outputs|layers|files|settings)\b": "1 block",
    r"\b\d+(us|ns|MiB|GiB|KiB|MB|GB)\b(?![\"'`_])": "a space before a unit",
}
"""Retired words as patterns, each with its replacement."""

SPELLED = {
    r"\b([Oo]ptimi|[Rr]ecogni|[Ii]nitiali|[Nn]ormali|[Ss]eriali|[Ss]ummari|[Mm]inimi|[Mm]aximi|[Vv]ectori|[Pp]aralleli"
    r"|[Ss]peciali|[Uu]tili|[Oo]rgani|[Mm]emori)z(e[ds]?|ing|ers?|able|ations?)\b": "-ise",
    r"\b([Qq]uanti|[Dd]equanti)s(e[ds]?|ing|ers?|able|ations?)\b": "-ize, as ONNX Runtime writes it",
}
"""One spelling in prose: British, but quantize."""

NAMES = re.compile(
    r"`[^`]*`|\"[^\"]*\"|graph optimization level|[Ii]nitializers?|\w+Normalization|\w*_\w*|[\w-]*-[\w-]+|[\w.]+\.\w+|Normalizer|https?://\S+"
)
"""What is quoted, or is a name of ONNX or ONNX Runtime, and keeps its spelling."""


def breaches(sentence: str) -> Iterator[str]:
    """What a sentence does against the rules."""
    for pattern, better in RETIRED.items():
        if match := re.search(pattern, sentence):
            yield f"{match[0]!r}: {better}"
    for pattern, better in SPELLED.items():
        if match := re.search(pattern, NAMES.sub("", sentence)):
            yield f"{match[0]!r}: {better}"
    words = re.sub(r"\([^()]*\)|`[^`]*`,?", "", sentence).split()
    if len(words) > LONGEST:
        yield f"{len(words)} words"


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """(line, sentence) of a page: paragraphs, items, headings and cells, without code and pasted output."""
    block: list[str] = []
    first, fenced = 1, False
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        text = line.strip()
        if text.startswith("```"):
            fenced = not fenced
        starts = fenced or not text or bool(re.match(r"([-*|#>]|\d+\.) ?|<!--|```|\||!\[", text))
        if starts and block:
            quoted = block[0].startswith("**References.**")  # titles of others
            yield from ((first, each) for each in sentences(" ".join(block)) if not quoted)
            block = []
        if fenced or not text or re.match(r"```|<!--|\|[-| :]+\|$|!\[", text):
            continue
        if text.startswith("|"):
            yield from ((number, each) for cell in text.strip("|").split("|") for each in sentences(cell))
            continue
        first = number if not block else first
        block.append(re.sub(r"^([-*>]|#+|\d+\.) ", "", text))


def sentences(text: str) -> Iterator[str]:
    """A text in its sentences; a colon or semicolon ends one too."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    yield from (each.strip() for each in re.split(r"(?<=[.;:?!]) (?=\S)|(?<=\.\*\*) ", plain) if each.strip())
