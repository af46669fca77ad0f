"""The pages name what there is: every document, verb, code and file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortune import rules
from ortune.api import verbs

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("schema", sorted(p.name for p in (DOCS / "schema").iterdir()))
def test_every_schema_is_in_the_table_of_documents(schema: str) -> None:
    assert f"| [{schema}](schema/{schema}) |" in INDEX


def test_every_verb_has_a_page_and_a_row() -> None:
    found = set(verbs())
    assert {"look", "profile"} < found
    rows = set(re.findall(r"(?m)^\| [^|]+ \| `ortune (\w+)[ `]", INDEX.partition("## Which verb")[2]))
    assert found - {"look"} <= rows
    for verb in found:
        title = (DOCS / f"{verb}.md").read_text(encoding="utf-8").partition("\n")[0]
        assert title == ("# A first look" if verb == "look" else f"# ortune {verb}")


def test_codes_that_pages_name_are_those_of_rules() -> None:
    known = rules.all_rules()
    for page in DOCS.rglob("*.md"):
        assert set(re.findall(r"`([A-Z]{3}\d{3})`", page.read_text(encoding="utf-8"))) <= known.keys(), page


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: p.stem)
def test_a_file_to_make_is_named_where_titles_are_not_shown(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for before, name in re.findall(r'((?:[^\n]+\n)+)\n```\w+ title="([^"]+)"', text):
        assert name in before, f"say {name} in the text above its block"
