"""A document as one page: its answer large, then its blocks in their order; of a comparison the intervals as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ortune.records import CompareResult, Comparison, Envelope, holds
from ortune.report import escape, sides
from ortune.report.answer import KINDS
from ortune.report.document import Block, Code, Column, Document, Line, Pairs, Points, Table
from ortune.report.html import frame, svg
from ortune.report.html.profile import difference
from ortune.report.numbers import speed
from ortune.report.tune_words import factors, times

PRODUCTS = {"look": "first look", "compare": "comparison", "history": "releases compared", "lock": "snapshot"}
"""What a page is called where that is not its verb's name."""
ANSWERS = ("strong", "good", "bad", "unsure")
BAR_PX = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Blocks under one title, each as its kind and what the template shows of it."""

    title: str
    blocks: list[tuple[str, Any]]


PROVEN = ("faster", "slower", "equivalent")


def render(document: Document, verb: str, envelope: Envelope[Any] | None = None, *, stored: str = "") -> str:
    """The page as one HTML document; it fetches nothing.

    Args:
        document: What is said.
        verb: Whose it is.
        envelope: The document's own, for what a terminal cannot draw.
        stored: Of a session that is told again, the line that says so.
    """
    blocks = document.filled(whole=True)
    answers = _answers(blocks)
    rest = blocks[len(answers) :]
    subject = document.title.partition(": ")[2] or _model(envelope)
    kind = KINDS.get(verb)
    spoken = (
        kind.headline(envelope.result)
        if kind and envelope and isinstance(envelope.result, kind.result)
        else ""
    )
    head = (
        next((line.text for line in answers if line.tone in ANSWERS), "")
        or spoken
        or subject
        or document.title
    )
    compared = envelope if envelope is not None and holds(envelope, CompareResult) else None
    large = _large(compared.result) if compared else ""
    why = compared.result.why if compared else None
    host = envelope.host if envelope else None
    return frame.page(
        "document.html.j2",
        product=PRODUCTS.get(verb, verb),
        subject=subject,
        origin=f"on {host.cpu}" if host and host.cpu else "",
        title=large or PRODUCTS.get(verb, verb),
        basis="Intervals are of 95 % over fresh processes, where one is given; other values are single observations.",
        ortune=envelope.ortune if envelope else "",
        session=getattr(envelope.result, "session", "") if envelope else "",
        styles=["style.css", "profile.css", "document.css"],
        stored=stored,
        large=large,
        head=head,
        answers=[line for line in answers if line.text != head],
        before=document.before,
        forest=_forest(compared.result) if compared else None,
        parts=_parts(
            rest, drop="why" if why else "", model=envelope.model.path if envelope and envelope.model else ""
        ),
        why=difference.of(why) if why else None,
        why_note=difference.NOTE,
        bars=_bars,
        tones=ANSWERS,
    )


def _model(envelope: Envelope[Any] | None) -> str:
    """The model's name, without its folder; of a git revision all that was typed."""
    path = envelope.model.path if envelope is not None and envelope.model is not None else ""
    return path if "@" in path else PurePath(path).name


def _answers(blocks: Sequence[Block]) -> list[Line]:
    """The lines that a document begins with."""
    found = []
    for block in blocks:
        if not isinstance(block, Line):
            break
        found.append(block)
    return found


def _parts(blocks: Sequence[Block], drop: str, model: str) -> list[Part]:
    """The blocks by title; what has none, or the model's name for one, stands with what is before it."""
    parts: list[Part] = []
    for block in blocks:
        title = (
            "" if isinstance(block, Line) else block.heads()[0] if isinstance(block, Table) else block.title
        )
        if drop and isinstance(block, Pairs) and block.rows[0][0] == drop:
            continue  # drawn in full below
        title = "" if title == model else title
        if title or not parts:
            parts.append(Part(title=title[:1].upper() + title[1:], blocks=[]))
        parts[-1].blocks.append(_shown(block))
    return parts


def _shown(block: Block) -> tuple[str, Any]:
    match block:
        case Line():
            return "line", block
        case Pairs():
            return "pairs", block
        case Points():
            return "points", block
        case Code():
            return "code", [escape.shown(line) for line in block.lines]
        case Table():
            heads = block.heads()[1]
            return "table", {
                "block": block,
                "heads": heads,
                "headed": any(heads),
                "kinds": _kinds(block.columns),
            }


def _kinds(columns: Sequence[Column]) -> list[str]:
    return [column.kind for column in columns]


def _bars(share: float) -> object:
    """A share of a row, from zero; the cells beside it say the same."""
    mark = svg.tag(
        "rect", x="0", width=svg.share(max(0.0, min(1.0, share))), y=3, height=BAR_PX, class_="bar time sure"
    )
    return svg.tag("svg", mark, class_="plot", aria_hidden="true", height=BAR_PX + 6)


def _large(result: CompareResult) -> str:
    """The answer in few words; of several sides that of the first."""
    found = result.comparison
    if found is None:
        return "Not timed"
    words = {"equivalent": "No difference", "inconclusive": "Inconclusive", "invalid": "No claim"}
    plain = words.get(found.verdict) or f"{result.name} is {speed(found.ratio)}"
    limits = [] if result.outputs.ok else ["outputs differ"]
    if found.verdict in PROVEN and not result.controls:
        limits.append("controls not run")
    return "; ".join([plain, *limits])


def _forest(result: CompareResult) -> dict[str, Any] | None:
    """Each side's interval around "as fast as A"."""
    sides = [(c.name, c.side, c.comparison) for c in result.candidates] or [
        (result.name, result.new, result.comparison)
    ]
    # Of one model with other settings its name tells nothing.
    drawn = [
        (name, side.plan.describe() if side.label == result.base.label else side.label, c)
        for name, side, c in sides
        if c is not None
    ]
    if not drawn:
        return None
    scale = svg.factor_scale([1 / v for *_, c in drawn for v in (c.ratio, c.ratio_low, c.ratio_high) if v])
    return {
        "rows": [_row(name, label, c, scale, controlled=bool(result.controls)) for name, label, c in drawn],
        "axis": svg.axis(scale, lambda t: "A" if t == 1 else times(t)),
    }


def _row(
    name: str, label: str, found: Comparison, scale: svg.Scale, *, controlled: bool
) -> dict[str, object]:
    low = 1 / found.ratio_high if found.ratio_high else None
    high = 1 / found.ratio_low if found.ratio_low else None
    sure = controlled and found.verdict in PROVEN
    kind = {"faster": "winner", "slower": "bad"}.get(found.verdict, "other")
    interval = factors(found.ratio_low, found.ratio_high)
    marks = [
        *svg.gridlines(scale, strong=1.0),
        *svg.interval(scale, 1 / found.ratio, low, high, sure=sure, kind=kind),
    ]
    return {
        "name": name,
        "label": label,
        "kind": kind,
        "factor": times(1 / found.ratio),
        "interval": interval,
        "estimand": sides.statistic(found.estimand),
        "n_blocks": found.n_blocks,
        "plot": svg.picture(f"{name} against A: {times(1 / found.ratio)} ({interval})", marks),
    }
