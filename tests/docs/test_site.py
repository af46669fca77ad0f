"""The site: every page is in its navigation, and it builds without a warning where mkdocs is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def mkdocs() -> Path | None:
    """The mkdocs of ``make site``, or one named by ``ORTUNE_MKDOCS``."""
    named = os.environ.get("ORTUNE_MKDOCS")
    found = Path(named) if named else ROOT / ".venv-docs" / "bin" / "mkdocs"
    return found if found.is_file() else None


def test_the_navigation_is_what_there_is() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", SITE.partition("\nnav:")[2], flags=re.MULTILINE))
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert there - listed == set(), "mkdocs.yml: add the page to nav"
    assert listed - there == set(), "mkdocs.yml: remove from nav what is no page"


def test_every_recipe_is_in_the_table_of_recipes() -> None:
    table = (DOCS / "recipes" / "index.md").read_text(encoding="utf-8")
    for page in (DOCS / "recipes").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in table, page.name


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    program = mkdocs()
    if program is None:
        pytest.skip("no mkdocs: make site installs it into .venv-docs")
    words = [str(program), "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        loads = re.findall(
            r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"?(https?:[^\s\">]+)", page.read_text()
        )
        assert [url for url in loads if "canonical" not in url] == [], page.name
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("variance" in entry["title"] for entry in index["docs"])
