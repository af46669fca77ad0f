"""CPUs, through WebAssembly in a browser."""

from ortune.providers.cpu import PROVIDER as CPU
from ortune.providers.provider import PAGE, Provider

PROVIDER = Provider(
    name="wasm",
    target="web-wasm",
    place=PAGE,
    otherwise="onnxruntime-web in a browser",
    ships=True,
    in_profiles=(CPU.name,),
    hardware="cpu",
    web_builds=("jsep", "asyncify", "jspi", "wasm"),
    web_alone="wasm",
)
