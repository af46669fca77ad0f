"""The progress of a command: figures, a bar, what is done, and what leads, within the width of a terminal."""

from __future__ import annotations

import pytest

from facts import facts
from ortune import notebook
from ortune.show.progress import drawn, fitted, html
from ortune.step import Step

LEADERS = (
    "fastest so far, not confirmed:",
    "1.24x (1.20-1.28x, 6 blocks) cascaded-nodes, constant-folding, allocator=mimalloc, intra_op_num_threads=4",
)
STEP = Step(what="calibrating, block 2 of nine", done_ratio=0.4, left_s=60.0, ranking=LEADERS)


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_no_line_is_longer_than_the_terminal_nor_cut_inside_a_word(width: int) -> None:
    lines = drawn(STEP, 40.0, 0.0, width)
    assert len(lines) == 1 + len(LEADERS) and all(len(line) <= width for line in lines)
    words = {word.strip(",") for word in " ".join((STEP.what, *LEADERS)).split()}
    for line in lines[1:]:
        assert {word.strip(",…") for word in line.split()} <= words


def test_the_figures_come_first_and_the_bar_is_as_full_as_the_budget_is_spent() -> None:
    line = drawn(STEP, 40.0, 0.0, 100)[0]
    bar, figures = line[:20], line[20:]
    assert bar.count("━") == 8
    facts(figures, "40 %", "60 s left", STEP.what)
    assert drawn(STEP, 40.0, 0.0, 100, plain=True)[0].isascii()
    assert not drawn(STEP, 40.0, 0.0, 40)[0].startswith("━")  # no room for it


def test_what_is_left_goes_on_while_a_step_takes_long() -> None:
    facts(drawn(STEP, 70.0, 30.0, 100)[0], "70 %", "30 s left")
    facts(drawn(STEP, 140.0, 100.0, 100)[0], "100 %", "ending")


def test_without_a_budget_the_time_so_far_is_shown() -> None:
    assert drawn(Step(what="reading m.onnx"), 12.0, 3.0, 80) == ["12 s  reading m.onnx"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("one, two, three", "one, two, three"),
        ("one, two, three and four", "one, two, three…"),
        ("one, two, three, four", "one, two, three…"),
        ("onetwothreefourfivesix", "onetwothreefour…"),
    ],
)
def test_a_text_is_cut_at_the_end_of_a_word(text: str, kept: str) -> None:
    assert fitted(text, 16) == kept


def test_a_notebook_shows_names_as_text() -> None:
    page = html(Step(what="reading <b>.onnx", done_ratio=0.25, left_s=9.0), 3.0)
    facts(page, "25 %", "9 s left", "&lt;b&gt;.onnx")
    assert page.count("<progress") == 1 and "<b>" not in page
    assert not notebook.runs_here()
