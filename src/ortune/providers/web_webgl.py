"""GPUs, through WebGL in a browser: few operators, and no longer developed."""

from ortune.providers.provider import PAGE, Provider

PROVIDER = Provider(
    name="webgl",
    target="web-webgl",
    place=PAGE,
    otherwise="onnxruntime-web in a browser",
    hardware="gpu",
    web_builds=("webgl",),
    web_alone="webgl",
)
