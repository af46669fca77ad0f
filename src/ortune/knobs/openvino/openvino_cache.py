"""Whether OpenVINO keeps its compiled model on disk.

What it is: the first session writes what it compiled to the folder ``openvino-cache``, and later ones read it.
Why it costs: without a cache, the model is compiled at every start. The file is as large as the weights, and reading it
    takes time too. The Linux wheels onnxruntime-openvino 1.22.0 to 1.24.1 write the file and cannot read it, because
    they lack ``libopenvino_ir_frontend``: each load compiles the model and writes the file again. The plug-in
    onnxruntime-ep-openvino 1.8.1 reads it.
Evidence: a file in the folder; ``bench``, ``compare`` and ``tune`` show the load that wrote the file and the loads that
    read it. A trial that writes the file again fails.
Fix and its safety: on where the start measures faster; behaviour, since files appear in the program's working
    directory. The folder is always the same, because a plan cannot contain an output path; ``load(cache=FOLDER)`` of a
    bundle can choose another.
Example: ``--target openvino --objective cold-start --set openvino_cache=1``
References: OpenVINO, ``CACHE_DIR``, given as ``load_config`` of the CPU: onnxruntime-ep-openvino ignores the option
    ``cache_dir``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_cache",
    aliases=("ov_cache",),
    since="1.21",
    channel="provider_option",
    provider=OPENVINO.name,
    key="load_config/CPU/CACHE_DIR",
    kind="choice",
    choices=("1",),
    spelled=(("1", "openvino-cache"),),
    default="off",
    probe="folder",
    safety="behaviour",
    summary="compiled model cached on disk",
    tries=("1",),
    priors={"cold-start": 0.6, "latency": 0.0, "memory": 0.0},
)
