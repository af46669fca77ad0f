"""A profile's page: whole, offline, its sums shown, one script that is ours, and no name in it is markup."""

from __future__ import annotations

import base64
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import get_args

import golden_profile
import msgspec
import pytest
from golden_profile import HOSTILE, KINDS, profiled, timeline
from pages import Page, require_offline, require_our_script, require_places, require_readable, require_whole

from ortune.records import CategoryName, Headroom, LayerTime, MemoryPoint, Timeline
from ortune.report.html import profile_page
from ortune.report.html.profile.categories import MEANINGS
from ortune.report.profile_tables import CATEGORIES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    pages = {kind: profile_page.render(envelope) for kind, envelope in KINDS.items()}
    pages["timeline"] = profile_page.render(KINDS["usual"], timeline())
    for number, name in enumerate(HOSTILE):
        pages[f"timeline-{number}"] = profile_page.render(KINDS[f"hostile-{number}"], timeline(name))
    return pages


ALL = [*sorted(KINDS), "timeline", *(f"timeline-{number}" for number in range(len(HOSTILE)))]


@pytest.mark.parametrize("kind", ALL)
def test_page_is_whole_and_serves_every_reader(rendered: dict[str, str], kind: str) -> None:
    require_whole(rendered[kind])
    require_readable(rendered[kind])
    require_places(rendered[kind])


@pytest.mark.parametrize("kind", ALL)
def test_page_fetches_nothing_and_runs_nothing_but_its_own_script(
    rendered: dict[str, str], kind: str
) -> None:
    text = rendered[kind]
    seen = Page(text)
    require_offline(text)
    scripts = [attributes.get("type") for attributes in seen.named("script")]
    data = ["application/json", *["application/octet-stream"] * 3] if kind.startswith("timeline") else []
    assert scripts == [*data, None]
    require_our_script(text)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.parametrize("page", ["hostile", "timeline"])
def test_names_are_shown_as_they_are_and_do_nothing(rendered: dict[str, str], number: int, page: str) -> None:
    text = rendered[f"{page}-{number}"]
    seen, plain = Page(text), Page(rendered["timeline"])
    name = HOSTILE[number]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    assert seen.text.count(shown) > 40
    usual = {n for n, _ in plain.elements} | {n for n, _ in Page(rendered["difference"]).elements}
    assert {n for n, _ in seen.elements} <= usual
    assert "\x1b" not in text and "\u202e" not in text


def test_sections_stand_where_they_have_something_to_say(rendered: dict[str, str]) -> None:
    def shown(kind: str) -> list[str | None]:
        return [a["id"] for a in Page(rendered[kind]).named("section") if "id" in a]

    everything = [
        "causes",
        "categories",
        "operators",
        "nodes",
        "layers",
        "graph",
        "roofline",
        "memory",
        "runs",
        "notes",
        "timeline",
    ]
    assert shown("timeline") == everything
    assert shown("usual") == everything[:-1]
    assert shown("difference") == ["difference", *everything[:-1]]
    assert shown("bare") == ["notes"]
    assert shown("plain-trace") == ["causes", "categories", "operators", "nodes", "notes"]


@pytest.mark.parametrize(
    "missing", ["headroom", "peak", "memory", "variance", "side", "slowdown_ratio", "against"]
)
def test_page_renders_without_any_part_that_may_be_missing(missing: str) -> None:
    page = Page(profile_page.render(profiled(**{missing: None})))
    assert page.broken == [] and "58.9 ms" in page.text


@pytest.mark.parametrize("empty", ["operators", "nodes", "layers", "findings", "notes", "unmapped"])
def test_page_renders_with_any_list_empty(empty: str) -> None:
    page = Page(profile_page.render(profiled(**{empty: ()})))
    assert page.broken == [] and "58.9 ms" in page.text


def test_sums_are_shown(rendered: dict[str, str]) -> None:
    text = rendered["usual"]
    table = text[text.index('<table class="amounts">') : text.index("</table>")]
    rows = re.findall(r'<td class="number">(-?[\d.]+)</td><td class="number">(-?[\d.]+)</td>', table)
    times, shares = ([float(row[i]) for row in rows] for i in range(2))
    assert times[-1] == 58.9 and sum(times[:-1]) == pytest.approx(58.9, abs=1e-9)
    assert shares[-1] == 100.0 and sum(shares[:-1]) == pytest.approx(100.0, abs=1e-9)
    bar = text[text.index('class="plot stack"') : text.index('<table class="amounts">')]
    assert sum(float(w) for w in re.findall(r'width="([\d.]+)%"', bar)) == pytest.approx(100, abs=0.1)


def test_everything_that_was_found_is_on_the_page(rendered: dict[str, str]) -> None:
    # What a node stands for besides is told where the pointer rests.
    assert 'title="with /encoder/layer.1/attention/Relu_1; as fused_fusedconv_1"' in rendered["usual"]
    text = Page(rendered["usual"]).text
    for part in (
        "58.9 ms a run, profiled (mean of 24 steady runs): 81.0 % computing, in kernels",
        "settings can win at most 8 %",
        "24, after 2 left out",
        "1.08x the time without",
        "all 36, not the first 10 alone",
        "4 nodes of the optimised graph whose origin in the model is not known",
        "2 threads, float32: 88.0 GFLOP/s, 16.0 GB/s",
        "int8: 290 GOP/s",
        "held by the arena 256 MiB",
        "overhead between nodes +2.00 ms 21 %",
    ):
        assert part in text, part
    moved = Page(rendered["difference"]).text
    for part in (
        "+3.20 ms a run, B against A",
        "computing, in kernels +2.90 ms (+2.50 to +3.30) 47.70 ms → 50.60 ms",
        "/encoder/Cast Cast -> FusedCast -3.40 ms 3.40 ms → not there",
        "only in B 8 nodes, 100 us: n0, n1, n2, n3, n4 and 3 more",
    ):
        assert part in moved, part


def test_the_large_number_says_that_it_is_noise() -> None:
    noise = msgspec.structs.replace(golden_profile.difference(), low_ns=-1e5)
    text = profile_page.render(profiled(against=noise))
    assert "+3.20 ms a run, B against A, within noise" in Page(text).text
    assert 'class="large noise"' in text and 'class="large worse"' not in text


def test_only_what_is_beyond_noise_is_drawn_as_sure(rendered: dict[str, str]) -> None:
    text = rendered["difference"]
    part = text[text.index('<section id="difference"') : text.index('<section id="categories"')]
    assert part.count("bar more sure") == 4 and part.count("unsure") == 3
    assert part.count('class="whisker"') == 5


def test_the_peak_is_drawn_whatever_is_gathered() -> None:
    points = [MemoryPoint(node=f"n{i}", in_use_bytes=1000) for i in range(5000)]
    points[1234] = MemoryPoint(node="the peak", in_use_bytes=10**6)
    memory = msgspec.structs.replace(
        golden_profile.usual().memory,
        points=tuple(points),
        peak_bytes=10**6,
        peak_node="the peak",
        held_bytes=None,
    )
    text = profile_page.render(profiled(memory=memory))
    (path,) = re.findall(r'<path d="([^"]*)"[^>]*in-use', text)
    heights = [int(y) for y in re.findall(r"V(\d+)", path)]
    assert min(heights) < 50 and len(heights) < 610
    assert "the peak: 977 KiB in use" in text


def test_timeline_data_is_the_record(rendered: dict[str, str]) -> None:
    text, given = rendered["timeline"], timeline()
    parts = dict(re.findall(r'<script type="[^"]*" id="timeline-(\w+)">(.*?)</script>', text, re.S))
    info = json.loads(parts["info"])
    assert info["names"] == list(given.names) and info["ops"] == list(given.op_types)
    assert info["tracks"] == [[t.lane, t.depth, t.first, t.count] for t in given.tracks]
    columns = (("start", given.start_ticks), ("duration", given.duration_ticks), ("codes", given.name_codes))
    for name, column in columns:
        assert base64.b64decode(parts[name]) == column
    assert "The timeline needs JavaScript" in Page(text).text
    assert "42 executions (the last run), 3 left out" in Page(text).text


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_names_cannot_leave_the_timelines_data(rendered: dict[str, str], number: int) -> None:
    (info,) = re.findall(r'id="timeline-info">(.*?)</script>', rendered[f"timeline-{number}"], re.S)
    assert not set(info) & set("<>&")
    name = HOSTILE[number]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    assert json.loads(info)["names"][1] == shown


def test_a_page_that_is_told_again_says_so_and_why_there_is_no_timeline() -> None:
    text = profile_page.render(
        KINDS["usual"], stored="measured before, <b>not now</b>", no_timeline="It was not kept."
    )
    seen = Page(text)
    assert seen.broken == [] and seen.open == []
    assert "measured before, <b>not now</b>" in seen.text and "It was not kept." in seen.text
    assert text.index("measured before") < text.index('<section class="verdict"')
    assert 'id="timeline"' in text and "timeline-info" not in text and "noscript" not in text
    again = profile_page.render(KINDS["usual"], timeline(), stored="x", no_timeline="It was not kept.")
    assert "It was not kept." not in again and 'id="timeline-start"' in again


def test_a_page_shows_what_inserted_nodes_are_for_and_what_is_too_short_for_the_peak() -> None:
    result = golden_profile.usual()
    moved = msgspec.structs.replace(result.nodes[0], purpose="cast for <b>conv1</b>", bound="overhead")
    seen = Page(profile_page.render(profiled(nodes=(moved, *result.nodes[1:]))))
    assert any("inserted: cast for <b>conv1</b>" in str(th.get("title")) for th in seen.named("th"))
    assert "bound by overhead" in seen.text


def test_the_headroom_stands_on_the_page_in_its_own_words_alone() -> None:
    headroom = Headroom(settings_ratio=0.03, kernels_ratio=0.5, overhead_ratio=0.8, sentence="what it means")
    text = Page(profile_page.render(profiled(headroom=headroom))).text
    assert text.count("what it means") == 1
    assert "at most 3" not in text and "80 %" not in text and "machine's peak 50" not in text
    assert (
        "what it means"
        in Page(
            profile_page.render(profiled(headroom=msgspec.structs.replace(headroom, settings_ratio=None)))
        ).text
    )


def test_all_runs_that_are_left_out_are_shaded() -> None:
    variance = golden_profile.usual().variance
    assert variance is not None
    page = profile_page.render(
        profiled(variance=msgspec.structs.replace(variance, warmup_runs=0, left_out_runs=13))
    )
    assert "the first 13 left out" in page and re.search(r'<rect[^>]*width="50%"[^>]*class="warm"', page)


def test_every_category_has_its_colour_and_its_meaning() -> None:
    style = profile_page.render(KINDS["usual"])
    for name in get_args(CategoryName):
        assert f".c-{name} {{ --hue: var(--c-{name}); }}" in style
        assert style.count(f"--c-{name}: #") == 3
        assert name in MEANINGS and name in CATEGORIES


def test_an_empty_timeline_is_left_out() -> None:
    nothing = Timeline(tick_ns=1, start_ticks=b"", duration_ticks=b"", name_codes=b"", names=(), op_types=())
    text = profile_page.render(KINDS["usual"], nothing)
    assert 'id="timeline"' not in text and "timeline-info" not in text


def test_same_document_gives_the_same_page() -> None:
    assert profile_page.render(profiled(), timeline()) == profile_page.render(profiled(), timeline())


def dumped(page: Path, folder: Path) -> str:
    """The document as a browser has it once its scripts ran."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}"]
    return subprocess.run(
        [str(CHROMIUM), *options, "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_browser_draws_the_timeline_and_runs_nothing_else(tmp_path: Path) -> None:
    name = HOSTILE[0]
    page = tmp_path / "page.html"
    page.write_text(profile_page.render(KINDS["hostile-0"], timeline(name)), encoding="utf-8")
    dom = dumped(page, tmp_path)
    view = dom[dom.index('id="timeline-view"') : dom.index('id="timeline-legend"')]
    # The script shows the view and gives the canvas its height: axis, two lanes, three tracks.
    assert not view.partition(">")[0].endswith('hidden=""')
    height = re.search(r'id="timeline-canvas"[^>]*height: (\d+)px', view)
    assert height and int(height[1]) == 20 + 2 * 15 + 3 * 18 + 4
    legend = dom[dom.index('id="timeline-legend"') :].partition("</ul>")[0]
    assert "&lt;script&gt;alert(1)" in legend and "<script" not in legend


def test_columns_of_the_golden_timeline_are_what_they_say() -> None:
    given = timeline(n=2)
    assert struct.unpack("<4I", given.start_ticks) == (0, 0, 10, 12)


def test_the_table_of_layers_drops_the_deepest_and_never_a_branch() -> None:
    def place(name: str, ns: float) -> LayerTime:
        return LayerTime(layer=name, depth=name.count("/") + 1, n_nodes=1, time_ns=ns, share_ratio=0.0)

    found = [place("big", 100.0), *(place(f"big/{i}", 1.0) for i in range(100)), place("small", 0.5)]
    text = Page(profile_page.render(profiled(layers=tuple(found), layers_left_out=7))).text
    assert "small" in text and "22 more: the JSON document holds them." in text
    assert "The 7 deepest and cheapest are left out everywhere" in text


def test_the_graph_is_coloured_by_time_and_names_are_whole_in_its_titles() -> None:
    seen = Page(profile_page.render(KINDS["usual"]))
    boxes = [a for a in seen.named("rect") if "heat" in (a.get("class") or "")]
    nodes = KINDS["usual"].result.nodes
    assert len(boxes) == len(nodes)
    strength = [float(a["fill-opacity"] or 0) for a in boxes]
    assert strength == sorted(strength, reverse=True) and strength[0] > 5 * strength[-1]
    assert all(node.originals[0] in seen.text for node in nodes)
    edges = [a for a in seen.named("path") if "edge" in (a.get("class") or "")]
    assert len(edges) == sum(len(node.reads) for node in nodes)


def test_a_profile_whose_graph_is_not_known_draws_none() -> None:
    nodes = tuple(msgspec.structs.replace(n, reads=()) for n in KINDS["usual"].result.nodes)
    assert "graph-stage" not in profile_page.render(profiled(nodes=nodes)).partition("<body")[2]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_the_graph_moves_in_a_browser(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(profile_page.render(KINDS["usual"]), encoding="utf-8")
    dom = dumped(page, tmp_path)
    stage = dom[dom.index('id="graph-stage"') :]
    assert re.search(r'<g transform="translate\([-\d.]+ [-\d.]+\) scale\([\d.]+\)"', stage)
    assert 'class="current"' in stage  # the most expensive node is in sight
    assert f"1 of {len(KINDS['usual'].result.nodes)}: " in dom
