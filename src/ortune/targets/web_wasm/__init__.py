"""The CPU in a page, by WebAssembly in onnxruntime-web."""

from ortune.targets.target import PAGE, Target

TARGET = Target(
    name="web-wasm",
    provider="wasm",
    otherwise="it is in onnxruntime-web, in a browser",
    channels=PAGE,
)
