"""The page of all messages is complete and up to date, and its sentences keep the rules of the language."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from language import breaches  # noqa: E402

import make_messages  # noqa: E402
from ortune import api, rules  # noqa: E402

ALLOWED: dict[str, int] = {}
"""Sentences of a room that still break a rule: these numbers only ever shrink."""


def sentences() -> Iterator[tuple[str, str]]:
    """(room, sentence) of the page; placeholders count as one word."""
    room = ""
    for line in make_messages.PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            room = line.removeprefix("## ").lower()
        elif line.startswith("- "):
            for sentence in re.split(r"(?<=[.;:?]) ", re.sub(r"\{[^}]*\}", "X", line[2:])):
                yield room, sentence


def broken() -> Counter[str]:
    """Sentences that break a rule, by room."""
    return Counter(room for room, sentence in sentences() if any(breaches(sentence)))


def test_the_page_is_as_generated() -> None:
    written = make_messages.PAGE.read_text(encoding="utf-8")
    assert written == make_messages.page(), "run: python tools/make_messages.py"


def test_every_rule_and_verb_is_on_it() -> None:
    page = make_messages.PAGE.read_text(encoding="utf-8")
    for code, rule in rules.all_rules().items():
        assert re.search(rf"^### {code} {rule.name}\n\n- (error|warning|note): \S", page, re.MULTILINE), code
    for verb in api.verbs():
        assert f"### ortune {verb}\n" in page


def test_a_sentence_of_any_module_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_messages, "SOURCE", tmp_path)
    (tmp_path / "show").mkdir()
    path = tmp_path / "show" / "some_words.py"
    path.write_text('''"""No sentence for users."""\nTEXT = f"the {n} nodes ran twice"\n''', encoding="utf-8")
    assert list(make_messages.sentences_of(path)) == [("words", "the {n} nodes ran twice")]


def test_no_room_breaks_more_rules_than_it_may() -> None:
    counts = broken()
    more = {room: n for room, n in counts.items() if n > ALLOWED.get(room, 0)}
    assert more == {}, [
        (said, *breaches(said)) for room, said in sentences() if room in more and any(breaches(said))
    ]
    assert {room: n for room, n in ALLOWED.items() if n > counts[room]} == {}, "shrink the allowance"
