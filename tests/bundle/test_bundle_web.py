"""The code of a bundle for pages: what it says, and that a real browser runs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from emitted_code import HOSTILE

import ortune
from chromium import HEADERS, installed
from conftest import Bundle, matmul
from ortune import platform
from ortune.bundle.settings import portable, resolve
from ortune.bundle.web import FILES, SERVED, javascript_lines, literal, web_files
from ortune.catalogue import knobs
from ortune.errors import UsageError
from ortune.graph.model.open import OpenModel, open_model
from ortune.records import BundleInfo, Plan, ProviderSpec, Value

TYPESCRIPT = "5.9.3"
FEEDS = {"x": np.ones((2, 64), np.float32)}
WASM, WEBGPU = ProviderSpec(name="wasm"), ProviderSpec(name="webgpu")


def emitted(
    model: OpenModel, *providers: ProviderSpec, fallback: Plan | None = None, **settings: Value
) -> dict[str, str]:
    plan = portable(Plan(settings=settings, providers=providers))
    info = BundleInfo(
        schema="ortune/bundle/1", model=model.path.name, sha256="", plan=plan, applied=resolve(plan),
        host=platform.host(), ort_version="1.30.0", fallback=fallback and portable(fallback),
    )  # fmt: skip
    return web_files(info, model, model)


def checked(text: str, folder: Path, name: str = "m.mjs") -> None:
    """That Node reads it as a module."""
    if shutil.which("node") is None:
        pytest.skip("node is not on this machine")
    (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["node", "--check", str(folder / name)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


# --- what it says ----------------------------------------------------------------------------------------


def test_it_sets_what_was_measured(tmp_path: Path) -> None:
    model = open_model(matmul(tmp_path / "net.onnx"))
    text = emitted(
        model, ProviderSpec(name="webgpu", options={"validationMode": "wgpuOnly"}), WASM,
        web_threads=4, web_build="asyncify", web_preferred_layout="nchw", web_force_cpu_nodes="/a;b",
        web_free_dimensions="n=2", web_int64="1", web_graph_capture=True, web_power_preference="low-power",
    )["load.web.mjs"]  # fmt: skip
    first, second = re.findall(r"options: \(\) => \((.*)\),$", text, re.MULTILINE)
    assert '{ name: "webgpu", validationMode: "wgpuOnly", ' in first
    assert 'forceCpuNodeNames: ["/a", "b"]' in first and 'preferredLayout: "NCHW"' in first
    assert 'extra: { ep: { webgpuexecutionprovider: { enableInt64: "1" } } }' in first
    assert "freeDimensionOverrides: { n: 2 }" in first and "enableGraphCapture: true" in first
    # The next of the chain has what is everyone's, and nothing of the GPU's.
    assert second == '{ executionProviders: [{ name: "wasm" }], freeDimensionOverrides: { n: 2 } }'
    assert text.count("env.wasm.numThreads = threads(4);") == 2
    assert text.count('env.webgpu.powerPreference = "low-power";') == 1
    assert text.count('import("onnxruntime-web/webgpu")') == 2
    checked(text, tmp_path)


def test_a_build_that_lacks_a_provider_is_not_imported_for_it(tmp_path: Path) -> None:
    model = open_model(matmul(tmp_path / "net.onnx"))
    chain = (ProviderSpec(name="webgl"), WASM)
    text = emitted(model, *chain)["load.web.mjs"]
    assert 'import("onnxruntime-web/webgl")' in text and 'import("onnxruntime-web")' in text
    assert 'import("onnxruntime-web/wasm")' in emitted(model, WASM, web_build="wasm")["load.web.mjs"]


def test_the_chain_ends_with_the_plan_that_was_measured_on_webassembly(tmp_path: Path) -> None:
    model = open_model(matmul(tmp_path / "net.onnx"))
    today = Plan(providers=(WASM,), settings={"web_build": "wasm", "web_threads": 2, "web_mem_pattern": True})
    text = emitted(
        model, WEBGPU, fallback=today, web_build="asyncify", web_preferred_layout="nchw", web_threads=1
    )["load.web.mjs"]
    first, second = re.findall(r"options: \(\) => \((.*)\),$", text, re.MULTILINE)
    assert 'preferredLayout: "NCHW"' in first and "enableMemPattern" not in first
    assert second == '{ executionProviders: [{ name: "wasm" }], enableMemPattern: true }'
    assert re.findall(r"threads\((\d)\);", text) == ["1", "2"]
    assert re.findall(r'import\("([^"]+)"\)', text) == ["onnxruntime-web/webgpu", "onnxruntime-web/wasm"]
    checked(text, tmp_path)


@pytest.mark.parametrize("fallback", [None, Plan(providers=(WASM,), settings={"web_build": "jspi"})])
def test_what_comes_after_jspi_needs_no_jspi(fallback: Plan | None, tmp_path: Path) -> None:
    model = open_model(matmul(tmp_path / "net.onnx"))
    chain = (WEBGPU, WASM) if fallback is None else (WEBGPU,)
    text = emitted(model, *chain, fallback=fallback, web_build="jspi")["load.web.mjs"]
    assert re.findall(r'import\("([^"]+)"\)', text) == ["onnxruntime-web/jspi", "onnxruntime-web/wasm"]
    assert 'import("onnxruntime-web/jspi")' in emitted(model, WASM, web_build="jspi")["load.web.mjs"]


@pytest.mark.parametrize("name", [n for n, k in knobs.all_knobs().items() if k.is_only_in_browsers])
def test_every_setting_of_a_page_is_in_the_code(name: str, tmp_path: Path) -> None:
    knob = knobs.find(name)
    texts = {"web_force_cpu_nodes": "a;b", "web_free_dimensions": "n=2", "web_isolation": None}
    if name == "web_isolation":
        pytest.skip("it is the server's")
    values: dict[str, Value] = {"bool": True, "int": 3}
    value = values.get(knob.kind) or (knob.choices[-1] if knob.choices else texts[name])
    provider = next(
        p
        for p in ("wasm", "webgpu", "webgl", "webnn")
        if knob.provider in ("", p) and knob.runs_on(str(value), p)
    )
    model = open_model(matmul(tmp_path / "net.onnx"))
    plain = emitted(model, ProviderSpec(name=provider))["load.web.mjs"]
    assert value is not None
    text = emitted(model, ProviderSpec(name=provider), **{name: value})["load.web.mjs"]
    assert (text != plain) or (name, provider) == ("web_build", "webgl")
    checked(text, tmp_path)


def test_what_a_model_calls_its_parts_is_text_and_nothing_else(tmp_path: Path) -> None:
    model = open_model(matmul(tmp_path / "net.onnx", HOSTILE))
    graph = model.ir.graph
    graph.inputs[0].shape = ir.Shape(["*/ evil", 64])
    settings: dict[str, Value] = {
        "web_force_cpu_nodes": "\"];alert(1)//\u2028", "web_free_dimensions": "__proto__=1;a\"b=2",
    }  # fmt: skip
    files = emitted(model, ProviderSpec(name="webgpu", options={'x"]': '"}'}), **settings)
    for name in ("load.web.mjs", *(f"deploy/{each}" for each in SERVED if each != "nginx.conf")):
        assert files[name].isascii()
        checked(files[name], tmp_path, Path(name).name.replace(".js", ".mjs").replace(".mmjs", ".mjs"))
    assert '["__proto__"]: 1' in files["load.web.mjs"]
    assert files["load.web.d.mts"].isascii() and "*/ evil" not in files["load.web.d.mts"]


def test_a_literal_is_the_value(tmp_path: Path) -> None:
    value: Any = {"a": [1, "\u2028</script>"], "__proto__": {"b c": True}, "constructor": 0.5}
    if shutil.which("node") is None:
        pytest.skip("node is not on this machine")
    done = subprocess.run(
        ["node", "-p", f"JSON.stringify({literal(value)})"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == value


def test_the_lines_to_paste_are_javascript(tmp_path: Path) -> None:
    plan = Plan(settings={"web_threads": 2, "web_build": "wasm"}, providers=(WASM,))
    lines = javascript_lines(plan, "net.onnx")
    assert lines == javascript_lines(portable(plan), "net.onnx")
    assert lines.splitlines() == [
        "// Serve the page cross-origin isolated (COOP and COEP headers); otherwise it has one thread.",
        'import * as ort from "onnxruntime-web/wasm";',
        "",
        "ort.env.wasm.numThreads = 2;",
        'const session = await ort.InferenceSession.create("net.onnx", { executionProviders: [{ name: "wasm" }] });',
    ]
    checked(lines, tmp_path)


def test_what_lies_deep_in_the_environment_is_made_first(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not on this machine")
    settings: dict[str, Value] = {"web_profiling": "off", "web_power_preference": "low-power"}
    plan = Plan(settings=settings, providers=(WEBGPU,))
    text = emitted(open_model(matmul(tmp_path / "net.onnx")), WEBGPU, **settings)["load.web.mjs"]
    (tmp_path / "load.web.mjs").write_text(text, encoding="utf-8")
    # As onnxruntime-web has it before a session is made.
    (tmp_path / "ort.mjs").write_text(
        "export const env = { wasm: {}, webgl: {}, webgpu: {} };"
        "export const InferenceSession = { create: async () => console.log(JSON.stringify(env.webgpu)) };"
    )
    lines = javascript_lines(plan).replace('"onnxruntime-web"', '"./ort.mjs"')
    (tmp_path / "lines.mjs").write_text(lines, encoding="utf-8")
    script = """
        import { CHOICES } from "./load.web.mjs";
        import "./lines.mjs";
        const env = { wasm: {}, webgl: {}, webgpu: {} };
        CHOICES[0].environment(env);
        console.log(JSON.stringify(env.webgpu));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = {"powerPreference": "low-power", "profiling": {"mode": "off"}}
    assert list(map(json.loads, done.stdout.splitlines())) == [expected] * 2


def test_a_bundle_for_pages_has_their_code_alone(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"web_threads": 2}, providers=(WASM,))
    found = {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()}
    code = {*FILES, *(f"deploy/{name}" for name in SERVED)}
    assert code <= found
    assert not {n for n in found - code if n.startswith(("load", "Load", "deploy"))}
    assert json.loads((bundle / "ortune.json").read_text())["plan"]["settings"] == {
        "web_threads": "min(2, cpus)"
    }
    with pytest.raises(UsageError, match="for a browser"):
        ortune.load(bundle)


def test_a_process_gets_none_of_it(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    assert not [name for name in FILES if (bundle / name).exists()]


def test_whatever_serves_a_page_sends_the_same_headers(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not on this machine")
    files = emitted(open_model(matmul(tmp_path / "net.onnx")), WASM)
    for name in SERVED:
        (tmp_path / name).write_text(files[f"deploy/{name}"], encoding="utf-8")
    script = """
        import { isolated } from "./express.mjs";
        import vite from "./vite.config.mjs";
        const found = [vite.server.headers, vite.preview.headers];
        isolated({}, { set: (headers) => found.push(headers) }, () => console.log(JSON.stringify(found)));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [HEADERS] * 3
    assert (
        dict(re.findall(r"^add_header (\S+) (\S+) always;$", files["deploy/nginx.conf"], re.MULTILINE))
        == HEADERS
    )
    assert dict(re.findall(r'headers.set\("(\S+)", "(\S+)"\)', files["deploy/isolate.js"])) == HEADERS


PROGRAM = """
import { load, type Feeds, type Results } from "./load.web.mjs";

const { session, ort, provider } = await load();
const feeds: Feeds = { "x y": new ort.Tensor("float32", new Float32Array(128), [2, 64]) };
const results = (await session.run(feeds)) as Results;
export const which: "webgpu" | "wasm" = provider;
export const y: Float32Array = results.y.data;
"""


@pytest.mark.parametrize(("module", "resolution"), [("nodenext", "nodenext"), ("esnext", "bundler")])
def test_a_program_in_typescript_has_the_types_of_inputs_and_outputs(
    module: str, resolution: str, tmp_path: Path, web_modules: Path
) -> None:
    files = emitted(open_model(matmul(tmp_path / "net.onnx", "x y")), WEBGPU, WASM)
    for name in FILES:
        (tmp_path / name).write_text(files[name], encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(web_modules)
    programs = {
        "right": PROGRAM,
        "input": PROGRAM.replace('"x y":', '"z":'),
        "output": PROGRAM.replace("y: Float32Array", "y: BigInt64Array"),
    }
    for name, text in programs.items():
        (tmp_path / f"{name}.mts").write_text(text, encoding="utf-8")
    compiler = installed("typescript", TYPESCRIPT, f"typescript-{TYPESCRIPT}") / "typescript" / "bin" / "tsc"
    options = {
        "noEmit": True, "strict": True, "skipDefaultLibCheck": True, "target": "es2022", "module": module,
        "moduleResolution": resolution,
        "types": [],  # of what else is installed: @types/node alone is as much as all that is asked about
    }  # fmt: skip
    project = {"compilerOptions": options, "files": [f"{name}.mts" for name in programs]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(project), encoding="utf-8")
    said = subprocess.run(
        ["node", str(compiler), "--project", "."],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = re.findall(r"^(\S+)\.mts\(\d+,\d+\): error (TS\d+)", said.stdout, re.MULTILINE)
    assert found == [("input", "TS2353"), ("output", "TS2322")], said.stdout


# --- in a browser ----------------------------------------------------------------------------------------
