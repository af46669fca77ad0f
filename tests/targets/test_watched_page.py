"""A page of the user's own, watched in a real Chromium: by the global script, by import, and in a worker."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest
from watched import sessions, watched

import ortune
from chromium import CHROMIUM, HEADERS, TYPES, Site, serving, web_modules
from facts import facts
from ortune.errors import UsageError
from ortune.graph.model.open import open_model
from ortune.records import PageSeen, PageSession, Plan, ProviderSpec, WatchedPage
from ortune.show import markdown
from ortune.targets.browser import watched_model
from ortune.targets.browser.watched_session import plan_of, thread_times
from ortune.verbs.diagnose import page_words
from ortune.verbs.diagnose import words as diagnose_words
from ortune.verbs.diagnose.result import DiagnoseResult
from web_models import web_net

PAGE = """<!doctype html><title>mine</title>
<script src="/ort/ort.wasm.min.js"></script>
<script>
const x = () => new Float32Array(8 * 16 * 16);
ort.env.wasm.wasmPaths = "/ort/";
ort.env.wasm.numThreads = 4;
const scripted = ort.InferenceSession.create("/m/m.onnx").then(async (session) => {
  for (let i = 0; i < 3; i++) await session.run({ x: new ort.Tensor("float32", x(), [1, 8, 16, 16]) });
  try { await session.run({ wrong: new ort.Tensor("float32", x(), [1, 8, 16, 16]) }); } catch {}
});
</script>
<script type="module">
import * as ort from "/ort/ort.min.mjs";
ort.env.wasm.wasmPaths = "/ort/";
await scripted;
const bytes = new Uint8Array(await (await fetch("/m/m.onnx")).arrayBuffer());
const session = await ort.InferenceSession.create(bytes, {
  executionProviders: [{ name: "wasm" }], enableProfiling: true,
});
await session.run({ x: new ort.Tensor("float32", x(), [1, 8, 16, 16]) });
try { await ort.InferenceSession.create(new Uint8Array(8)); } catch {}
new Worker("/worker.js");
</script>"""
WORKER = """importScripts("/ort/ort.wasm.min.js");
ort.env.wasm.wasmPaths = "/ort/";
ort.InferenceSession.create("/m/m.onnx", { graphOptimizationLevel: "basic" }).then(async (session) => {
  await session.run({ x: new ort.Tensor("float32", new Float32Array(8 * 16 * 16), [1, 8, 16, 16]) });
  await fetch("/over", { method: "POST", body: "1" });
});"""
PROXY = """<!doctype html>
<script src="/ort/ort.wasm.min.js" integrity="sha384-%s" crossorigin="anonymous"></script>
<script>
ort.env.wasm.wasmPaths = "/ort/";
ort.env.wasm.proxy = true;
fetch("/m/m.onnx").then(async (got) => {
  const session = await ort.InferenceSession.create(new Uint8Array(await got.arrayBuffer()));
  await session.run({ x: new ort.Tensor("float32", new Float32Array(8 * 16 * 16), [1, 8, 16, 16]) });
  await fetch("/over", { method: "POST", body: "1" });
});
</script>"""
BESIDE = """<!doctype html>
<script type="module">
import * as ort from "/ort/ort.wasm.min.mjs";
ort.env.wasm.wasmPaths = "/ort/";
const bytes = async (file) => new Uint8Array(await (await fetch(file)).arrayBuffer());
const run = async (model, externalData) => {
  try {
    const session = await ort.InferenceSession.create(model, externalData && { externalData });
    await session.run({ x: new ort.Tensor("float32", new Float32Array(8 * 16 * 16), [1, 8, 16, 16]) });
  } catch {}
};
await run(await bytes("/m/m.onnx"), [{ path: "m.onnx_data", data: await bytes("/m/m.onnx_data") }]);
await run("/m/m.onnx", [{ path: "./m.onnx_data", data: "/m/m.onnx_data" }]);
await run("/m/m.onnx", [{ path: "m.onnx_data", data: new Blob([await bytes("/m/m.onnx_data")]) }]);
await run("/m/m.onnx");
await run("/m/m.onnx", [{ path: "../../m.onnx_data", data: "/m/m.onnx_data" }]);
await run("/m/m.onnx", [{ path: "m.onnx_data", data: "/m/gone" }]);
await fetch("/over", { method: "POST", body: "1" });
</script>"""
HOLDING = """<!doctype html>
<script type="module">
import * as ort from "/ort/ort.wasm.min.mjs";
ort.env.wasm.wasmPaths = "/ort/";
const bytes = async () => new Uint8Array(await (await fetch("/m/m.onnx")).arrayBuffer());
const first = await bytes();
for (const model of [first, await bytes(), first]) await ort.InferenceSession.create(model);
const kept = Object.getOwnPropertySymbols(globalThis).find(({ description }) => description.startsWith("ortune-"));
const held = globalThis[kept].models.flat().map(({ data }) => data.length);
await fetch("/over", { method: "POST", body: JSON.stringify(held) });
</script>"""


KEPT_ON_GPU = """<!doctype html>
<script type="module">
import * as ort from "/ort/ort.webgpu.min.mjs";
ort.env.wasm.wasmPaths = "/ort/";
const options = { executionProviders: ["webgpu"], preferredOutputLocation: "gpu-buffer" };
const input = () => ({ x: new ort.Tensor("float32", new Float32Array(8 * 16 * 16), [1, 8, 16, 16]) });
const model = new Uint8Array(await (await fetch("/m/m.onnx")).arrayBuffer());
try {
  const leaks = await ort.InferenceSession.create(model, options);
  const clean = await ort.InferenceSession.create(model, options);
  for (let i = 0; i < 12; i++) {
    await leaks.run(input());
    for (const value of Object.values(await clean.run(input()))) await (i % 2 ? value.dispose() : value.getData(true));
  }
} catch (error) { console.warn(error); }
await fetch("/over", { method: "POST", body: "1" });
</script>"""


SERVED_WRONG = """<!doctype html><script type="module">
import * as ort from "/ort/ort.wasm.min.mjs";
ort.env.wasm.wasmPaths = "/ort/";
for (const _ of ["once", "again"]) await fetch("/gone.wasm");
await ort.InferenceSession.create("/m/m.onnx");
await fetch("/over", { method: "POST", body: "1" });
</script>"""


def ort_web() -> Path:
    if CHROMIUM is None:
        pytest.skip("NOT TESTED HERE: there is no Chromium")
    return web_modules() / "onnxruntime-web" / "dist"


@contextmanager
def served(folder: Path, page: str, headers: dict[str, str] = HEADERS, **more: Any) -> Iterator[Site]:
    """A page with onnxruntime-web and a small network, to which ``more`` files and types are added."""
    if not (folder / "m.onnx").exists():
        web_net(folder / "m.onnx")
    files = {"/ort/": ort_web(), "/m/": folder, "/": page, **more.pop("files", {})}
    with serving(Site(files=files, headers=headers, **more)) as site:
        yield site


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ortune.Answer[DiagnoseResult]]:
    folder = tmp_path_factory.mktemp("page")
    with served(folder, PAGE, {}, files={"/worker.js": WORKER}) as site:
        yield watched(site, folder / "store")


def test_sessions_are_seen_however_onnxruntime_web_was_loaded(answer: ortune.Answer[DiagnoseResult]) -> None:
    script, module, broken, worker = sessions(answer)
    assert [s.worker for s in (script, module, broken, worker)] == [False, False, False, True]
    assert [s.version for s in (script, module, worker)] == ["1.30.0"] * 3
    assert [s.plan.settings.get("web_build") for s in (script, module, worker)] == ["wasm", "jsep", "wasm"]
    assert (script.environment["wasm.numThreads"], script.in_force["wasm.numThreads"]) == ("4", "1")
    assert module.options["enableProfiling"] == "true" and worker.options == {
        "graphOptimizationLevel": "basic"
    }
    assert (script.runs.n, script.runs.n_failed, module.runs.n, worker.runs.n) == (3, 1, 1, 1)
    assert "'x' is missing" in script.runs.error and "protobuf" in broken.error
    assert [(t.name, t.type, t.shape) for t in script.inputs] == [("x", "float32", ("1", "8", "16", "16"))]
    assert [t.type for t in worker.outputs] == ["float32"]
    assert [(p.provider, p.n_nodes) for p in worker.placement] == [("CPUExecutionProvider", 4)]


AT_ONCE = PAGE.replace("await scripted;\n", "").replace(
    'new Worker("/worker.js");', 'await scripted; await fetch("/over", { method: "POST", body: "1" });'
)


def test_of_builds_that_load_at_the_same_time_none_is_taken_for_the_other(tmp_path: Path) -> None:
    with served(tmp_path, AT_ONCE, {}) as site:
        seen = sessions(watched(site, tmp_path / "store"))
    builds = {
        s.environment.get("wasm.numThreads", ""): s.plan.settings.get("web_build") for s in seen if s.runs.n
    }
    assert builds["4"] in (None, "wasm"), builds
    assert builds[""] in (None, "jsep"), builds


def test_it_is_a_session_that_can_be_told_again(answer: ortune.Answer[DiagnoseResult]) -> None:
    assert answer.result is not None and answer.result.session
    told = ortune.show(answer.result.session, store=answer.store).result
    assert told is not None and len(told.sessions) == 1
    told_again = [line for line in page_words._next(answer) if line.startswith("ortune report ")]
    assert len(told_again) == 1 and answer.result.session in told_again[0]


def test_models_are_read_out_of_the_page(answer: ortune.Answer[DiagnoseResult]) -> None:
    script, module, broken, worker = sessions(answer)
    for session in (script, module, worker):
        assert session.model.url.endswith("/m/m.onnx") and session.model.n_nodes == 4
        assert len(session.model.sha256) == 64
    assert broken.model.size_bytes == 8 and broken.model.error


def test_rules_are_asked_of_what_the_page_does(answer: ortune.Answer[DiagnoseResult]) -> None:
    script, module, _, worker = ({f.code for f in s.findings} for s in sessions(answer))
    assert "WEB011" in script and not {"WEB011", "WEB015"} & worker
    assert {"WEB015", "WEB020"} <= module
    assert answer.result is not None and answer.result.page is not None
    page = answer.result.page
    assert not page.seen.isolated and 0 < page.model_thread_ns < page.main_thread_ns < page.watched_ns
    assert answer.status == "interrupted"
    told = markdown.render(diagnose_words.document(answer))
    for words in (
        "4 sessions (1 failed) and 5 runs",
        "asked: 4",
        "in a worker",
        "Cross-Origin-Opener-Policy",
        "enableProfiling",
    ):
        assert words in told, told


def test_outputs_that_stay_on_the_gpu_are_named(tmp_path: Path) -> None:
    with served(tmp_path, KEPT_ON_GPU) as site:
        answer = watched(site, tmp_path / "store")
    leaks, clean = sessions(answer)
    if not leaks.runs.n:
        pytest.skip(f"NOT TESTED HERE: WebGPU: {leaks.error}")
    (kept,), (given,) = leaks.runs.on_gpu, clean.runs.on_gpu
    assert (kept.name, kept.made, kept.disposed, kept.size_bytes) == ("y", 12, 0, 4 * 8 * 16 * 16)
    assert given.made == 12 and given.disposed == 11  # the last one after its run
    first, last = leaks.runs.memory
    assert last.gpu_buffers >= first.gpu_buffers + 10 and last.gpu_bytes > first.gpu_bytes
    assert last.wasm_bytes >= 16 << 20
    (found,) = (finding for finding in leaks.findings if finding.code == "WEB021")
    facts(found.what, "y (12 of 12)")
    assert "WEB021" not in {finding.code for finding in clean.findings}
    page = answer.result.page
    assert page is not None and len(page.heap_bytes) == 2 and min(page.heap_bytes) > 1 << 20
    text = markdown.render(diagnose_words.document(answer))
    facts(text, "WEB021", "y: 12 tensors", "GPU memory", "JavaScript heap")


def test_a_script_with_a_digest_and_a_model_given_to_a_worker(tmp_path: Path) -> None:
    digest = base64.b64encode(hashlib.sha384((ort_web() / "ort.wasm.min.js").read_bytes()).digest()).decode()
    with served(tmp_path, PROXY % digest) as site:
        answer = watched(site, tmp_path / "store")
    (session,) = sessions(answer)
    assert session.model.url.endswith("/m/m.onnx") and session.model.n_nodes == 4
    assert session.plan.settings == {"web_isolation": True, "web_build": "wasm", "web_proxy": True}
    assert session.runs.n == 1 and [p.n_nodes for p in session.placement] == [4]
    assert "WEB013" in {f.code for f in session.findings}
    assert answer.result is not None and answer.result.page is not None
    assert answer.result.page.model_thread_ns == 0 and not answer.result.page.trouble


def test_weights_beside_a_model_are_read_out_of_the_page_too(tmp_path: Path) -> None:
    model = onnx.load(web_net(tmp_path / "m.onnx"))
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx_data", size_threshold=0
    )
    opened = open_model(tmp_path / "m.onnx")
    with served(tmp_path, BESIDE) as site:
        answer = watched(site, tmp_path / "store")
    *whole, without, outside, gone = sessions(answer)
    assert opened.facts.external_bytes > 0
    for session in whole:
        assert (session.runs.n, session.model.error) == (1, "")
        assert session.model.sha256 == opened.sha256 and session.model.n_nodes == 4
        (beside,) = session.model.weights
        assert beside.size_bytes == (tmp_path / "m.onnx_data").stat().st_size
        assert beside.url.endswith("/m/m.onnx_data") or session is whole[2]
    assert (
        without.error and "'m.onnx_data'" in without.model.error and "missing next to" in without.model.error
    )
    facts(outside.model.error, "../../m.onnx_data", "not a file", "model's folder")
    assert gone.error
    facts(gone.model.error, "m.onnx_data", "404")
    assert all(not session.model.sha256 for session in (without, outside, gone))
    assert "with external data" in markdown.render(diagnose_words.document(answer))


def test_what_the_server_does_wrong_is_told_once(tmp_path: Path) -> None:
    """A file that is missing was not loaded; WebAssembly of a wrong type is compiled only once all of it is there."""
    with served(tmp_path, SERVED_WRONG, {}, types={**TYPES, ".wasm": "text/plain"}) as site:
        page = watched(site, tmp_path / "store").result.page
    assert page is not None and [session.error for session in page.sessions] == [""]
    (loaded,) = page.files
    assert loaded.url.endswith("/ort/ort-wasm-simd-threaded.wasm")
    missing, mistaken = page.trouble
    assert "404" in missing and "/gone.wasm" in missing
    assert "Incorrect response MIME type" in mistaken


def test_an_address_without_a_page_is_refused(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("NOT TESTED HERE: there is no Chromium")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page, seen = f"http://127.0.0.1:{server.server_port}/typo", ortune.Watcher(stop=lambda: True)
        with pytest.raises(UsageError, match="the server responds with 404"):
            ortune.diagnose(page=page, store=tmp_path / "store", watcher=seen)
        server.shutdown()


def test_nothing_is_said_of_a_page_that_ended_before_it_was_asked() -> None:
    seen = PageSeen(browser="", isolated=False)
    page = WatchedPage(url="http://x.test/", seen=seen, watched_ns=10**9, trouble=("the page crashed",))
    assert dict(page_words._page(page)) == {"trouble": "the page crashed"}
    told = page_words.headline(msgspec.structs.replace(page, sessions=(PageSession(),)))
    facts(told, "closed before", "main thread", "no findings")
    assert plan_of({}, {"wasm.numThreads": "4"}, isolated=None, file="").settings == {"web_threads": 4}


def test_no_more_is_held_of_models_than_is_ever_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that drops what it has passed must not run out of memory since it is watched."""
    size = web_net(tmp_path / "m.onnx").stat().st_size
    monkeypatch.setattr(watched_model, "MOST_MODEL", size + size // 2)
    with served(tmp_path, HOLDING) as site:
        found = sessions(watched(site, tmp_path / "store"))
        assert site.answers.get_nowait() == [size, 0, size]
    assert [(s.model.size_bytes, s.model.n_nodes) for s in found] == [(size, 4)] * 3  # fetched once more


@pytest.mark.parametrize(
    ("errors", "told"), [(("", ""), "2 sessions and"), (("no", ""), "2 sessions (1 failed) and")]
)
def test_the_headline_counts_sessions_that_failed(errors: tuple[str, str], told: str) -> None:
    page = WatchedPage(
        url="u",
        seen=PageSeen(browser="b", isolated=True),
        watched_ns=10**9,
        sessions=tuple(PageSession(error=e) for e in errors),
    )
    assert page_words.headline(page).startswith(told)


def test_what_a_page_asks_for_as_settings() -> None:
    options = {"executionProviders": '["webgpu","wasm"]', "enableGraphCapture": "true"}
    environment = {"wasm.numThreads": "0", "webgpu.profiling": '{"mode":"default"}'}
    file = "https://x.test/assets/ort-wasm-simd-threaded.asyncify-B1xZ_3aq.wasm?v=1"
    assert plan_of(options, environment, isolated=True, file=file) == Plan(
        settings={
            "web_isolation": True, "web_build": "asyncify", "web_profiling": "default",
            "web_provider_form": "string", "web_graph_capture": True,
        },
        providers=(ProviderSpec(name="webgpu"), ProviderSpec(name="wasm")),
    )  # fmt: skip
    odd = plan_of({"executionProviders": "[[[1"}, {"wasm.numThreads": "x"}, isolated=False, file="")
    assert odd == Plan(settings={"web_isolation": False}, providers=(ProviderSpec(name="wasm"),))


def test_samples_in_webassembly_and_what_it_calls_are_the_models() -> None:
    def frame(name: str, url: str = "") -> dict[str, str]:
        return {"functionName": name, "url": url}

    nodes = [
        {"id": 1, "callFrame": frame("(root)"), "children": [2, 3]},
        {"id": 2, "callFrame": frame("(idle)")},
        {"id": 3, "callFrame": frame("app", "http://x/a.js"), "children": [4]},
        {"id": 4, "callFrame": frame("f", "http://x/ort.wasm?v=1"), "children": [5]},
        {"id": 5, "callFrame": frame("kernel", "http://x/a.js")},
    ]
    samples, deltas = [2, 3, 4, 5, 2], [7, 1000, 2000, 4000, 8000]
    assert thread_times({"nodes": nodes, "samples": samples, "timeDeltas": deltas}) == (0.014, 0.012)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "a model or a page"),
        ({"model": "m.onnx", "page": "http://127.0.0.1:1/"}, "a model or a page"),
        ({"page": "http://127.0.0.1:1/", "set": ["web_threads=2"]}, "has no effect on a page"),
        ({"page": "http://127.0.0.1:1/", "watch": "2h"}, "not a valid duration to observe"),
        ({"page": "file:///etc/passwd"}, "not a URL"),
    ],
)
def test_what_cannot_be_asked_of_a_page(asked: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ortune.diagnose(**asked)  # type: ignore[arg-type]
