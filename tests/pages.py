"""What holds of every page: whole, offline, readable for all, and drawn within its frame."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "input", "hr"}
DRAWN = {"svg", "line", "circle", "rect", "text"}
FETCHING = {"src", "srcset", "xlink:href", "action", "data", "poster", "formaction"}
ACTIVE = {"img", "link", "iframe", "object", "embed", "form", "base", "image", "use", "foreignobject"}


class Page(HTMLParser):
    """What a browser would see: elements with attributes, text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.broken: list[str] = []
        self.words: list[str] = []
        self.glued = False  # what comes next goes on with the word before: it was only kept whole
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.glued = dict(attrs).get("class") == "whole" and tag == "span"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.glued = tag == "span" and self.elements[-1] == ("span", {"class": "whole"})
        if not self.open or self.open.pop() != tag:
            self.broken.append(tag)

    def handle_data(self, data: str) -> None:
        if {"style", "title"} & set(self.open):
            return
        if self.glued and self.words:
            self.words[-1] += data
        else:
            self.words.append(data)
        self.glued = False

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def section(text: str, name: str) -> str:
    """What stands in one section of a page."""
    return text[text.index(f'<section id="{name}"') :].partition("</section>")[0]


def require_whole(text: str) -> None:
    """Every element is closed, and there is one heading."""
    seen = Page(text)
    assert seen.broken == [] and seen.open == []
    assert len(seen.named("h1")) == 1 and len(seen.named("main")) == 1
    assert text.count("<main>") == 1


def require_offline(text: str) -> None:
    """Nothing is fetched, and nothing in the markup runs."""
    seen = Page(text)
    assert not {name for name, _ in seen.elements} & ACTIVE
    for name, attributes in seen.elements:
        assert not [a for a in attributes if a.startswith("on")], name
        assert not FETCHING & set(attributes), name
        assert (attributes.get("href") or "#").startswith("#")
    assert "://" not in text
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    assert policy(seen).startswith("default-src 'none'; style-src 'unsafe-inline'")


def require_our_script(text: str) -> None:
    """One script runs, which is ours and which alone the browser is told to run; it writes no markup."""
    (ours,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(ours.encode()).digest()).decode()
    assert policy(Page(text)).endswith(f"script-src 'sha256-{digest}'")
    assert "innerHTML" not in ours and "eval" not in ours


def policy(seen: Page) -> str:
    """What a browser is told that the page may do."""
    return str(seen.named("meta")[2]["content"])


def require_readable(text: str) -> None:
    """Links lead to every section; drawings and tables say what they are."""
    seen = Page(text)
    ids = [a["id"] for _, a in seen.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"] for a in seen.named("a")} == {f"#{a['id']}" for a in seen.named("section") if "id" in a}
    for attributes in seen.named("th"):
        assert attributes["scope"] in ("row", "col")
    for drawing in seen.named("svg"):
        # A drawing within a drawing is part of it.
        outer = "plot" in str(drawing.get("class"))
        shown = drawing.get("role") == "img" and drawing.get("aria-label")
        assert not outer or drawing.get("aria-hidden") == "true" or shown


def require_places(text: str) -> None:
    """Drawings hold only places that exist."""
    for name, attributes in Page(text).elements:
        if name not in DRAWN:
            continue
        for key in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"):
            value = attributes.get(key)
            if value is None:
                continue
            assert re.fullmatch(r"-?\d+(\.\d+)?%?", value), (name, key, value)
            if value.endswith("%"):
                assert 0 <= float(value[:-1]) <= 100, (name, key, value)
            if key in ("width", "height"):
                assert float(value.rstrip("%")) >= 0, (name, key, value)
