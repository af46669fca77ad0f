"""Whether compiled kernels are kept on disk.

What it is: kernels that were compiled for this GPU are written to the folder ``tensorrt-rtx-cache``; later sessions
    read them.
Why it costs: compiling the kernels takes seconds at every start.
Evidence: load time of a second session.
Fix and its safety: on; behaviour, since files appear in the program's working directory. A plan cannot contain an
    output path, so the folder is always the same; ``load(cache=FOLDER)`` of a bundle can choose another.
Example: ``--target tensorrt-rtx --objective cold-start --set rtx_cache=1``
References: onnxruntime-ep-nv-tensorrt-rtx 0.5.0, ``nv_runtime_cache_path``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.tensorrt_rtx import PROVIDER as TENSORRT_RTX

KNOB = Knob(
    name="rtx_cache",
    channel="provider_option",
    provider=TENSORRT_RTX.name,
    key="nv_runtime_cache_path",
    kind="choice",
    choices=("1",),
    spelled=(("1", "tensorrt-rtx-cache"),),
    default="off",
    probe="folder",
    safety="behaviour",
    summary="whether compiled kernels are kept on disk",
    tries=("1",),
    priors={"cold-start": 0.8, "latency": 0.0, "memory": 0.0},
)
