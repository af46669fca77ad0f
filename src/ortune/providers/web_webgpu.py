"""GPUs of any vendor, through WebGPU in a browser."""

from ortune.providers.provider import PAGE, Provider
from ortune.providers.webgpu import PROVIDER as WEBGPU

PROVIDER = Provider(
    name="webgpu",
    target="web-webgpu",
    place=PAGE,
    otherwise="onnxruntime-web in a browser",
    ships=True,
    in_profiles=(
        "JsExecutionProvider",
        WEBGPU.name,
    ),  # by the default build, and by those with the native one
    options=frozenset({"preferredLayout", "storageBufferCacheMode", "validationMode"}),
    hardware="gpu",
    queues=True,
    float16=True,
    int32=True,
    web_builds=("jsep", "asyncify", "jspi"),
    question="navigator.gpu?.requestAdapter().then((found) => (found ? '' : 'the browser provides no WebGPU adapter'))"
    " ?? 'the browser has no WebGPU'",
    browser_flags=("--enable-unsafe-webgpu",),  # else a software adapter is not given
)
