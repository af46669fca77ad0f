"""Processors, by WebAssembly in a browser."""

from ortune.targets.browser.target import WebTarget

TARGET = WebTarget(
    name="web-wasm",
    provider="wasm",
    otherwise="onnxruntime-web in a browser",
    ships=True,
    in_trace="CPUExecutionProvider",
)
