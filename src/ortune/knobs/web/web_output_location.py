"""Where the outputs of a run are left.

What it is: cpu reads them back into an array at the end of each run; gpu-buffer leaves them in the memory of the GPU,
    until the program asks for them (``getData``).
Why it costs: reading back waits for all that the GPU was given; a decoder whose cache goes there and back at each
    step spends its time so.
Evidence: time of the run with either; ``location`` of the output tensors.
Fix and its safety: gpu-buffer for outputs that are fed to the next run or drawn; behaviour: the program gets tensors
    without data, and has to dispose of them.
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
