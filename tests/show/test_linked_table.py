"""The table of models and machines on a page, sorted by links in a real browser that runs no script."""

from __future__ import annotations

import json

import chromium
from ortune.records import Envelope, ManyResult, ModelRow, RowFigure
from ortune.show.html import pages

ORDER = """<!doctype html><script>
const found = {};
for (const hash of %s) {
  const frame = document.createElement("iframe");
  frame.style = "width: %dpx; height: 900px; border: 0";
  frame.setAttribute("sandbox", "allow-same-origin");  // and no scripts
  frame.src = `/page.html${hash}`;
  const loaded = new Promise((done) => { frame.onload = done; });
  document.documentElement.append(frame);
  const cells = (row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent.trim()).join(" ");
  found[hash] = loaded.then(() => [...frame.contentDocument.querySelectorAll("table.linked > tbody > tr")]
    .map((row) => [row.getBoundingClientRect().top, cells(row)]).sort(([a], [b]) => a - b).map(([, text]) => text));
}
Promise.all(Object.entries(found).map(async ([hash, each]) => [hash, await each])).then((all) =>
  fetch("/answer", { method: "POST", body: JSON.stringify(Object.fromEntries(all)) }));
</script>"""
P50_NS = {("b", "pi"): 9e6, ("b", "pc"): 2e6, ("a", "pi"): 11e6, ("a", "pc"): None, ("c", "pc"): 3e6}


def page() -> str:
    rows = [
        ModelRow(
            path=f"{model}.onnx",
            host=host,
            answer="done",
            figures=() if p50_ns is None else (RowFigure(name="p50", unit="ns", value=p50_ns),),
        )
        for (model, host), p50_ns in P50_NS.items()
    ]
    result = ManyResult(verb="bench", models=tuple(rows))
    return pages.render(Envelope(schema="ortune/many/1", ortune="0.1.0", status="ok", result=result))


def test_links_sort_the_table_without_a_script() -> None:
    hashes = ["", "#up-1", "#up-2", "#up-4", "#down-4"]
    for width_px in (1280, 390):
        files = {"/": ORDER % (json.dumps(hashes), width_px), "/page.html": page()}
        found = chromium.answered(files, {})
        given = [f"{model}.onnx {host}" for model, host in P50_NS]
        assert found[""] == given
        assert found["#up-1"] == sorted(given, key=lambda row: row[0])
        assert found["#up-2"] == sorted(given, key=lambda row: row.split()[1])
        up = ["b.onnx pc", "c.onnx pc", "b.onnx pi", "a.onnx pi"]
        assert found["#up-4"] == [*up, "a.onnx pc"]
        assert found["#down-4"] == [*up[::-1], "a.onnx pc"]  # what has no value is last in both directions
