"""The report as a page: whole, offline, no script but ours, and no name in it is markup."""

from __future__ import annotations

import re

import msgspec
import pytest

import golden
import golden_tune
from facts import facts
from ortune.show import markdown, sections
from ortune.show.document import filled
from ortune.show.html import pages
from ortune.verbs.tune import page as tune_page
from ortune.verbs.tune import sections as tune
from pages import (
    Page,
    require_offline,
    require_our_script,
    require_places,
    require_readable,
    require_whole,
    section,
)

KINDS = sorted(golden_tune.KINDS)


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    return {kind: pages.render(envelope) for kind, envelope in golden_tune.KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_page_is_whole_and_small(rendered: dict[str, str], kind: str) -> None:
    require_whole(rendered[kind])
    assert len(rendered[kind].encode()) < 500_000


@pytest.mark.parametrize("kind", KINDS)
def test_page_runs_nothing_and_fetches_nothing(rendered: dict[str, str], kind: str) -> None:
    require_offline(rendered[kind])
    require_our_script(rendered[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_page_serves_every_reader(rendered: dict[str, str], kind: str) -> None:
    require_readable(rendered[kind])
    require_places(rendered[kind])


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
        for module in sections.modules(tune)
        if filled(module.blocks(golden_tune.KINDS[kind]))
    }
    assert shown == expected


def test_sections_have_their_own_place_and_between_them_all_are_shown(rendered: dict[str, str]) -> None:
    modules = sections.modules(tune)
    assert len({m.ORDER for m in modules}) == len(modules)
    assert all(m.__doc__ and m.TITLE for m in modules)
    everything = {a.get("id") for text in rendered.values() for a in Page(text).named("section")}
    assert everything >= {m.__name__.rpartition(".")[2] for m in modules}


def test_first_screen_answers_how_much_how_sure_what_to_paste(rendered: dict[str, str]) -> None:
    text = Page(rendered["winner"]).text
    first = text[: text.index("Findings and notes")]
    for part in (
        "1.11× faster in p50",
        "faster: 1.11x in p50 (95 % interval 1.09-1.13x, 16 fresh blocks), 11.0 ms -> 9.90 ms",
        "default 11.0 ms",
        "winner 9.90 ms",
        "95 % interval 1.09-1.13",
        "blocks 16 fresh",
        "options.intra_op_num_threads = 2",
        "/out/model.ortune",
    ):
        assert part in first


def test_default_best_says_so_first(rendered: dict[str, str]) -> None:
    text = Page(rendered["default-best"]).text
    assert "Keep the default inconclusive: no gain confirmed among 7 configurations" in text
    assert "No change is proposed: you already run the default." in text
    assert "Block by block" not in text


def test_a_leader_that_was_refused_is_drawn_as_its_figures_are_shown() -> None:
    figures = golden.figures(10.89e6)
    refused = msgspec.structs.replace(golden_tune.KINDS["not-confirmed"].result.refused, figures=figures)
    envelope = golden_tune.default_best(refused=refused, points=golden_tune.blocks(0.99))
    page = pages.render(envelope)
    drawn = Page(section(page, "distributions")).text
    facts(drawn, "leader", "10.9 ms")
    facts(Page(page).text, "The leader against the default: 1.01x (0.99-1.03), 16 blocks")
    assert "winner" not in drawn


def test_current_is_what_the_verdict_is_against(rendered: dict[str, str]) -> None:
    text = Page(rendered["with-current"]).text
    assert "1.17× faster in p50 than the current configuration" in text
    facts(text, "178 ms", "12.1 ms", "10.3 ms")
    facts(text, "1.17x", "1.14-1.21", "16 blocks")
    best = Page(rendered["current-best"]).text
    assert "Keep the current configuration" in best
    facts(best, "17.2x", "16.4-18.2", "16 blocks")


def test_both_bars_of_the_time_have_one_order() -> None:
    why = golden_tune.tuned().result.why
    first, *rest = sorted(why.categories, key=lambda row: -row.a_ns)
    last = msgspec.structs.replace(first, b_ns=0.1 * min(row.b_ns for row in rest if row.b_ns))
    page = pages.render(golden_tune.tuned(why=msgspec.structs.replace(why, categories=(*rest, last))))
    bars = re.findall(r"<svg.*?</svg>", section(page, "time"), re.DOTALL)[:2]
    orders = [re.findall(r'class="box c-([\w-]+)', bar) for bar in bars]
    assert orders[0][0] == first.name and orders[0] == orders[1]


def test_where_the_time_goes_stands_side_by_side_with_why_the_winner_won(rendered: dict[str, str]) -> None:
    part = section(rendered["winner"], "time")
    seen = Page(part)
    facts(
        seen.text,
        "Why",
        "2.00 ms less",
        "12.0 ms -> 10.0 ms",
        "1.90 ms",
        "other threads",
        "/layer/MatMul: 1.90 ms",
    )
    assert "default 12.0 ms" in seen.text and "winner 10.0 ms" in seen.text
    assert part.count("box c-thread-wait") == part.count("box c-kernels") == 2
    facts(seen.text, "3.00", "1.10", "-1.90")
    assert "1 within noise" in seen.text


def test_without_a_winner_the_page_says_what_is_left_and_what_to_type(rendered: dict[str, str]) -> None:
    text = rendered["default-best"]
    left = Page(section(text, "left")).text
    for part in (
        "nearest",
        "exploratory",
        "3 % of the run is outside the kernels",
    ):
        assert part in left, part
    for command in (
        "ortune tune model.onnx --dim seq=128 --budget 360s",
        "ortune tune model.onnx --dim seq=128 --budget 360s --allow numerics",
        "ortune profile /models/model.onnx",
    ):
        assert command in Page(text).text, command
    time = Page(section(text, "time")).text
    assert "computing, in kernels" in time and "most expensive nodes" in time
    assert 'id="left"' not in rendered["winner"]


def test_every_plan_is_there_with_its_fate_and_reason(rendered: dict[str, str]) -> None:
    text = Page(rendered["large"]).text
    for candidate in golden_tune.KINDS["large"].result.candidates:
        assert candidate.plan.describe() in text
    facts(text, "0.76x", "2 search blocks")
    facts(text, "1.13x", "1.09-1.18", "24 search blocks")
    for part in (
        "failed crash: killed by SIGSEGV while loading",
        "wrong output output y differs by 40 %",
        "not tried no time left in the budget",
        "1.11x (1.09-1.13) 16 blocks; winner, confirmed",
        "Not tried int8 OpenVINO",
    ):
        assert part in text


def test_only_what_was_confirmed_is_drawn_as_sure(rendered: dict[str, str]) -> None:
    plans = Page(section(rendered["large"], "plans"))
    sure = [a for a in plans.named("circle") if "unsure" not in str(a["class"])]
    assert len(sure) == 1
    assert len(plans.named("circle")) > 60


def test_points_of_dropped_blocks_are_not_drawn(rendered: dict[str, str]) -> None:
    noise = Page(section(rendered["winner"], "noise"))
    points = golden_tune.KINDS["winner"].result.points
    assert len(noise.named("circle")) == len(points) - 1
    assert "dropped: 1 (" in noise.text


def test_guesses_versions_and_machine_are_named(rendered: dict[str, str]) -> None:
    text = Page(rendered["mixed"]).text
    facts(text, "2 cores", "4 hardware", "1.5", "2 effective")
    facts(text, "163 trials", "20 s", "55 s", "40 s")
    for part in (
        "1 × 3 × 224? × 224?",
        "guess, found by trial",
        "token-ids, 0 to 30521",
        "a pause of 30.0 ms between them",
        "1.31.1 (onnxruntime)",
        "ortune compare model.onnx --b-set intra=2 --b-set spin=0",
        "8.00 ms to 7.00 ms, 1.14x (1.12-1.16)",
        "up to 1.25",
    ):
        assert part in text


def test_a_terminal_and_markdown_show_the_same_document_without_its_drawings() -> None:
    document = tune_page.document(golden_tune.KINDS["winner"])
    for text in (golden.printed(document, 100), markdown.render(document)):
        flat = " ".join(text.split())
        facts(flat, "1.11x", "1.09-1.13", "options.intra", "Block by block", "16 blocks")
        facts(flat, "each of 16 blocks", "Reproduce")
    assert golden.widest(document, 100) <= 100


def test_same_document_gives_the_same_page() -> None:
    assert pages.render(golden_tune.tuned()) == pages.render(golden_tune.tuned())
