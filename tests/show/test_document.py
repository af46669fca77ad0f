"""The document model: every kind of block, with names from files in every place, in all three renderers."""

from __future__ import annotations

import re

import pytest

import golden
from ortune.show import github, markdown, terminal
from ortune.show.chart import Box, Chart
from ortune.show.document import (
    Annotation,
    Cell,
    Code,
    Column,
    Document,
    Fold,
    Line,
    Pairs,
    Points,
    Section,
    table,
)

HOSTILE = (
    "\x1b[31m",
    "[bold]x[/bold]",
    "a|b",
    "x\n::error::y",
    "\u202e",
    "<b>&amp;",
    "`*_~#",
    "a%0A::error::b,c",
)


def everywhere(name: str) -> Document:
    """A document with the name in every text that there is."""
    kinds = (Column(name, "label"), Column(name, "text"), Column(name), Column(name, "name"))
    rows = [[Cell(name, name, "look")] * 4]
    return Document(
        title=name,
        before=[Line(name, "faint")],
        blocks=[
            Line(name),
            Line(name, "strong"),
            Pairs(rows=[(name, name)], title=name),
            Pairs(rows=[(name, name)], stacked=True),
            Points(items=[name], title=name),
            Points(items=[name], title=name, marked=True),
            table(kinds, rows, title=name, notes=[name]),
            table([Column(""), *kinds[:3]], rows, title=name, bars=[0.5], dense=True),
            table([Column(""), Column("")], [[name, name]], title=name),
            Code(title=name, lines=[name]),
            Code(title=name, lines=[name, name], commands=True),
            Chart(title=name, alt=name, marks=(Box(x0=0, x1=1, text="drawn"),), height_px=9),
            Fold(title=name, blocks=[Line(name)]),
            Section(title=name, note=name, blocks=[Line(name)]),
            table([Column(name), Column("drawn", "chart")], [[name, "drawn"]]),
        ],
        annotations=[Annotation(level="warning", title=name, lines=[name, name])],
    )


def visible(name: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_is_shown_as_it_is_at_a_terminal(name: str) -> None:
    text = golden.printed(everywhere(name), 200)
    assert text.count(visible(name)) == 55
    assert "drawn" not in text
    assert all(c.isprintable() for line in text.splitlines() for c in line)
    assert not any(line.startswith("::error") for line in text.splitlines())


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_is_no_markup_in_markdown(name: str) -> None:
    lines = markdown.render(everywhere(name)).splitlines()
    assert all(c.isprintable() for line in lines for c in line)
    for line in lines:
        assert not line.startswith("::")
        if line.startswith("    "):
            continue  # code, where nothing is markup
        # What the renderer writes itself, and what is escaped, is taken away: no sign may be left.
        own = re.sub(r"\\[^a-zA-Z0-9\s]|&amp;", "", line)
        own = re.sub(r"^#+ |^\*+|\*+$|^\|[-:|]+\|$|(^| )\|( |$)", " ", own)
        assert not re.search(r"[`*_~#<>&|\[\]]", own), line
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("| ")}
    assert columns == {2, 3, 5}
    assert not any("drawn" in line for line in lines)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_starts_no_workflow_command(name: str) -> None:
    text = github.render(everywhere(name))
    assert text.count("\n") == 1 and text.endswith("\n")
    assert all(c.isprintable() for c in text.rstrip("\n"))
    command, _, rest = text.removeprefix("::").partition(" title=")
    title, _, message = rest.partition("::")
    assert command == "warning"
    assert ":" not in title and "," not in title
    # Of the line ends that the command holds, only the renderer's own is read as one.
    assert message.count("%0A") == 1


def test_empty_blocks_leave_nothing() -> None:
    empty = [Line(""), Pairs(rows=[], title="x"), Points(items=[], title="x"), Code(title="x", lines=[])]
    empty += [Chart(title="x", alt="x", marks=(), height_px=9), Section(title="x", note="x", blocks=[*empty])]
    empty += [Fold(title="x", blocks=[*empty])]
    document = Document(blocks=[Line("first"), *empty, table([Column("x")], [], title="x"), Line("last")])
    assert golden.printed(document, 80) == "first\nlast\n"
    assert markdown.render(document) == "first\n\nlast\n"


def test_what_is_titled_is_indented_and_folds_under_itself() -> None:
    long = " ".join(["word"] * 30)
    blocks = [Pairs(rows=[("name", long)], title="t"), Points(items=[long], title="t", marked=True)]
    lines = golden.printed(Document(blocks=blocks), 60).splitlines()
    assert [line for line in lines if not line.startswith("  ")] == ["t", "", "t"]
    assert any(line.startswith(" " * 8 + "word") for line in lines)


def test_a_title_stands_in_the_place_of_a_head_that_is_not_there() -> None:
    found = table([Column("", "text"), Column("ms")], [["a", "1"]], title="times")
    assert golden.printed(Document(blocks=[found]), 40).split() == ["times", "ms", "a", "1"]
    assert markdown.render(Document(blocks=[found])) == "| times | ms |\n|---|---:|\n| a | 1 |\n"


def test_what_stands_beneath_a_name_begins_with_what_matters_where_there_is_no_room() -> None:
    cell = Cell("conv1/Conv", "Conv fused with Relu_1 and 2 more as /conv1/Relu_output_0_nchwc")
    text = golden.printed(
        Document(blocks=[table([Column("node", "name"), Column("")], [[cell, "1 ms"]])]), 60
    )
    assert "  Conv fused with Relu_1 and 2 more as /con" in text and "..." in text


def test_words_of_a_table_are_whole_in_a_narrow_terminal() -> None:
    heads = ("regions", "nodes of the model", "work", "copied per run")
    columns = [
        Column("provider", "label"),
        Column("model", "label"),
        *map(Column, heads),
        Column("verdict", "text"),
    ]
    verdict = "dynamic dimensions are not supported"
    row = ("nnapi", "after rewrites", "12", "379 of 398", "100 %", "4.27 MiB", verdict)
    page = golden.printed(Document(blocks=[table(columns, [row])]), 80)
    assert max(map(len, page.splitlines())) <= 80
    # "copied per run" has cells of eight characters, and "nodes of the model" of ten.
    assert "per run" in page and "nodes of" in page and "the model" in page
    assert {*verdict.split(), "379 of 398"} <= {*page.split(), *re.findall("379 of 398", page)}


@pytest.mark.parametrize("width", [62, 80, 90, 100, 120])
def test_a_wrapped_table_loses_no_character(width: int) -> None:
    heads = ("", "plan", "p50", "CPU time per run", "peak memory", "")
    kinds = ("text", "text", "number", "number", "number", "text")
    figures = ("21.1 ms", "6.37 ms", "76 MiB")
    rows = [
        ("fastest confirmed", "default", *figures, "kept"),
        ("least CPU time", "intra_op_num_threads=1", *figures, "not confirmed, 2 search blocks"),
    ]
    columns = [Column(head, kind) for head, kind in zip(heads, kinds, strict=True)]
    page = golden.printed(Document(blocks=[table(columns, rows)]), width)
    assert max(map(len, page.splitlines())) <= width
    assert sorted("".join(page.split())) == sorted("".join("".join(map("".join, (heads, *rows))).split()))


def test_code_is_never_folded_and_what_supports_an_answer_is_shown_where_it_is_asked_for() -> None:
    command = "ortune tune " + "a-folder/" * 30 + "model.onnx"
    found = Document(
        blocks=[Line("the answer"), Code(title="next", lines=[command], commands=True)], support=[Line("why")]
    )
    assert golden.printed(found, 40).splitlines() == ["the answer", "", "next:", command]
    assert command in terminal.plain(found) and "why" not in terminal.plain(found)
    assert golden.printed(found, 40, whole=True).splitlines()[-1] == "why"
    assert "why" in terminal.plain(found, whole=True) and "why" in markdown.render(found)
