"""The memory of a page that calls ``run()`` of a bundle's code: heap, WebAssembly, and buffers of the GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chromium import HEADERS, ONNXRUNTIME_WEB, answered
from conftest import Bundle, matmul
from ortune.records import ProviderSpec, Value

FEEDS = {"x": np.ones((2, 64), np.float32)}
MIB = 1 << 20
PAGE = """<!doctype html><meta charset="utf-8"><script type="importmap">%(imports)s</script>
<script>
const memories = [], buffers = new Set();
const { Memory } = WebAssembly;
WebAssembly.Memory = class extends Memory { constructor(...given) { super(...given); memories.push(this); } };
const { instantiate, instantiateStreaming } = WebAssembly;
const seen = (found) => {
  const all = Object.values((found.instance ?? found).exports);
  memories.push(...all.filter((one) => one instanceof Memory));
  return found;
};
WebAssembly.instantiate = async (...given) => seen(await instantiate(...given));
WebAssembly.instantiateStreaming = async (...given) => seen(await instantiateStreaming(...given));
if (globalThis.GPUDevice) {
  const { createBuffer } = GPUDevice.prototype, { destroy } = GPUBuffer.prototype;
  GPUDevice.prototype.createBuffer = function (...given) {
    const made = createBuffer.apply(this, given);
    buffers.add(made);
    return made;
  };
  GPUBuffer.prototype.destroy = function () { buffers.delete(this); return destroy.call(this); };
}
</script>
<script type="module">
const look = () => ({
  heap: performance.memory.usedJSHeapSize,
  wasm: memories.reduce((sum, one) => sum + one.buffer.byteLength, 0),
  buffers: buffers.size,
});
async function main() {
  const { load, run } = await import("./bundle/load.web.mjs");
  const { session, ort, provider } = await load();
  const [name] = session.inputNames;
  const given = (i) => ({ [name]: new ort.Tensor("float32", new Float32Array(128).fill(i %% 7), [2, 64]) });
  const points = [];
  for (let i = 0; i < %(steps)d; i++) {
    await run(session, given(i));
    if ((i + 1) %% (%(steps)d / 20) === 0) points.push(look());
  }
  const { [session.outputNames[0]]: y } = await run(session, given(1));
  const before = buffers.size;
  for (let i = 0; i < 20; i++) await session.run(given(i));
  return { provider, points, dims: y.dims, n: y.data.length, lost: buffers.size - before };
}
const answer = await main().catch((error) => ({ failed: String(error) }));
await fetch("/answer", { method: "POST", body: JSON.stringify(answer) });
</script>"""


def memory(bundle: Path, modules: Path, build: str, steps: int) -> dict[str, Any]:
    """What a page says of its memory, twenty times in so many steps."""
    imports = json.dumps(
        {"imports": {f"onnxruntime-web{build}": f"/ort/ort{build.replace('/', '.')}.min.mjs"}}
    )
    page = PAGE % {"imports": imports, "steps": steps}
    files: dict[str, Path | str] = {
        "/ort/": modules / "onnxruntime-web" / "dist", "/bundle/": bundle, "/": page,
    }  # fmt: skip
    found = answered(files, HEADERS, limit_s=60 + steps / 10)
    assert "failed" not in found, found
    return found


def on_gpu(make_bundle: Bundle, model: Path) -> Path:
    settings: dict[str, Value] = {"web_build": "asyncify", "web_output_location": "gpu-buffer"}
    return make_bundle(
        model, FEEDS, settings, providers=(ProviderSpec(name="webgpu"),), ort_web=ONNXRUNTIME_WEB
    )


def test_outputs_on_the_gpu_are_disposed_of(tmp_path: Path, make_bundle: Bundle, web_modules: Path) -> None:
    model = matmul(tmp_path / "net.onnx")
    bundle = on_gpu(make_bundle, model)
    found = memory(bundle, web_modules, "/webgpu", 40)
    assert (found["provider"], found["dims"], found["n"]) == ("webgpu", [2, 8], 16)
    points = [point["buffers"] for point in found["points"]]
    assert points[-1] <= points[4] + 2, points
    assert found["lost"] >= 15  # of 20 calls of session.run(); onnxruntime-web had a few buffers already


@pytest.mark.long
@pytest.mark.parametrize("build", ["/wasm", "/webgpu"])
def test_twenty_thousand_steps_stay_flat(
    build: str, tmp_path: Path, make_bundle: Bundle, web_modules: Path
) -> None:
    model = matmul(tmp_path / "net.onnx")
    if build == "/webgpu":
        bundle = on_gpu(make_bundle, model)
    else:
        bundle = make_bundle(
            model,
            FEEDS,
            {"web_build": "wasm"},
            providers=(ProviderSpec(name="wasm"),),
            ort_web=ONNXRUNTIME_WEB,
        )
    points = memory(bundle, web_modules, build, 20_000)["points"]
    print(build, points[1], points[-1])
    half = len(points) // 2
    assert min(p["heap"] for p in points[half:]) < min(p["heap"] for p in points[:half]) + 4 * MIB, points
    assert points[-1]["wasm"] == points[1]["wasm"] > 0, points
    assert points[-1]["buffers"] <= points[1]["buffers"] + 2, points
