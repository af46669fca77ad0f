"""Pages on a narrow screen, in a real browser, and their colours on light and dark ground."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

import chromium
import golden
import golden_answers
import golden_profile
import golden_tune
import ortune
from mobile_models import mnist
from ortune.records import Envelope
from ortune.show.html import frame, pages

WIDTHS_PX = (390, 1280)
PAGES = {
    **{f"tune-{name}": envelope for name, envelope in golden_tune.KINDS.items() if "hostile" not in name},
    **{f"profile-{name}": each for name, each in golden_profile.KINDS.items() if "hostile" not in name},
    "timeline": golden_profile.profiled(timeline=golden_profile.timeline()),
    "compare": golden.compared(why=golden_profile.difference()),
    "several": golden_answers.several(),
    "doctor": golden.diagnosed(),
    "look": golden_answers.looked(),
    "bench": golden_answers.document(golden_answers.row(), golden_answers.row("seq=128")),
}
MEASURES = """<!doctype html><script>
// What reaches over the right edge, but for what scrolls within the page, or lies in such a thing; and but for names in
// boxes of a chart, which are cut where the box ends.
function over(page) {
  const style = (e) => page.defaultView.getComputedStyle(e);
  const scrolls = (e) => e && (/auto|scroll/.test(style(e).overflowX) || scrolls(e.parentElement));
  return [...page.body.querySelectorAll("*")]
    .filter((e) => !e.closest(".clip"))
    .filter((e) => e.getBoundingClientRect().right > %d + 1 && e.getBoundingClientRect().width && !scrolls(e))
    .map((e) => `${e.tagName}.${e.getAttribute("class")}: ${e.textContent.trim().slice(0, 60)}`);
}
// A button on what it copies, however far that is scrolled.
function under(page) {
  return [...page.querySelectorAll(".copyable")]
    .filter((e) => e.firstElementChild.getBoundingClientRect().right > e.lastElementChild.getBoundingClientRect().left)
    .map((e) => `under a button: ${e.textContent.trim().slice(0, 60)}`);
}
const found = {};
for (const name of %s) {
  const frame = document.createElement("iframe");
  frame.style = "width: %dpx; height: 900px; border: 0";
  frame.src = `/${name}.html`;
  const loaded = new Promise((done) => { frame.onload = done; });
  document.documentElement.append(frame);
  found[name] = loaded.then(() => frame.contentDocument).then((page) =>
    [page.documentElement.scrollWidth, [...over(page), ...under(page)].slice(0, 5)]);
}
Promise.all(Object.entries(found).map(async ([name, each]) => [name, await each])).then((all) =>
  fetch("/answer", { method: "POST", body: JSON.stringify(Object.fromEntries(all)) }));
</script>"""
COLOUR = re.compile(r"--(\w+): #([0-9a-f]{6}|[0-9a-f]{3});")
READABLE = 4.5
"""The least contrast of text that WCAG 2 asks for (level AA)."""


@pytest.fixture(scope="module")
def for_phones(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Envelope[Any]]:
    """What a phone's providers take of a model, and its file in ORT format; its path makes every command long."""
    folder = tmp_path_factory.mktemp("a-folder-with-a-name-that-makes-commands-longer-than-a-page-is-wide")
    model = mnist(folder / "a-model-with-a-name-that-is-hardly-shorter-than-that-of-its-folder.onnx")
    return {
        "partition": ortune.partition(model, providers="nnapi,coreml,coreml-neuralnetwork,xnnpack"),
        "levels": ortune.convert(model, to="ort", runs_on="nnapi", output=folder / "m.ort"),
    }


@pytest.mark.parametrize("width_px", WIDTHS_PX)
def test_nothing_is_clipped(width_px: int, for_phones: dict[str, Envelope[Any]]) -> None:
    shown = PAGES | for_phones
    files: dict[str, Path | str] = {f"/{name}.html": pages.render(each) for name, each in shown.items()}
    measures = MEASURES % (width_px, json.dumps(list(shown)), width_px)
    found = chromium.answered({"/": measures, **files}, {})
    assert {name: seen for name, seen in found.items() if seen[0] > width_px or seen[1]} == {}


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("11.0 ms -> 9.90 ms", ["-&gt;"]),
        ("1.11x (95 % interval 1.09-1.13x, 16 blocks)", ["1.09-1.13x"]),
        ("outputs differ; accept with --tolerance 0.005", ["--tolerance"]),
        ("float32 at 2026-11-26, a well-known <b>", []),
    ],
)
def test_no_line_end_parts_an_arrow_an_option_or_an_interval(text: str, whole: list[str]) -> None:
    shown = frame._prose(text)
    assert re.findall(r'<span class="whole">(.*?)</span>', shown) == whole
    assert html.unescape(re.sub(r"</?span[^>]*>", "", shown)) == text and "<b>" not in shown
    assert ".whole { white-space: nowrap; }" in (Path(frame.__file__).parent / "style.css").read_text("utf-8")


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    whole = colour if len(colour) == 6 else "".join(2 * c for c in colour)
    parts = [int(whole[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "print"])
def test_text_can_be_read_on_its_ground(scheme: int) -> None:
    style = (Path(frame.__file__).parent / "frame.css").read_text(encoding="utf-8")
    colours = dict(COLOUR.findall(re.split(r":root \{", style)[1 + scheme].partition("}")[0]))
    for ground in ("paper", "panel"):
        for text in ("ink", "minor", "winner", "today", "default", "bad"):
            light, dark = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= READABLE, f"{text} on {ground}"
