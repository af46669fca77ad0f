"""GPUs, through WebGL in a browser: few operators, and no longer developed."""

from ortune.providers.provider import EMULATED, PAGE, SOFTWARE, Provider

_QUESTION = f"""(() => {{
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) return "the browser provides no WebGL 2 context";
  const named = gl.getExtension("WEBGL_debug_renderer_info")?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER;
  return {SOFTWARE}.test(gl.getParameter(named) ?? "") ? "{EMULATED}" : "";
}})()"""

PROVIDER = Provider(
    name="webgl",
    target="web-webgl",
    place=PAGE,
    otherwise="onnxruntime-web in a browser",
    hardware="gpu",
    web_builds=("webgl",),
    web_alone="webgl",
    question=_QUESTION,
)
