"""Whether MIGraphX keeps its compiled models on disk.

What it is: the first session writes what it compiled to the folder ``migraphx-cache``; later ones read it.
Why it costs: compiling takes seconds to minutes at every start.
Evidence: load time of a second session.
Fix and its safety: on; behaviour, since files appear in the program's working directory. A plan cannot contain an
    output path, so the folder is always the same; ``load(cache=FOLDER)`` of a bundle can choose another.
Example: ``--target migraphx --objective cold-start --set migraphx_cache=1``
References: onnxruntime-migraphx 1.27.1, ``migraphx_model_cache_dir``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.migraphx import PROVIDER as MIGRAPHX

KNOB = Knob(
    name="migraphx_cache",
    since="1.23",
    channel="provider_option",
    provider=MIGRAPHX.name,
    key="migraphx_model_cache_dir",
    kind="choice",
    choices=("1",),
    spelled=(("1", "migraphx-cache"),),
    default="off",
    probe="folder",
    safety="behaviour",
    summary="whether compiled models are kept on disk",
    tries=("1",),
    priors={"cold-start": 0.8, "latency": 0.0, "memory": 0.0},
)
