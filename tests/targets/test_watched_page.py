"""A page of the user's own, watched in a real Chromium: by the global script, by import, and in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import CHROMIUM, Site, serving, web_modules
from test_in_browser import net

import ortune
from ortune.errors import UsageError
from ortune.records import DiagnoseResult, PageSession, Plan, ProviderSpec, WatchedPage
from ortune.report import diagnose_words, terminal
from ortune.targets.browser.watch import plan_of, thread_times

PAGE = """<!doctype html><title>mine</title>
<script src="/ort/ort.wasm.min.js"></script>
<script>
const x = () => new Float32Array(3 * 16 * 16);
ort.env.wasm.wasmPaths = "/ort/";
ort.env.wasm.numThreads = 4;
ort.InferenceSession.create("/m/m.onnx").then(async (session) => {
  for (let i = 0; i < 3; i++) await session.run({ x: new ort.Tensor("float32", x(), [1, 3, 16, 16]) });
  try { await session.run({ wrong: new ort.Tensor("float32", x(), [1, 3, 16, 16]) }); } catch {}
});
</script>
<script type="module">
import * as ort from "/ort/ort.min.mjs";
ort.env.wasm.wasmPaths = "/ort/";
const bytes = new Uint8Array(await (await fetch("/m/m.onnx")).arrayBuffer());
const session = await ort.InferenceSession.create(bytes, { executionProviders: [{ name: "wasm" }], enableProfiling: true });
await session.run({ x: new ort.Tensor("float32", x(), [1, 3, 16, 16]) });
try { await ort.InferenceSession.create(new Uint8Array(8)); } catch {}
new Worker("/worker.js");
</script>"""
WORKER = """importScripts("/ort/ort.wasm.min.js");
ort.env.wasm.wasmPaths = "/ort/";
ort.InferenceSession.create("/m/m.onnx", { graphOptimizationLevel: "basic" }).then((session) =>
  session.run({ x: new ort.Tensor("float32", new Float32Array(3 * 16 * 16), [1, 3, 16, 16]) }));"""

