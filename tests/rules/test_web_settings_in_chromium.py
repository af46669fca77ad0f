"""What the rules on settings of pages claim, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

from chromium import HEADERS, answered, web_modules

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
doubled (float[2,64] x) => (float[2,64] y)
{
    y = Add (x, x)
}
"""
PAGE = """<!doctype html>
<script>
const said = [];
for (const kind of ["error", "warn"]) {
  const usual = console[kind].bind(console);
  console[kind] = (...words) => { said.push(`${kind}: ${words.join(" ")}`); usual(...words); };
}
</script>
<script type="module">
const ort = await import("/ort/%s");
const filled = (value) => new Float32Array(128).fill(value);
const create = (options) => ort.InferenceSession.create("/models/m.onnx", options);
async function main() {
%s
}
const answer = await main().catch((error) => ({ failed: String(error) }));
await fetch("/answer", { method: "POST", body: JSON.stringify({ ...answer, said }) });
</script>"""
CAPTURE = """
  const options = { executionProviders: [%s], enableGraphCapture: true, preferredOutputLocation: "gpu-buffer" };
  const session = await create(options);
  const device = await ort.env.webgpu.device;
  const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST | GPUBufferUsage.STORAGE;
  const [into, from] = [0, 1].map(() => device.createBuffer({ size: 512, usage }));
  const x = ort.Tensor.fromGpuBuffer(into, { dataType: "float32", dims: [2, 64] });
  const y = ort.Tensor.fromGpuBuffer(from, { dataType: "float32", dims: [2, 64] });
  const seen = [];
  for (const value of [1, 2, 3]) {
    device.queue.writeBuffer(into, 0, filled(value));
    await session.run({ x }, { y });
    const read = device.createBuffer({ size: 512, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(from, 0, read, 0, 512);
    device.queue.submit([encoder.finish()]);
    await read.mapAsync(GPUMapMode.READ);
    seen.push(new Float32Array(read.getMappedRange())[0]);
  }
  return { seen };
"""
PROFILING = """
  let records = 0;
  ort.env.webgpu.profiling = { mode: "default", ondata: () => { records += 1; } };
  const session = await create({ executionProviders: [{ name: "webgpu" }] });
  for (const value of [1, 2]) await session.run({ x: new ort.Tensor("float32", filled(value), [2, 64]) });
  for (let i = 0; i < 10 && !records; i++) await new Promise((done) => setTimeout(done, 100));
  return { records };
"""
FALLBACK = """
  navigator.gpu.requestAdapter = async () => null;
  const session = await create({ executionProviders: ["webgpu", "wasm"] });
  const { y } = await session.run({ x: new ort.Tensor("float32", filled(1), [2, 64]) });
  const alone = await create({ executionProviders: ["webgpu"] }).then(() => "", String);
  return { value: y.data[0], alone };
"""
PROXY = """
  ort.env.wasm.proxy = true;
  const session = await create({ executionProviders: ["wasm"] });
  const x = new ort.Tensor("float32", filled(1), [2, 64]);
  const first = (await session.run({ x })).y.data[0];
  const again = await session.run({ x }).then(() => "", String);
  return { first, again };
"""


def page(folder: Path, build: str, script: str, *, may_fail: bool = False) -> dict[str, Any]:
    onnx.save(onnx.parser.parse_model(MODEL), folder / "m.onnx")
    files: dict[str, Path | str] = {
        "/ort/": web_modules() / "onnxruntime-web" / "dist", "/models/": folder, "/": PAGE % (build, script),
    }  # fmt: skip
    found = answered(files, HEADERS)
    if "adapter" in found.get("failed", ""):
        pytest.skip(found["failed"])
    assert may_fail or "failed" not in found, found
    return found


def test_a_captured_graph_follows_its_inputs_where_the_provider_is_an_object_alone(tmp_path: Path) -> None:
    right = [2, 4, 6]
    assert page(tmp_path, "ort.webgpu.bundle.min.mjs", CAPTURE % "{ name: 'webgpu' }")["seen"] == right
    # By its name it fails, or gives the first outputs for ever: which of both depends on the model.
    named = page(tmp_path, "ort.webgpu.bundle.min.mjs", CAPTURE % "'webgpu'", may_fail=True)
    assert named.get("seen") != right


@pytest.mark.parametrize(
    ("build", "told"), [("ort.webgpu.bundle.min.mjs", False), ("ort.bundle.min.mjs", True)]
)
def test_only_jsep_reads_the_profiling_option(build: str, told: bool, tmp_path: Path) -> None:
    assert (page(tmp_path, build, PROFILING)["records"] > 0) == told


def test_a_list_of_providers_falls_back_with_a_warning_alone(tmp_path: Path) -> None:
    found = page(tmp_path, "ort.webgpu.bundle.min.mjs", FALLBACK)
    assert found["value"] == 2
    assert "no available backend" in found["alone"]
    assert any(line.startswith("warn: removing requested execution provider") for line in found["said"])
    assert not any(line.startswith("error") for line in found["said"])


def test_a_proxy_takes_the_arrays_of_the_inputs(tmp_path: Path) -> None:
    found = page(tmp_path, "ort.wasm.bundle.min.mjs", PROXY)
    assert found["first"] == 2
    assert "detached" in found["again"]
