"""The pages name what there is: every document, verb, code and file."""

from __future__ import annotations

import html
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
    row = f"| [{schema}](schema/{schema}) |"
    assert row in INDEX, f"docs/index.md: add a row {row} to the table of documents"


def test_every_verb_has_a_page_and_a_row() -> None:
    found = set(verbs())
    assert {"look", "profile"} < found
    rows = set(re.findall(r"(?m)^\| [^|]+ \| `ortune (\w+)[ `]", INDEX.partition("## Which command")[2]))
    lacking = found - {"look"} - rows
    assert lacking == set(), "docs/index.md: add a row to the table under 'Which command'"
    for verb in found:
        page = DOCS / f"{verb}.md"
        assert page.is_file(), f"write docs/{page.name}"
        title = page.read_text(encoding="utf-8").partition("\n")[0]
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


CLAIM = re.compile(
    r"(?P<way>faster|slower): [\d.]+x in p\d+ \(95 % interval (?P<low>[\d.]+)-(?P<high>[\d.]+)x, [^)]*\), (?:A )?"
    r"(?P<was>[\d.]+) (?P<was_unit>us|ms|s) -> (?:B )?(?P<now>[\d.]+) (?P<now_unit>us|ms|s)"
)
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
HALF_A_DIGIT = 1.005


def test_two_times_that_a_page_shows_are_as_far_apart_as_the_claim_beside_them() -> None:
    found = 0
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "docs" / "answer.svg"]:
        text = html.unescape(re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8")))
        for claim in CLAIM.finditer(" ".join(text.split())):
            was, now = (float(claim[name]) * UNITS[claim[f"{name}_unit"]] for name in ("was", "now"))
            factor = was / now if claim["way"] == "faster" else now / was
            low, high = float(claim["low"]), float(claim["high"])
            assert low / HALF_A_DIGIT <= factor <= high * HALF_A_DIGIT, f"{path.name}: {claim[0]}"
            found += 1
    assert found > 5
