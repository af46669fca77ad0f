"""Where the outputs of a run are stored.

What it is: ``cpu`` copies them back into an array at the end of each run; ``gpu-buffer`` leaves them in GPU memory
    until the program requests them (``getData``).
Why it costs: the copy waits for all work that was submitted to the GPU. A decoder whose cache is copied back and forth
    at each step spends most of its time waiting.
Evidence: time of a run with each value; ``location`` of the output tensors.
Fix and its safety: ``gpu-buffer`` for outputs that are drawn or fed to the next run; behaviour: the program gets
    tensors without data and has to dispose of them.
Example: ``--target web-webgpu --set web_output_location=gpu-buffer``
References: microsoft/onnxruntime#18754, #17480; huggingface/transformers.js#824.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_output_location",
    since="1.17",
    channel="web_session",
    key="preferredOutputLocation",
    provider=WEB_WEBGPU.name,
    kind="choice",
    choices=("cpu", "gpu-buffer"),
    default="cpu",
    safety="behaviour",
    conflicts=("web_proxy",),
    summary="outputs in the memory of the page or of the GPU",
    tries=("gpu-buffer",),
    prior=SELDOM,
)
