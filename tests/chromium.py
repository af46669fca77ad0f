"""A real browser on one page of ours, served from loopback."""

from __future__ import annotations

import functools
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

from ortune import temporary
from ortune.targets.browser import compiled_code, page_job, setup
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.devtools_messages import CALL_S

HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TYPES = {
    ".html": "text/html",
    ".mjs": "text/javascript",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
}
ONNXRUNTIME_WEB = "1.30.0"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
WEBGPU = "--enable-unsafe-webgpu"
COMPILED_ONCE = "--js-flags=--liftoff-only"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", WEBGPU, setup.NO_POPUPS,
    COMPILED_ONCE,
)  # fmt: skip


@dataclass
class Site:
    """What is served, and what a page sent back.

    Attributes:
        files: Folders and texts by the beginning of their paths.
        headers: Sent with everything.
        types: What files are said to be, by how their names end.
    """

    files: dict[str, Path | str]
    headers: dict[str, str]
    types: dict[str, str] = field(default_factory=lambda: dict(TYPES))
    answers: queue.Queue[Any] = field(default_factory=queue.Queue)
    port: int = 0


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            body = None
            for start, held in site.files.items():
                if isinstance(held, str) and path == start:
                    body = held.encode()
                elif (
                    isinstance(held, Path)
                    and path.startswith(start)
                    and (held / path[len(start) :]).is_file()
                ):
                    body = (held / path[len(start) :]).read_bytes()
            self.send_response(200 if body is not None else 404)
            kind = (
                "text/html" if path == "/" else site.types.get(Path(path).suffix, "application/octet-stream")
            )
            for name, value in {**site.headers, "Content-Type": kind}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def do_POST(self) -> None:
            site.answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    site.port = server.server_address[1]
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def installed(package: str, version: str, name: str) -> Path:
    """The ``node_modules`` with a package of npm, installed once into the repository's cache."""
    if shutil.which("node") is None:
        pytest.skip("node is not on this machine")
    folder = Path(__file__).resolve().parents[1] / ".cache" / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place and then moved: tests that run side by side must never see half of it.
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            # The CPU build lies in the package; its install script would only fetch CUDA's.
            command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(made)]
            subprocess.run([*command, f"{package}@{version}"], check=True, timeout=300)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another worker was first, and its copy is as good
                    raise
    return folder / "node_modules"


def web_modules() -> Path:
    """A real onnxruntime-web."""
    return installed("onnxruntime-web", ONNXRUNTIME_WEB, f"web-{ONNXRUNTIME_WEB}")


def hardly_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are warmed up for a moment alone, where no test asks what a run takes.

    Nor is it waited for what V8 compiles beside the runs, and for what it then writes: seconds of every first page.
    """
    monkeypatch.setattr(page_job, "WARM_MS", 50)
    monkeypatch.setattr(page_job, "AGAIN_MS", 50)
    monkeypatch.setattr(compiled_code, "_FIRST_S", 0.0)
    monkeypatch.setattr(compiled_code, "_WRITTEN_S", 0.2)


class Browser:
    """One of a profile of its own, on a page."""

    def __init__(self, address: str, profile: Path, *, webgpu: bool = True) -> None:
        self.profile = profile
        flags = [flag for flag in FLAGS if webgpu or flag != WEBGPU]
        self.process = subprocess.Popen(
            [str(CHROMIUM), *flags, f"--user-data-dir={profile}", address],
            env=setup.environment(profile.parent),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """It ends by force, and nothing of it stays outside of its profile."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        temporary.remove_sockets(self.profile)


RUNS = """<!doctype html>
<script>
const said = [];
for (const kind of ["error", "warn", "log", "info", "debug"]) {
  const usual = console[kind].bind(console);
  console[kind] = (...words) => { said.push(words.join(" ")); usual(...words); };
}
</script>
<script type="module">
const ARRAYS = {
  float32: Float32Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array, bool: Uint8Array,
};
const ort = await import("/ort/%s");
const all = {};
for (const [file, feeds] of Object.entries(%s)) {
  said.length = 0;
  const found = all[file] = { outputs: {} };
  try {
    const options = { executionProviders: [{ name: "webgpu" }], logSeverityLevel: 0 };
    const session = await ort.InferenceSession.create(`/models/${file}`, options);
    const given = Object.entries(feeds).map(([name, [type, data, dims]]) =>
      [name, new ort.Tensor(type, ARRAYS[type].from(type === "int64" ? data.map(BigInt) : data), dims)]);
    const results = await session.run(Object.fromEntries(given));
    for (const [name, value] of Object.entries(results)) found.outputs[name] = [...await value.getData()].map(Number);
  } catch (error) {
    found.failed = String(error);
  }
  found.without = said.map((line) => /kernel not found .* Op type: (\\w+)/.exec(line)?.[1]).filter(Boolean);
}
await fetch("/answer", { method: "POST", body: JSON.stringify(all) });
</script>"""


def ran(folder: Path, feeds: dict[str, dict[str, np.ndarray]], build: str) -> dict[str, Any]:
    """What WebGPU makes of models of a folder, with these inputs.

    Returns:
        By file: ``outputs`` by name, ``failed``, and ``without``, the operators that it has no kernel for.
    """
    given = {
        file: {name: [str(v.dtype), v.ravel().tolist(), list(v.shape)] for name, v in values.items()}
        for file, values in feeds.items()
    }
    files: dict[str, Path | str] = {
        "/ort/": web_modules() / "onnxruntime-web" / "dist",
        "/models/": folder,
        "/": RUNS % (build, json.dumps(given)),
    }
    return answered(files, HEADERS)


def answered(
    files: dict[str, Path | str],
    headers: dict[str, str],
    types: dict[str, str] | None = None,
    *,
    webgpu: bool = True,
    limit_s: float = 60.0,
) -> dict[str, Any]:
    """What the page "/" sends back from a context of its own of a browser, in which nothing is left of another."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is on this machine")
    site = Site(files=files, headers=headers, types=TYPES | (types or {}))
    ask = _shared(webgpu)._call
    with serving(site):
        context = ask("Target.createBrowserContext", "", CALL_S, {})
        try:
            url = f"http://127.0.0.1:{site.port}/"
            ask("Target.createTarget", "", CALL_S, {"url": url, "newWindow": True, **context})
            found: dict[str, Any] = site.answers.get(timeout=limit_s)
            return found
        finally:
            ask("Target.disposeBrowserContext", "", CALL_S, context)


_STARTED: list[tuple[DevTools, Path]] = []


@functools.cache
def _shared(webgpu: bool) -> DevTools:
    """A browser without a page, started once: that takes longer than most pages."""
    profile = Path(tempfile.mkdtemp())
    flags = [flag for flag in FLAGS if webgpu or flag != WEBGPU]
    with (profile / "log").open("wb") as log:
        tools = DevTools(
            str(CHROMIUM), [*flags, f"--user-data-dir={profile}"], environment=setup.environment(profile),
            folder=profile, log=log, happened=lambda event: None,
        )  # fmt: skip
    _STARTED.append((tools, profile))
    return tools


def end_shared() -> None:
    """Ends the browsers that tests share, and removes what is left of them."""
    while _STARTED:
        tools, profile = _STARTED.pop()
        tools.close()
        temporary.remove_sockets(profile)
        shutil.rmtree(profile, ignore_errors=True)
