"""The GPU in a page, by WebGL in onnxruntime-web: few operators, and no WebAssembly."""

from ortune.targets.target import PAGE, Target

TARGET = Target(
    name="web-webgl",
    provider="webgl",
    otherwise="it is in onnxruntime-web, in a browser",
    channels=PAGE,
)
