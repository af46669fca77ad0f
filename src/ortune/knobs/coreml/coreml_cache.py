"""Whether Core ML keeps its compiled models on disk.

What it is: the first session writes what it compiled to the folder ``coreml-cache``; later ones read it.
Why it costs: compiling takes seconds at every start.
Evidence: load time of a second session.
Fix and its safety: on; behaviour, since files appear in the program's working directory. A plan cannot contain an
    output path, so the folder is always the same; ``load(cache=FOLDER)`` of a bundle can choose another.
Example: ``--target coreml --objective cold-start --set coreml_cache=1``
References: ONNX Runtime documentation, "CoreML Execution Provider", ``ModelCacheDirectory``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.coreml import PROVIDER as COREML

KNOB = Knob(
    name="coreml_cache",
    since="1.21",
    channel="provider_option",
    provider=COREML.name,
    key="ModelCacheDirectory",
    kind="choice",
    choices=("1",),
    spelled=(("1", "coreml-cache"),),
    default="off",
    probe="folder",
    safety="behaviour",
    summary="whether compiled models are kept on disk",
    tries=("1",),
    priors={"cold-start": 0.6, "latency": 0.0, "memory": 0.0},
)
