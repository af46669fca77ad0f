"""What users read is in the field's words: those that were ours alone are not used any more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from language import RETIRED, breaches, prose

ROOT = Path(__file__).resolve().parents[2]

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
"""Of the page of messages: names of code, which nobody reads as a sentence."""
SPOKEN = [*sorted((ROOT / "src" / "ortune").rglob("*.py"))]
EMITTED = [*sorted((ROOT / "src" / "ortune").rglob("*.j2"))]
"""Code and pages for users; what braces and ``@@`` hold is filled in, and read where it is written."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of a module that may be printed: all but docstrings, and of these what a verb's help says."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    help_ = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "Options"]
    said = {id(each.body[0]) for each in help_}
    nodes = list(ast.walk(tree))
    alone = {id(s.value) for s in nodes if isinstance(s, ast.Expr) and id(s) not in said}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def read() -> Iterator[tuple[str, str]]:
    """(file and line, text) of all that users read."""
    for path in SPOKEN:
        yield from ((f"{path.name}:{line}", text) for line, text in texts(path))
    for path in EMITTED:
        yield from (
            (f"{path.name}:{i}", text) for i, text in enumerate(path.read_text("utf-8").splitlines(), 1)
        )
    for path in PAGES:
        yield from (
            (f"{path.name}:{i}", PLACEHOLDER.sub("", text) if path.stem == "messages" else text)
            for i, text in enumerate(path.read_text("utf-8").splitlines(), 1)
        )


def test_no_retired_word_is_said() -> None:
    patterns = {re.compile(retired): better for retired, better in RETIRED.items()}
    any_of_them = re.compile("|".join(RETIRED))
    found = [(where, text) for where, text in read() if any_of_them.search(text)]
    said = [
        (where, text, better) for where, text in found for p, better in patterns.items() if p.search(text)
    ]
    assert said == []


def test_sentences_of_the_pages_keep_the_rules() -> None:
    """Words, spelling and length; the page of messages has a test of its own."""
    broken = [
        f"{path.relative_to(ROOT)}:{line}: {breach}: {sentence}"
        for path in PAGES
        if path.stem != "messages"
        for line, sentence in prose(path)
        for breach in breaches(sentence)
    ]
    assert broken == []


def test_the_rules_find_what_they_are_for() -> None:
    assert list(breaches("it is held against the optimizer of 1 blocks, so that 3ms pass")) != []
    assert [b.partition(":")[0] for b in breaches("the optimizer is quantised")] == [
        "'optimizer'",
        "'quantised'",
    ]
    assert (
        list(breaches("`optimizer` of the graph optimization level, an initializer, LayerNormalization"))
        == []
    )
    assert list(breaches("word " * 31)) == ["31 words"]
