"""A profile's page: whole, offline, its sums shown, one script that is ours, and no name in it is markup."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
import pytest

import golden_profile
from facts import facts
from golden_profile import HOSTILE, KINDS, profiled
from ortune.records import Case as ShapeCase
from ortune.records import (
    CategoryName,
    Envelope,
    Headroom,
    InputChoice,
    LayerTime,
    MemoryPoint,
    Timeline,
    Workload,
)
from ortune.show.html import pages
from ortune.show.profile_tables import CATEGORIES
from ortune.verbs.profile.sections.categories import MEANINGS
from pages import (
    Page,
    require_offline,
    require_our_script,
    require_places,
    require_readable,
    require_whole,
    section,
)


def with_timeline(envelope: Envelope, name: str = "/encoder/MatMul") -> Envelope:
    result = msgspec.structs.replace(envelope.result, timeline=golden_profile.timeline(name))
    return msgspec.structs.replace(envelope, result=result)


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    shown = {kind: pages.render(envelope) for kind, envelope in KINDS.items()}
    shown["timeline"] = pages.render(with_timeline(KINDS["usual"]))
    for number, name in enumerate(HOSTILE):
        shown[f"timeline-{number}"] = pages.render(with_timeline(KINDS[f"hostile-{number}"], name))
    return shown


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
    require_offline(rendered[kind])
    require_our_script(rendered[kind])


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
        "roofline",
        "memory",
        "runs",
        "notes",
        "timeline",
    ]
    assert shown("timeline") == shown("usual") == everything
    assert shown("difference") == ["difference", *everything]
    assert shown("bare") == ["notes"]
    assert shown("plain-trace") == ["causes", "categories", "operators", "nodes", "notes", "timeline"]


@pytest.mark.parametrize(
    "missing", ["headroom", "peak", "memory", "variance", "side", "slowdown_ratio", "against"]
)
def test_page_renders_without_any_part_that_may_be_missing(missing: str) -> None:
    page = Page(pages.render(profiled(**{missing: None})))
    assert page.broken == [] and "58.9 ms" in page.text


@pytest.mark.parametrize("empty", ["operators", "nodes", "layers", "stands_out", "notes", "unmapped"])
def test_page_renders_with_any_list_empty(empty: str) -> None:
    page = Page(pages.render(profiled(**{empty: ()})))
    assert page.broken == [] and "58.9 ms" in page.text


def test_sums_are_shown(rendered: dict[str, str]) -> None:
    part = section(rendered["usual"], "categories")
    cells = re.findall(r'<td class="number[^"]*" data-head="[^"]*">(-?[\d.]+)</td>', part)
    times, shares = ([float(cell) for cell in cells[i::2]] for i in range(2))
    assert times[-1] == 58.9 and sum(times[:-1]) == pytest.approx(58.9, abs=1e-9)
    assert shares[-1] == 100.0 and sum(shares[:-1]) == pytest.approx(100.0, abs=1e-9)
    widths = re.findall(r'<rect x="[^"]*" width="([\d.]+)%"', part)
    assert sum(map(float, widths)) == pytest.approx(100, abs=0.1)


def test_everything_that_was_found_is_on_the_page(rendered: dict[str, str]) -> None:
    # What a node stands for besides is told where the pointer rests.
    assert 'title="with /encoder/layer.1/attention/Relu_1; as fused_fusedconv_1"' in rendered["usual"]
    text = Page(rendered["usual"]).text
    facts(text, "58.9 ms", "24 steady", "81.0 %", "computing, in kernels")
    facts(text, "2 threads", "88.0 GFLOP/s", "16.0 GB/s")
    facts(text, "overhead between nodes", "+2.00 ms", "21 %")
    for part in (
        "settings can win at most 8 %",
        "24, after 2 left out",
        "1.08x the time without",
        "show all 36 rows instead of the first 10",
        "4 nodes of the optimised graph of unknown origin in the model",
        "int8: 290 GOP/s",
        "held by the arena 256 MiB",
    ):
        assert part in text, part
    moved = Page(rendered["difference"]).text
    facts(moved, "computing, in kernels", "+2.90 ms", "+2.50", "+3.30", "47.70 ms", "50.60 ms")
    facts(moved, "only in B", "8 nodes", "100 us", "n4", "3 more")
    for part in (
        "+3.20 ms a run, B against A",
        "/encoder/Cast Cast -> FusedCast -3.40 ms 3.40 ms → absent",
    ):
        assert part in moved, part


def test_the_large_number_says_that_it_is_noise() -> None:
    noise = msgspec.structs.replace(golden_profile.difference(), low_ns=-1e5)
    text = pages.render(profiled(against=noise))
    assert "+3.20 ms a run, B against A, within noise" in Page(text).text
    assert 'class="large tone-faint"' in text and 'class="large tone-bad"' not in text


def test_only_what_is_beyond_noise_is_drawn_as_sure(rendered: dict[str, str]) -> None:
    part = section(rendered["difference"], "difference")
    assert part.count("box more sure") == 4 and part.count("unsure") == 3
    assert part.count("line whisker") == 5


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
    text = pages.render(profiled(memory=memory))
    heights = re.findall(r'height="([\d.]+)%" class="box in-use', text)
    assert max(map(float, heights)) > 90 and len(heights) <= 300
    assert "the peak: 977 KiB in use" in text


def test_the_last_run_is_drawn_thread_by_thread_and_what_is_short_is_gathered() -> None:
    # One run, 100 executions of 8 us on one thread, three of them too short to be seen by themselves.
    long = golden_profile.timeline(n=100)
    durations = msgspec.structs.replace(long, duration_ticks=shortened(long.duration_ticks, 2, 3, 4))
    part = section(pages.render(profiled(timeline=durations)), "timeline")
    boxes = [a for a in Page(part).named("rect") if "box" in str(a.get("class"))]
    assert len(boxes) == 97 + 3 + 1  # a pause lies between them, and one is in a body
    facts(part, "1.00 ms", "2 tracks")
    facts(part, "/encoder/MatMul", "8.00 us")
    assert "thread 7" in Page(part).text


def shortened(column: bytes, *rows: int) -> bytes:
    values = [int.from_bytes(column[i : i + 4], "little") for i in range(0, len(column), 4)]
    return b"".join((0 if i in rows else v).to_bytes(4, "little") for i, v in enumerate(values))


def test_the_page_names_the_exports_that_show_more_or_the_commands_that_write_them() -> None:
    choice = InputChoice(name="x", dtype="float", shape=(1,), role="data", origin="name")
    fed = Workload(cases=(ShapeCase(name="all", weight=1.0, inputs=(choice,)),))
    run = msgspec.structs.replace(golden_profile.usual().trace, path="")
    text = Page(pages.render(msgspec.structs.replace(profiled(trace=run), workload=fed))).text
    facts(text, "Perfetto", "/tmp/out.trace.json", "speedscope", "Model Explorer")
    facts(text, "ortune profile encoder.onnx --set intra_op_num_threads=2 --export speedscope=")
    trace = Page(pages.render(KINDS["plain-trace"])).text
    facts(trace, "ortune profile /tmp/trace.json --export", "model-explorer=")


def test_a_page_that_is_told_again_says_so_and_why_there_is_no_timeline() -> None:
    text = pages.render(KINDS["usual"], stored="measured before, <b>not now</b>")
    seen = Page(text)
    assert seen.broken == [] and seen.open == []
    assert "measured before, <b>not now</b>" in seen.text and "The timeline was not kept" in seen.text
    assert text.index("measured before") < text.index('<section class="lead"')
    assert "The timeline was not kept" not in pages.render(with_timeline(KINDS["usual"]), stored="x")


def test_a_page_shows_what_inserted_nodes_are_for_and_what_is_too_short_for_the_peak() -> None:
    result = golden_profile.usual()
    moved = msgspec.structs.replace(result.nodes[0], purpose="cast for <b>conv1</b>", bound="overhead")
    seen = Page(pages.render(profiled(nodes=(moved, *result.nodes[1:]))))
    assert any("inserted: cast for <b>conv1</b>" in str(th.get("title")) for th in seen.named("th"))
    assert "bound by overhead" in seen.text


def test_the_headroom_stands_on_the_page_in_its_own_words_alone() -> None:
    headroom = Headroom(settings_ratio=0.03, kernels_ratio=0.5, overhead_ratio=0.8, sentence="what it means")
    text = Page(pages.render(profiled(headroom=headroom))).text
    assert text.count("what it means") == 1
    assert "at most 3" not in text and "80 %" not in text and "machine's peak 50" not in text
    assert (
        "what it means"
        in Page(pages.render(profiled(headroom=msgspec.structs.replace(headroom, settings_ratio=None)))).text
    )


def test_all_runs_that_are_left_out_are_shaded() -> None:
    variance = golden_profile.usual().variance
    assert variance is not None
    page = pages.render(profiled(variance=msgspec.structs.replace(variance, warmup_runs=0, left_out_runs=13)))
    assert "the first 13 left out" in page and re.search(r'<rect[^>]*width="50%"[^>]*class="box warm', page)


def test_every_category_has_its_colour_and_its_meaning() -> None:
    style = pages.render(KINDS["usual"])
    for name in get_args(CategoryName):
        assert f".c-{name} {{ --hue: var(--c-{name}); }}" in style
        assert style.count(f"--c-{name}: #") == 3
        assert name in MEANINGS and name in CATEGORIES


def test_an_empty_timeline_is_left_out() -> None:
    nothing = Timeline(tick_ns=1, start_ticks=b"", duration_ticks=b"", name_codes=b"", names=(), op_types=())
    text = section(pages.render(profiled(timeline=nothing)), "timeline")
    assert "<rect" not in text and "was not kept" not in text


def test_same_document_gives_the_same_page() -> None:
    assert pages.render(with_timeline(profiled())) == pages.render(with_timeline(profiled()))


def test_the_table_of_layers_drops_the_deepest_and_never_a_branch() -> None:
    def place(name: str, ns: float) -> LayerTime:
        return LayerTime(layer=name, depth=name.count("/") + 1, n_nodes=1, time_ns=ns, share_ratio=0.0)

    found = [place("big", 100.0), *(place(f"big/{i}", 1.0) for i in range(100)), place("small", 0.5)]
    text = Page(pages.render(profiled(layers=tuple(found), layers_left_out=7))).text
    assert "small" in text and "22 more are in the JSON document." in text
    assert "The 7 deepest and cheapest layers are omitted" in text
