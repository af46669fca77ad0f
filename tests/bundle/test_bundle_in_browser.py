"""A bundle's code in a real browser: what it sets, what it falls back to, and what a page's server must send."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from chromium import HEADERS, ONNXRUNTIME_WEB, answered
from conftest import Bundle, matmul
from ortune.bundle.web import FILES, SERVED
from ortune.records import Plan, ProviderSpec, Value
from patience import held, with_budgets

FEEDS = {"x": np.ones((2, 64), np.float32)}
WASM, WEBGPU = ProviderSpec(name="wasm"), ProviderSpec(name="webgpu")
PAGE = """<!doctype html><meta charset="utf-8"><script type="importmap">%s</script>
<script>
const said = [];
for (const kind of ["error", "warn"]) {
  const before = console[kind];
  console[kind] = (...words) => { said.push(`${kind}: ${words.join(" ")}`); before(...words); };
}
%s
</script>
<script type="module">
async function main() {
  const { load } = await import("./bundle/load.web.mjs");
  const { session, ort, provider } = await load();
  const x = new ort.Tensor("float32", new Float32Array(128).fill(1), [2, 64]);
  const found = await session.run({ [session.inputNames[0]]: x });
  const y = found[session.outputNames[0]];
  return { provider, data: [...await y.getData()], dims: y.dims, threads: ort.env.wasm.numThreads };
}
if (!globalThis.waiting) {
  const answer = await main().catch((error) => ({ failed: String(error) }));
  const fetched = performance.getEntriesByType("resource").map((one) => one.name);
  const body = JSON.stringify({ ...answer, said, fetched, isolated: crossOriginIsolated });
  await fetch("/answer", { method: "POST", body });
}
</script>"""


def page(before: str = "") -> str:
    names = {
        "": "bundle",
        "/wasm": "wasm.bundle",
        "/webgpu": "webgpu.bundle",
        "/webgl": "webgl",
        "/jspi": "jspi.bundle",
    }
    imports = {f"onnxruntime-web{n}": f"/ort/ort.{file}.min.mjs" for n, file in names.items()}
    return PAGE % (json.dumps({"imports": imports}), before)


def answer(
    bundle: Path,
    modules: Path,
    *,
    isolated: bool = True,
    webgpu: bool = True,
    before: str = "",
    **more: str,
) -> dict[str, Any]:
    """What a page with the bundle says in a browser of its own."""
    dist = modules / "onnxruntime-web" / "dist"
    files: dict[str, Path | str] = {"/ort/": dist, "/bundle/": bundle, "/": page(before), **more}
    return answered(files, HEADERS if isolated else {}, webgpu=webgpu)


def expected(model: Path) -> np.ndarray:
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: FEEDS["x"]})[0])


@pytest.mark.parametrize("external", ["", "weights/a b.bin"])
def test_a_browser_runs_it_with_the_tuned_settings(
    external: str, tmp_path: Path, make_bundle: Bundle, web_modules: Path
) -> None:
    model = matmul(tmp_path / "100% net#1.onnx", external=external)
    settings: dict[str, Value] = {
        "web_threads": 2,
        "web_build": "wasm",
        "web_graph_optimization_level": "basic",
    }
    bundle = make_bundle(model, FEEDS, settings, providers=(WASM,), ort_web=ONNXRUNTIME_WEB)
    found = answer(bundle, web_modules)
    assert not [
        line for line in found["said"] if "tuned with" in line
    ]  # it is onnxruntime-web's version that counts
    assert found.get("provider") == "wasm", found
    assert found["isolated"] and found["threads"] == min(2, os.cpu_count() or 1)
    np.testing.assert_allclose(
        np.reshape(found["data"], found["dims"]), expected(model), rtol=1e-4, atol=1e-5
    )
    assert not [line for line in found["said"] if "ONE thread" in line or "FALLING" in line]


def test_a_second_bundle_of_a_page_tells_that_the_first_one_started_it(
    tmp_path: Path, make_bundle: Bundle, web_modules: Path
) -> None:
    """The threads of WebAssembly are those of the first session, whatever a later one sets."""
    bundles: dict[str, Path | str] = {}
    for name, threads in (("bundle", 1), ("same", 1), ("other", 2)):
        model = matmul(tmp_path / name / "net.onnx")
        settings: dict[str, Value] = {"web_build": "wasm", "web_threads": threads}
        bundles[f"/{name}/"] = make_bundle(model, FEEDS, settings, providers=(WASM,))
    later = "await (await import('./same/load.web.mjs')).load(); await (await import('./other/load.web.mjs')).load();"
    both = page().replace("await load();", f"await load(); {later}")
    found = answered({"/ort/": web_modules / "onnxruntime-web" / "dist", **bundles, "/": both}, HEADERS)
    assert found.get("provider") == "wasm", found
    said = [line for line in found["said"] if "already runs in this page" in line]
    assert len(said) == 1 and said[0].index('"numThreads":1') < said[0].index('"numThreads":2'), found["said"]


@pytest.mark.parametrize("kind", [".wasm", ".mjs"])
def test_a_server_that_tells_a_wrong_type(
    kind: str, tmp_path: Path, make_bundle: Bundle, web_modules: Path
) -> None:
    """WebAssembly is then compiled later, with a warning; a module is refused, and nothing of it has run."""
    model = matmul(tmp_path / "net.onnx")
    bundle = make_bundle(model, FEEDS, {"web_build": "wasm"}, providers=(WASM,))
    files: dict[str, Path | str] = {
        "/ort/": web_modules / "onnxruntime-web" / "dist", "/bundle/": bundle, "/": page(),
    }  # fmt: skip
    found = answered(files, HEADERS, {kind: "text/plain"})
    if kind == ".mjs":
        assert "load.web.mjs" in found["failed"], found
        return
    assert found.get("provider") == "wasm" and any("MIME" in line for line in found["said"]), found
    np.testing.assert_allclose(
        np.reshape(found["data"], found["dims"]), expected(model), rtol=1e-4, atol=1e-5
    )


def test_it_falls_back_loudly(tmp_path: Path, make_bundle: Bundle, web_modules: Path) -> None:
    model = matmul(tmp_path / "net.onnx")
    bundle = make_bundle(model, FEEDS, {"web_build": "asyncify", "web_threads": 2}, providers=(WEBGPU, WASM))
    found = answer(
        bundle, web_modules, isolated=False, before="navigator.gpu.requestAdapter = async () => null;"
    )
    assert found.get("provider") == "wasm", found
    np.testing.assert_allclose(
        np.reshape(found["data"], found["dims"]), expected(model), rtol=1e-4, atol=1e-5
    )
    assert any("error: ortune: webgpu cannot run" in s and "FALLING BACK to wasm" in s for s in found["said"])
    one = any("error: ortune: the page is not cross-origin isolated: ONE thread" in s for s in found["said"])
    assert one == ((os.cpu_count() or 1) > 1)


NO_JSPI = """
delete WebAssembly.Suspending;
Object.defineProperty(navigator, "gpu", { value: { requestAdapter: async () => ({}) } });"""


@pytest.mark.parametrize(
    ("build", "webgpu", "last", "fetched"),
    [
        ("asyncify", False, {}, "jsep"),
        ("asyncify", False, {"web_build": "wasm", "web_threads": 1}, ""),
        ("jspi", True, {}, "jsep"),
        ("jspi", True, {"web_build": "jspi"}, ""),
    ],
)
def test_a_device_without_what_the_winner_needs_runs_the_measured_plan_on_webassembly(
    build: str,
    webgpu: bool,
    last: dict[str, Value],
    fetched: str,
    tmp_path: Path,
    make_bundle: Bundle,
    web_modules: Path,
) -> None:
    """The untouched model, with the build of that plan; nothing of WebGPU is fetched where there is no adapter.

    The other device has one, and no JSPI: the build that needs it cannot start, and no other session in it.
    """
    model = matmul(tmp_path / "net.onnx", external="net.bin")
    rewritten = tmp_path / "made" / "net.onnx"
    shutil.copytree(model.parent, rewritten.parent, ignore=shutil.ignore_patterns("made"))
    bundle = make_bundle(
        model, FEEDS, {"web_build": build}, providers=(WEBGPU,), rewritten=rewritten,
        fallback=Plan(providers=(WASM,), settings=last), directory=tmp_path / "bundles",
    )  # fmt: skip
    text = (bundle / "load.web.mjs").read_text(encoding="utf-8")
    assert 'PLAIN_MODEL = new URL("./plain/net.onnx"' in text
    found = answer(bundle, web_modules, webgpu=webgpu, before=NO_JSPI if webgpu else "")
    assert found.get("provider") == "wasm", found
    np.testing.assert_allclose(
        np.reshape(found["data"], found["dims"]), expected(model), rtol=1e-4, atol=1e-5
    )
    said = [line for line in found["said"] if "FALLING BACK" in line]
    assert len(said) == 1 and "webgpu cannot run" in said[0] and "FALLING BACK to wasm" in said[0]
    plain = [name for name in found["fetched"] if "/bundle/plain/" in name]
    assert {name.rpartition("/")[2] for name in plain} == {"net.onnx", "net.bin"}
    assert webgpu or not [name for name in found["fetched"] if re.search("bundle/net", name)]
    wasm = [name for name in found["fetched"] if name.endswith(".wasm")]
    assert wasm and all(name.endswith(f"threaded{'.' + fetched if fetched else ''}.wasm") for name in wasm)


def test_webgpu_runs_it_and_software_is_told(tmp_path: Path, make_bundle: Bundle, web_modules: Path) -> None:
    model = matmul(tmp_path / "net.onnx")
    bundle = make_bundle(model, FEEDS, {"web_build": "asyncify"}, providers=(WEBGPU, WASM))
    ask = "navigator.gpu?.requestAdapter()"
    software = f"{ask}.then((found) => console.warn(`software: ${{found?.info.isFallbackAdapter}}`));"
    found = answer(bundle, web_modules, before=software)
    if found.get("provider") != "webgpu":
        pytest.skip(f"this browser has no adapter: {found['said']}")
    told = any("ortune: WebGPU runs in software" in line for line in found["said"])
    assert told == ("warn: software: true" in found["said"]), found["said"]
    np.testing.assert_allclose(
        np.reshape(found["data"], found["dims"]), expected(model), rtol=1e-4, atol=1e-5
    )


def test_a_service_worker_isolates_a_page_without_headers(
    tmp_path: Path, make_bundle: Bundle, web_modules: Path
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"web_build": "wasm"}, providers=(WASM,))
    script = (bundle / "deploy" / "isolate.js").read_text(encoding="utf-8")
    shown = re.search(r"<script>\n(.*?)</script>", re.sub(r"(?m)^// ?", "", script), re.DOTALL)
    assert shown
    before = f"globalThis.waiting = !crossOriginIsolated;\n{shown[1]}"
    found = answer(bundle, web_modules, isolated=False, before=before, **{"/isolate.js": script})
    assert found["isolated"] and found.get("provider") == "wasm", found


@pytest.mark.long
@pytest.mark.xdist_group("measuring")
def test_what_tune_writes_runs_in_a_page_behind_the_headers_that_it_writes(
    tmp_path: Path, web_modules: Path
) -> None:
    model = matmul(tmp_path / "net.onnx")
    command = [
        sys.executable,
        "-m",
        "ortune",
        "tune",
        model.name,
        "--target",
        "web-wasm",
        "--shape",
        "x:2x64",
    ]
    command += ["--ort-web", str(web_modules / "onnxruntime-web"), "--store", "store", "--json", "--force"]

    def tuned(budget: str) -> dict[str, Any]:
        done = subprocess.run(
            [*command, "--budget", budget],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)["result"]
        held(result["budget"]["n_trials"], done.stderr)
        return result

    result = with_budgets(tuned, 150, 300)
    bundle = tmp_path / result["bundle"]
    assert bundle == tmp_path / "net.ortune" and result["ort_web"] == ONNXRUNTIME_WEB
    assert {"report.html", "ortune.json", *FILES, *(f"deploy/{name}" for name in SERVED)} <= {
        str(path.relative_to(bundle)) for path in bundle.rglob("*")
    }
    settings = json.loads((bundle / "ortune.json").read_text(encoding="utf-8"))["plan"]["settings"]
    assert set(settings) == set(result["winner"]["settings"])
    nginx = (bundle / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    headers = dict(re.findall(r"^add_header (\S+) (\S+) always;$", nginx, re.MULTILINE))
    dist = web_modules / "onnxruntime-web" / "dist"
    found = answered({"/ort/": dist, "/bundle/": bundle, "/": page()}, headers)
    assert found.get("provider") == "wasm" and found["isolated"] and not found["said"], found
    np.testing.assert_allclose(
        np.reshape(found["data"], found["dims"]), expected(model), rtol=1e-4, atol=1e-5
    )
