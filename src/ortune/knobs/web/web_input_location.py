"""Where the inputs of a run are stored.

What it is: ``cpu`` creates tensors from arrays, which each run uploads; ``gpu-buffer`` creates them once in GPU memory
    (``Tensor.fromGpuBuffer``).
Why it costs: the GPU waits for an upload in each run.
Evidence: time of a run with each value; uploaded bytes.
Fix and its safety: ``gpu-buffer`` where the inputs are created on the GPU, or stay the same; behaviour: the program has
    to create them there.
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
