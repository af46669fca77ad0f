"""How cuDNN chooses the algorithm of each convolution.

What it is: ``exhaustive`` times every algorithm in the first run of each shape; ``heuristic`` uses cuDNN's own
    estimate; ``default`` uses one algorithm for all.
Why it costs: timing takes hundreds of milliseconds to seconds, in the first run and again for each
    new shape; an algorithm that was not timed can be several times slower in every run.
Evidence: time of the first run, and latency. On an H100, one-dimensional convolutions took 2.5 times as long with
    ``heuristic`` as with ``exhaustive``, and 3.7 times as long with ``default``.
Fix and its safety: ``exhaustive`` for fixed shapes, ``heuristic`` where shapes change often or the time to the first
    answer matters; numerics, since algorithms sum in different orders, and only some use TF32.
Example: ``--target cuda --objective cold-start --set cuda_conv_algo_search=heuristic``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``cudnn_conv_algo_search``;
    microsoft/onnxruntime#10310.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_conv_algo_search",
    channel="provider_option",
    provider=CUDA.name,
    key="cudnn_conv_algo_search",
    kind="choice",
    choices=("exhaustive", "heuristic", "default"),
    spelled=(("exhaustive", "EXHAUSTIVE"), ("heuristic", "HEURISTIC"), ("default", "DEFAULT")),
    default="exhaustive",
    safety="numerics",
    summary="how convolution algorithms are chosen",
    tries=("heuristic",),
    applies=lambda model: model.has("Conv", "ConvTranspose"),
    priors={"latency": 0.02, "cold-start": 0.7},
)
