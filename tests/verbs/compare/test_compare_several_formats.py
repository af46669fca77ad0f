"""What a comparison of several sides shows: one table with their errors, and the fastest in the first words."""

from __future__ import annotations

import msgspec
import pytest

import golden
from facts import facts
from golden_answers import several
from ortune.records import (
    Envelope,
)
from ortune.show import github, markdown
from ortune.verbs.compare import headline as compare_headline
from ortune.verbs.compare import words as compare_words

WIDTHS = (80, 100, 140)


def shown(envelope: Envelope, width: int) -> str:
    """The page as plain text at that width, with what supports the answer."""
    return golden.printed(compare_words.document(envelope), width, whole=True)


def test_several_sides_are_one_table_with_their_errors() -> None:
    text = shown(several(), 140)
    flat = " ".join(text.split())
    assert "faster: 1.82x in p50 (97.5 % interval 1.75-1.85x, 24 blocks), A 11.0 ms -> C 6.05 ms" in flat
    facts(flat, "0.004", "0.99999", "--tolerance 0.005")
    rows = [line.split()[:2] for line in text.splitlines() if line[:1] in "ABCD" and ".onnx" in line]
    assert rows == [["C", "c.int8.onnx"], ["B", "b.onnx"], ["D", "d.onnx"], ["A", "a.onnx"]]
    for part in (
        "1.82x faster",
        "equivalent (+0.1 %)",
        "not timed",
        "not comparable: output 'y' has shape [3], not [4]",
    ):
        assert part in flat
    assert "the intervals hold together with 95 % confidence, each alone with 97.5 %" in flat
    assert markdown.render(compare_words.document(several())).count("c.int8.onnx") >= 2


def test_where_all_others_are_slower_the_first_words_name_the_fastest() -> None:
    found = several().result
    slower = {"ratio_low": 1.45, "ratio_high": 1.6, "verdict": "slower"}
    sides = tuple(
        msgspec.structs.replace(
            side,
            comparison=msgspec.structs.replace(side.comparison, ratio=ratio, **slower)
            if side.comparison
            else None,
        )
        for side, ratio in zip(found.candidates, (1.51, 1.55, 0), strict=True)
    )
    told = msgspec.structs.replace(found, candidates=sides, comparison=sides[0].comparison)
    facts(
        compare_headline.headline(told),
        "slower: 1.51x in p50",
        "A 11.0 ms -> C 16.6 ms; A is the fastest of 3",
    )
    undecided = msgspec.structs.replace(
        sides[1], comparison=msgspec.structs.replace(sides[1].comparison, verdict="inconclusive")
    )
    told = msgspec.structs.replace(told, candidates=(sides[0], undecided, sides[2]))
    text = compare_headline.headline(told)
    assert text.startswith("slower: 1.51x") and "fastest" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_of_several_sides_fits_its_width(width: int) -> None:
    assert max(len(line) for line in shown(several(), width).splitlines()) <= width


def test_a_difference_without_a_gate_is_a_warning() -> None:
    assert github.render(compare_words.document(several())).startswith("::warning ")
