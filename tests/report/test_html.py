"""The report as a page: whole, offline, without a script, and no name in it is markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import golden_tune
import pytest

from ortune.report.html import frame, page, tune

KINDS = sorted(golden_tune.KINDS)
VOID = {"meta", "img", "br", "link", "input", "hr"}
DRAWN = {"svg", "line", "circle", "rect", "text"}


class Page(HTMLParser):
    """What a browser would see: elements with attributes, text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.broken: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.broken.append(tag)

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    return {kind: page.render(envelope) for kind, envelope in golden_tune.KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_page_is_whole_and_small(rendered: dict[str, str], kind: str) -> None:
    text = rendered[kind]
    seen = Page(text)
    assert seen.broken == [] and seen.open == []
    assert len(text.encode()) < 500_000
    assert len(seen.named("h1")) == 1 and len(seen.named("main")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_page_runs_nothing_and_fetches_nothing(rendered: dict[str, str], kind: str) -> None:
    text = rendered[kind]
    seen = Page(text)
    names = {name for name, _ in seen.elements}
    assert not names & {
        "script",
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "form",
        "base",
        "image",
        "use",
        "foreignobject",
    }
    for name, attributes in seen.elements:
        assert not [a for a in attributes if a.startswith("on")], name
        assert not {"src", "srcset", "xlink:href", "action", "data"} & set(attributes), name
        assert (attributes.get("href") or "#").startswith("#")
    assert "://" not in text
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style


@pytest.mark.parametrize("kind", KINDS)
def test_links_drawings_and_tables_serve_every_reader(rendered: dict[str, str], kind: str) -> None:
    seen = Page(rendered[kind])
    ids = [a["id"] for _, a in seen.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"] for a in seen.named("a")} == {f"#{i}" for i in ids if not str(i).endswith("-title")}
    for drawing in seen.named("svg"):
        assert drawing.get("aria-hidden") == "true" or (drawing["role"] == "img" and drawing["aria-label"])
    for attributes in seen.named("th"):
        assert attributes["scope"] in ("row", "col")


@pytest.mark.parametrize("kind", KINDS)
def test_drawings_hold_only_places_that_exist(rendered: dict[str, str], kind: str) -> None:
    for name, attributes in Page(rendered[kind]).elements:
        if name not in DRAWN:
            continue
        for key in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"):
            value = attributes.get(key)
            if value is None:
                continue
            assert re.fullmatch(r"-?\d+(\.\d+)?%?", value), (name, key, value)
            if value.endswith("%"):
                assert 0 <= float(value[:-1]) <= 100


@pytest.mark.parametrize("number", range(len(golden_tune.HOSTILE)))
def test_names_are_shown_as_they_are_and_do_nothing(rendered: dict[str, str], number: int) -> None:
    text, plain = rendered[f"hostile-{number}"], Page(rendered["winner"])
    seen = Page(text)
    name = golden_tune.HOSTILE[number]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    assert seen.text.count(shown) > 40
    assert {n for n, _ in seen.elements} <= {n for n, _ in plain.elements} | {"b", "ul", "li"}
    assert "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_every_section_stands_where_it_has_something_to_say(rendered: dict[str, str], kind: str) -> None:
    seen = Page(rendered[kind])
    shown = {a["id"] for a in seen.named("section") if "id" in a}
    expected = {
        module.__name__.rpartition(".")[2]
        for module in frame.section_modules(tune)[1:]
        if module.content(golden_tune.KINDS[kind]) is not None
    }
    assert shown == expected


def test_sections_have_their_own_place_and_between_them_all_are_shown(rendered: dict[str, str]) -> None:
    modules = frame.section_modules(tune)
    assert len({m.ORDER for m in modules}) == len(modules)
    assert all(m.__doc__ and m.TITLE for m in modules)
    everything = {a.get("id") for text in rendered.values() for a in Page(text).named("section")}
    assert everything >= {m.__name__.rpartition(".")[2] for m in modules[1:]}


def test_first_screen_answers_how_much_how_sure_what_to_paste(rendered: dict[str, str]) -> None:
    text = Page(rendered["winner"]).text
    first = text[: text.index("Findings and notes")]
    for part in (
        "1.11× faster",
        "1.11x faster (1.09-1.13), confirmed on 16 fresh blocks; p95 and memory no worse",
        "default 11.0 ms",
        "winner 9.90 ms",
        "95 % interval 1.09-1.13",
        "blocks 16 fresh",
        "would have been seen 1.5 %",
        "options.intra_op_num_threads = 2",
        "/out/model.ortune",
    ):
        assert part in first


def test_default_best_says_so_first(rendered: dict[str, str]) -> None:
    text = Page(rendered["default-best"]).text
    assert "Keep the default the default is already the best of the 7 settings tried" in text
    assert "Nothing: the default is what you have." in text
    assert "Block by block" not in text


def test_current_is_what_the_verdict_is_against(rendered: dict[str, str]) -> None:
    text = Page(rendered["with-current"]).text
    assert "1.17× faster than today" in text
    assert "default 178 ms today 12.1 ms winner 10.3 ms" in text
    assert "Against what runs today: 1.17x (1.14-1.21), 16 blocks" in text
    best = Page(rendered["current-best"]).text
    assert "Keep what you have" in best
    assert "Against the default: 17.2x (16.4-18.2), 16 blocks" in best


def test_every_plan_is_there_with_its_fate_and_reason(rendered: dict[str, str]) -> None:
    text = Page(rendered["large"]).text
    for candidate in golden_tune.KINDS["large"].result.candidates:
        assert candidate.plan.describe() in text
    for part in (
        "failed crash: killed by SIGSEGV while loading",
        "wrong output output y differs by 40 %",
        "not tried no time left in the budget",
        "0.76x (no bound) 2 blocks; retired screened out",
        "1.13x (1.09-1.18) 24 blocks; winner, in the race",
        "1.11x (1.09-1.13) 16 blocks; winner, confirmed",
        "Not tried int8 OpenVINO",
    ):
        assert part in text


def test_only_what_was_confirmed_is_drawn_as_sure(rendered: dict[str, str]) -> None:
    text = rendered["large"]
    plans = Page(text[text.index('<section id="plans"') : text.index('<section id="noise"')])
    sure = [a for a in plans.named("circle") if "unsure" not in str(a["class"])]
    assert len(sure) == 1
    assert len(plans.named("circle")) > 60


def test_points_of_dropped_blocks_are_not_drawn(rendered: dict[str, str]) -> None:
    text = rendered["winner"]
    noise = Page(text[text.index('<section id="noise"') : text.index('<section id="inputs"')])
    points = golden_tune.KINDS["winner"].result.points
    assert len(noise.named("circle")) == len(points) - 1
    assert "Blocks dropped whole: 1 (a trial in it failed)." in noise.text


def test_guesses_versions_and_machine_are_named(rendered: dict[str, str]) -> None:
    text = Page(rendered["mixed"]).text
    for part in (
        "1 × 3 × 224? × 224?",
        "guess , found by trying",
        "token-ids, 0 to 30521",
        "a pause of 30.0 ms between them",
        "2 cores, 4 hardware threads, affinity 4, cgroup quota 1.5: 2 effective",
        "1.31.1 (onnxruntime)",
        "ortune compare model.onnx --b-set intra=2 --b-set spin=0",
        "163 trials, calibration 20 s, race 55 s, confirmation 40 s",
        "8.00 ms to 7.00 ms , 1.14x (1.12-1.16)",
        "up to 1.25",
    ):
        assert part in text


def test_same_document_gives_the_same_page() -> None:
    assert page.render(golden_tune.tuned()) == page.render(golden_tune.tuned())
