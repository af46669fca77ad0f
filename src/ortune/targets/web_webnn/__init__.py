"""What the system offers for neural networks, by WebNN in a browser."""

from ortune.targets.browser.target import WebTarget

TARGET = WebTarget(
    name="web-webnn",
    provider="webnn",
    otherwise="onnxruntime-web in a browser that has WebNN",
    options=frozenset({"deviceType", "powerPreference"}),
)
