"""GPUs of any vendor, through WebGPU in a browser."""

from ortune.providers.provider import EMULATED, PAGE, SOFTWARE, Provider
from ortune.providers.webgpu import PROVIDER as WEBGPU

_QUESTION = f"""(navigator.gpu?.requestAdapter().then((found) => {{
  if (!found) return "the browser provides no WebGPU adapter";
  const info = found.info ?? {{}};
  const names = [info.vendor, info.architecture, info.device, info.description].join(" ");
  const software = (found.isFallbackAdapter ?? info.isFallbackAdapter) || {SOFTWARE}.test(names);
  return software ? "{EMULATED}" : "";
}}) ?? "the browser has no WebGPU")"""

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
    question=_QUESTION,
    browser_flags=("--enable-unsafe-webgpu",),  # else a software adapter is not given
)
