"""What the browser's WebNN runs on, by onnxruntime-web."""

from ortune.targets.target import PAGE, Target

TARGET = Target(
    name="web-webnn",
    provider="webnn",
    otherwise="it is in onnxruntime-web, in a browser",
    channels=PAGE,
    options=frozenset({"deviceType", "powerPreference"}),
)
