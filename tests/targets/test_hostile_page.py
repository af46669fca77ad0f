"""Pages that do what no page should, watched in a real Chromium: none ends ortune, and nothing of them stays."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from watched import sessions, watched

from chromium import CHROMIUM, Site, serving
from ortune.show import markdown
from ortune.targets.browser import devtools, setup, waiting_scripts, watch
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.devtools_messages import DevToolsError, PageEvent
from ortune.verbs.diagnose import words as diagnose_words
from ortune.verbs.diagnose.result import DiagnoseResult

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED HERE: there is no Chromium")

ASKING = """<!doctype html>
<iframe src="/file.bin"></iframe>
<script type="module">
const anchor = Object.assign(document.createElement("a"), { href: "/file.bin", download: "planted.txt" });
document.body.append(anchor);
anchor.click();
const other = Object.assign(document.createElement("a"), { href: "/other.html", target: "_blank" });
document.body.append(other);
other.click();
const said = [
  String(window.open("/other.html")), String(window.open("/other.html", "_blank", "noopener")),
  confirm("really?"), prompt("name?"), await Notification.requestPermission(),
  await new Promise((done) => navigator.geolocation.getCurrentPosition(() => done("there"), () => done("denied"))),
  await navigator.requestMIDIAccess().then(() => "there", () => "denied"),
];
alert("over");
setTimeout(() => fetch("/over", { method: "POST", body: JSON.stringify(said) }), 500);
</script>"""


def test_what_a_page_asks_of_its_user_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / "Downloads").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_DOWNLOAD_DIR", str(home / "Downloads"))
    other = "<script>fetch('/over', { method: 'POST', body: '\"another window\"' })</script>"
    with serving(Site(files={"/": ASKING, "/file.bin": "planted", "/other.html": other}, headers={})) as site:
        page = watched(site, tmp_path / "store").result.page
        assert site.answers.get_nowait() == ["null", "null", False, None, "denied", "denied", "denied"]
        assert site.answers.empty()
    assert [path.name for path in home.rglob("*")] == ["Downloads"]
    assert page is not None and page.sessions == ()


PAGE = '<!doctype html><script src="/ort.js"></script>'
CLASS = """class InferenceSession {
  static async create() { return new InferenceSession(); }
  async run() { return {}; }
  startProfiling() { this.handler.startProfiling() }
}
const kept = globalThis[Object.getOwnPropertySymbols(globalThis).find((s) => s.description.startsWith("ortune-"))];
const mark = Object.getOwnPropertySymbols(globalThis).map((s) => s.description).find((s) => s.startsWith("ortune-"));
const say = (text) => console.debug(mark + (typeof text === "string" ? text : JSON.stringify(text)));
const over = () => setTimeout(() => fetch("/over", { method: "POST", body: "1" }), 200);
"""
FIGURES = """
for (const bytes of [-1, -(2 ** 63), 1e300, 2 ** 70, "7", null, [], NaN]) {
  say({ kind: "asked", number: 0, bytes });
  say({ kind: "run", number: 0, ms: bytes, back: bytes });
}
say({ kind: "asked", number: 1, url: "m.onnx", bytes: 8, options: { a: "\\ud800" }, environment: { "\\udfff": "x" } });
say({ kind: "created", number: 1, ms: 1, version: "\\ud800\\ud800" });
for (const ms of [-1, 1e8, 1e308]) for (let i = 0; i < 5; i++) say({ kind: "run", number: 1, ms, back: 2 ** 40 });
say('{"kind":"run","number":1,"ms":1e999}');
say({ kind: "asked", number: -1 }); say({ kind: "asked", number: 2 ** 53 }); say({ kind: "asked", number: 1.5 });
say('{"kind":"asked","number":' + "9".repeat(5000) + "}");
say('{"kind":"asked","number":7,"options":' + "[".repeat(100000)); say("null"); say(""); say("\\ud800");
"""
SETTINGS = """
const threads = "9".repeat(400);
const providers = JSON.stringify(Array(1000).fill("wasm").concat([[[]], { name: {} }, null, 7]));
for (const [number, numThreads] of [threads, "-1", "\\u0663", "1e9", "4"].entries()) {
  say({ kind: "asked", number, options: { executionProviders: providers, enableProfiling: "x".repeat(1000) },
    environment: { "wasm.numThreads": numThreads, "webgpu.profiling": '{"mode":{"a":[1]}}' },
    external: [{ path: "/etc/passwd", size_bytes: 3 }, { path: "\\0" }, { path: "" }, { path: "x".repeat(5000) }] });
  say({ kind: "created", number, ms: 1, inputs: [{ name: "x\\ud800", type: "y", shape: ["-1", "1e9", ""] }] });
}
say({ kind: "asked", number: 9, external: [{ path: "w", size_bytes: -(2 ** 40) }] });
"""
BROWSER = """
const lie = (object, name, value) => Object.defineProperty(object, name, { get: () => value, configurable: true });
lie(navigator, "hardwareConcurrency", -1e300); lie(navigator, "userAgent", "\\ud800Chrome/".repeat(5000));
lie(globalThis, "crossOriginIsolated", { toString: 1 }); lie(document, "visibilityState", [[]]);
performance.getEntriesByType = () =>
  [{ name: "a.wasm\\ud800", decodedBodySize: -7, responseStatus: "x".repeat(100) }, {}];
let deep = []; for (let i = 0; i < 900; i++) deep = [deep];
performance.getEntriesByType.toJSON = () => deep;
say({ kind: "asked", number: 0, bytes: 1 });
"""
FILES = """
const odd = [-5, 1e300, "7", null, [], { a: 1 }, 2 ** 53, 7];
kept.open = async (number) =>
  number === 8 ? [] : number === 9 ? { size: 7 } : { url: ["u", "\\ud800"][number % 2], size: odd[number] };
kept.piece = (number) => number === 7 ? "\\ud800" : "x".repeat(100);
for (let number = 0; number < 10; number++) say({ kind: "asked", number, bytes: 7 });
"""


SCRIPTS = {"figures": FIGURES, "settings": SETTINGS, "browser": BROWSER, "files": FILES}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_a_page_may_say_what_it_likes(script: str, tmp_path: Path) -> None:
    with serving(Site(files={"/": PAGE, "/ort.js": CLASS + script + "over();"}, headers={})) as site:
        answer = watched(site, tmp_path / "store")
    assert answer.error is None and sessions(answer)
    found = msgspec.json.decode(msgspec.json.encode(answer.result), type=DiagnoseResult)
    assert found.page == answer.result.page
    assert markdown.render(diagnose_words.document(answer))
    for session in sessions(answer):
        assert session.plan.settings.get("web_threads", 4) == 4 and len(session.plan.providers) == 1
        assert session.model.size_bytes >= 0 and session.model.error and not session.model.sha256
        assert 0 <= session.runs.total_ns < 2**63 and 0 <= session.runs.read_back_bytes < 2**63


MANY = """
const named = (n) => Array.from({ length: n }, (_, i) => [`past.${i}`, { dims: [1, 2], type: "float32" }]);
performance.getEntriesByType = () => [
  { name: `${"x".repeat(5000)}.wasm`, decodedBodySize: 7 }, { name: "b.wasm", decodedBodySize: 7 },
];
const externalData = Array.from({ length: 120 }, (_, i) => ({ path: `${i}.data`, data: new Uint8Array(4) }));
const session = await InferenceSession.create(new Uint8Array(8), { externalData });
await session.run(Object.fromEntries(named(256)));
over();
"""


def test_a_session_with_hundreds_of_inputs_and_files_is_told_whole(tmp_path: Path) -> None:
    page = '<!doctype html><script type="module" src="/ort.js"></script>'
    with serving(Site(files={"/": page, "/ort.js": CLASS + MANY}, headers={})) as site:
        answer = watched(site, tmp_path / "store")
    (session,) = sessions(answer)
    assert [each.name for each in session.inputs] == [f"past.{i}" for i in range(256)]
    assert len(session.model.weights) == 120 and session.runs.n == 1
    assert answer.result.page is not None
    assert [file.url for file in answer.result.page.files] == ["b.wasm"], "one that is none leaves the others"


BUSY = """
const forever = URL.createObjectURL(new Blob(["for (;;) {}"], { type: "text/javascript" }));
for (let i = 0; i < 4; i++) new Worker(forever);
for (;;) {}
"""


def test_a_page_that_never_ends_is_watched_no_longer_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is waited for by the browser's own limits alone takes longer than the test may."""
    monkeypatch.setattr(watch, "_LOAD_S", 5.0)  # on a busy machine the browser's start takes most of it
    script = CLASS + 'say({ kind: "asked", number: 0, bytes: 7 });' + BUSY
    with serving(Site(files={"/": PAGE, "/ort.js": script}, headers={})) as site:
        url, until = f"http://127.0.0.1:{site.port}/", time.monotonic() + 25
        found = watch.watch(
            url, browser=setup.BrowserSetup(), watch_s=1.0, until=until, folder=tmp_path, stop=lambda: False
        )
    assert [session.model.error for session in found.page.sessions]
    assert any("did not load" in text for text in found.page.trouble)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTools]:
    folder = tmp_path_factory.mktemp("tools")
    flags = setup.flags((), headful=False, profile=folder / "browser")
    events: list[PageEvent] = []
    with (folder / "log").open("wb") as log:
        made = DevTools(
            setup.program(setup.BrowserSetup()), flags, environment=setup.environment(folder), folder=folder,
            log=log, happened=events.append,
        )  # fmt: skip
    try:
        made.attach(rewrite=lambda kind, text: None)
        yield made
    finally:
        made.close()


def test_answers_that_are_no_text_or_too_long(tools: DevTools, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = r"['\ud800a', '\ud83d\ude00', '\\ud800', 'a\udc00\ud800']"
    assert tools.evaluate(halves) == ["\ufffda", "\U0001f600", r"\ud800", "a\ufffd\ufffd"]
    monkeypatch.setattr(devtools, "MOST_MESSAGE", 1 << 20)
    with pytest.raises(DevToolsError, match="it has more than 1 MiB"):
        tools.evaluate("'x'.repeat(2 << 20)")
    assert tools.evaluate("console.log('x'.repeat(2 << 20)), 7") == 7


class Printing:
    """A browser that prints messages in small pieces."""

    def __init__(self, *pieces: tuple[bytes, int]) -> None:
        self.pieces = [piece for piece, n in pieces for _ in range(n)][::-1]

    def read(self) -> bytes:
        return self.pieces.pop() if self.pieces else b""


_SAID = b'{"method":"Runtime.consoleAPICalled","params":{"type":"log","args":[{"value":"'


def test_a_long_line_is_put_together_once() -> None:
    """Put together at each of its pieces, it would be copied for minutes."""
    events: list[PageEvent] = []
    answer: queue.Queue[dict[str, Any] | None] = queue.Queue(1)
    deep = (b'"}]}}\0{"id":1,"result":', 1), (b"[" * 100_000, 1), (b"\0", 1)
    tools = DevTools.__new__(DevTools)
    vars(tools).update(
        child=Printing((_SAID, 1), (b"x" * 4096, 20_000), *deep),
        _happened=events.append, _workers=set(), _waiting={1: answer}, _lock=threading.Lock(),
        _loaded=threading.Event(), _closed=False,
    )  # fmt: skip
    tools._read()
    assert [(event.kind, len(event.text)) for event in events] == [("console", 20_000 * 4096), ("gone", 17)]
    told = answer.get_nowait()
    assert told is not None and "cannot be read" in told["error"]["message"]


def test_nothing_is_waited_for_beyond_the_deadline(tools: DevTools) -> None:
    tools.deadline = time.monotonic()
    try:
        with pytest.raises(DevToolsError, match="no answer within 0 s"):
            tools.evaluate("new Promise(() => {})")
        assert not tools._waiting
    finally:
        tools.deadline = time.monotonic() + 600


@pytest.mark.parametrize("waiting", [waiting_scripts.MOST_WAITING, 1])
def test_more_scripts_than_are_rewritten_at_a_time_are_loaded(
    tools: DevTools, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    """A browser asks one server for six at a time."""
    monkeypatch.setattr(waiting_scripts, "MOST_SCRIPTS", 2)
    monkeypatch.setattr(waiting_scripts, "MOST_WAITING", waiting)
    number = 40

    def rewrite(kind: waiting_scripts.ScriptKind, text: bytes) -> bytes | None:
        time.sleep(0.05)  # slower than they come
        return (
            text + b"\nglobalThis.rewritten = (globalThis.rewritten ?? 0) + 1;" if kind == "Script" else None
        )

    assert tools._scripts is not None
    monkeypatch.setattr(tools._scripts, "_rewrite", rewrite)
    scripts: dict[str, Path | str] = {
        f"/{i}.js": f"globalThis.n = (globalThis.n ?? 0) + 1; //{i}" for i in range(number)
    }
    page = "<!doctype html>" + "".join(f'<script src="/{i}.js" async></script>' for i in range(number))
    with serving(Site(files={"/": page, **scripts}, headers={})) as site:
        assert tools.navigate(f"http://127.0.0.1:{site.port}/")
        assert tools.evaluate("n") == number
    assert waiting == 1 or tools.evaluate("rewritten") == number
    assert not tools._scripts._paused_scripts
    until = time.monotonic() + 30
    while tools._scripts._n_scripts and time.monotonic() < until:
        time.sleep(0.01)
    assert tools._scripts._n_scripts == 0
