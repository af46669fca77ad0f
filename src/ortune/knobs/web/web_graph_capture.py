"""Whether WebGPU records the kernels of the first run and replays them.

What it is: the commands of the first run are kept, and each further run submits all of them at once.
Why it costs: otherwise JavaScript or WebAssembly prepares and starts each kernel in every run; in a model of many
    small kernels, this takes most of the time.
Evidence: time until ``run()`` returns: 2 ms without and 0.4 ms with capture, for eight layers (1.30).
Fix and its safety: on for models with fixed shapes that run entirely on the GPU, with inputs and outputs in its
    memory; behaviour: the program must keep its tensors there. Name the provider as an object: see
    ``web_provider_form``.
Example: ``--target web-webgpu --set web_graph_capture=1``
References: onnxruntime-common, ``enableGraphCapture``; microsoft/onnxruntime#29273, #29594.
"""

from ortune.knobs.facts import CONTROL_FLOW
from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_graph_capture",
    since="1.17",
    channel="web_session",
    key="enableGraphCapture",
    provider=WEB_WEBGPU.name,
    kind="bool",
    default="off",
    safety="behaviour",
    summary="kernels are recorded once and replayed",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: not model.has(*CONTROL_FLOW),
    needs=("web_input_location=gpu-buffer", "web_output_location=gpu-buffer"),
)
