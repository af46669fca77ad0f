"""GPUs by WebGL in a browser: few operators, and no longer developed."""

from ortune.targets.browser.target import WebTarget

TARGET = WebTarget(name="web-webgl", provider="webgl", otherwise="onnxruntime-web in a browser")
