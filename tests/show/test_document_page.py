"""Any document as a page: whole, offline, its answer first, and no name in it is markup."""

from __future__ import annotations

import msgspec
import pytest

import golden
import golden_profile
from ortune.show.chart import Axis, Box, Chart, Dot, IntervalMark, Segment
from ortune.show.document import Cell, Code, Column, Document, Fold, Head, Line, Pairs, Points, Section, table
from ortune.show.html import document_page, pages
from pages import Page, require_offline, require_our_script, require_places, require_readable, require_whole

NASTY = golden_profile.HOSTILE
AXIS = Axis(low=0.5, high=1.5, ticks=((1.0, "A"),), strong=1.0)


def document(name: str = "a") -> Document:
    """One of every block."""
    return Document(
        title=f"ortune look: {name}",
        before=[Line(f"before {name}", "look")],
        blocks=[
            Line(f"the answer {name}", "strong"),
            Line(f"beside it {name}", "faint"),
            Pairs(title=name, rows=[(name, name), ("", name)]),
            Pairs(rows=[(name, name)], stacked=True),
            Points(title="points", items=[name], marked=True),
            table(
                [Column("", "text"), Column("time"), Column("node", "name")],
                [[name, "1", Cell(name, name, "bad")], ["b", "2", name]],
                title="shares",
                bars=[0.2, 1.0],
                notes=[name],
            ),
            Code(title="next", lines=[name, "ortune tune"], commands=True),
            Section(
                title=name,
                note=name,
                name="drawn",
                blocks=[
                    Chart(
                        title=name,
                        alt=name,
                        marks=(
                            Box(x0=0, x1=1, hue="winner", text=name, about=name),
                            Dot(x=0.5, text=name, about=name),
                            Segment(x0=0, x1=1),
                            IntervalMark(middle=1.1, low=None, high=2.0, sure=True),
                        ),
                        height_px=50,
                        x=AXIS,
                        y=Axis(ticks=((0.5, name),)),
                        legend=(("winner", name),),
                    ),
                    Fold(title=name, blocks=[Pairs(rows=[(name, name)])]),
                    table(
                        [Column(name, "name"), Column("", "chart", axis=AXIS, ends=(name, name))],
                        [
                            [
                                Cell(name, about=name),
                                Cell(name, marks=(IntervalMark(middle=1, low=1, high=1),)),
                            ]
                        ],
                        title=name,
                    ),
                ],
            ),
        ],
        head=Head(
            large=name,
            unit=name,
            values=[("winner", name, name)],
            beside=Section(title=name, blocks=[Line(name)]),
        ),
    )


def whole(text: str) -> Page:
    require_whole(text)
    require_offline(text)
    require_our_script(text)
    require_readable(text)
    require_places(text)
    return Page(text)


def test_every_block_is_on_the_page_and_the_answer_is_its_heading() -> None:
    text = document_page.render(document(), "look")
    seen = whole(text)
    assert "<h1>the answer a</h1>" in text and "<title>a: a a</title>" in text
    for part in ("before a", "beside it a", "Points", "shares time node", "1 a a", "ortune tune"):
        assert part in seen.text, part
    assert text.count('class="box time sure"') == 2 and text.count("<pre") == 2


@pytest.mark.parametrize("name", NASTY)
def test_names_are_shown_as_they_are_and_do_nothing(name: str) -> None:
    text = document_page.render(document(name), "look")
    seen = whole(text)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    assert seen.text.count(shown) >= 30
    plain = Page(document_page.render(document(), "look"))
    assert {n for n, _ in seen.elements} == {n for n, _ in plain.elements}
    assert "\x1b" not in text and "\u202e" not in text


def test_a_comparison_shows_its_interval_and_where_the_difference_lies() -> None:
    envelope = golden.compared(why=golden_profile.difference())
    text = pages.render(envelope)
    seen = whole(text)
    assert "Where the difference lies" in seen.text and text.count("box more sure") == 4
    assert "Why, from profiles of both" not in seen.text  # the tables hold its rows
    assert "why B takes 3.20 ms" in seen.text
    assert 'class="span winner sure"' in text or 'class="span bad sure"' in text
    assert "p50, 24 blocks" in seen.text
    assert len(text.encode()) < 200_000


def test_what_is_within_noise_is_folded() -> None:
    found = golden_profile.difference()
    quiet = msgspec.structs.replace(found.nodes[0], low_ns=-1e9, high_ns=1e9, b_flops=found.nodes[0].a_flops)
    text = pages.render(golden.compared(why=msgspec.structs.replace(found, nodes=(quiet, *found.nodes[1:]))))
    folded = text[text.rindex("within noise</summary>") :].partition("</details>")[0]
    assert quiet.name in folded
    assert text.count(f"<code>{quiet.name}</code>") == 1


def test_a_comparison_that_timed_nothing_has_a_page_too() -> None:
    whole(pages.render(golden.compared(comparison=None, base_figures=None, new_figures=None)))
