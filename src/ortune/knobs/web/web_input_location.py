"""Where the inputs of a run are stored.

What it is: cpu makes tensors of arrays, which each run uploads; gpu-buffer makes them once in the memory of the GPU
    (``Tensor.fromGpuBuffer``).
Why it costs: an upload a run, in which the GPU waits.
Evidence: time of the run with either; uploads by bytes.
Fix and its safety: gpu-buffer where the inputs are made on the GPU, or stay the same; behaviour: the program has to
    make them there.
Example: ``--target web-webgpu --set web_input_location=gpu-buffer``
References: ONNX Runtime documentation, "Using WebGPU", section on tensors in the GPU's memory.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_input_location",
    since="1.17",
    channel="web_page",
    key="inputLocation",
    provider=WEB_WEBGPU.name,
    kind="choice",
    choices=("cpu", "gpu-buffer"),
    default="cpu",
    safety="behaviour",
    summary="inputs in the memory of the page or of the GPU",
    tries=("gpu-buffer",),
    prior=SELDOM,
)
