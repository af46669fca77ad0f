"""Partitions real models, and holds the regions against the usability checker of the onnxruntime wheel.

python benchmarks/partition_models.py [MODEL OF THE ZOO...]
python benchmarks/partition_models.py --ask qnn|webgpu [MODEL OF THE ZOO...]

Each model gets the input sizes that ortune chooses and ONNX Runtime's level basic. The checker knows the lists alone,
so what it takes and ortune leaves is given by reason: caveats that the lists print and the checker does not look at.
Prints the tables of docs/mobile.md: first this one, then the regions of the providers that the checker does not know.

With --ask it prints the rows of the third: what the provider itself takes, beside what its table takes. The runtime is
one of ``ortune runtime add``. QNN's emulator has no memory for most models ("not compiled"): it answers about each node
before it compiles them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import onnxruntime
from onnxruntime.tools.mobile_helpers import usability_checker
from onnxruntime.tools.onnx_model_utils import ModelProtoWithShapeInfo

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import ortune
import targets_here
import zoo
from ortune import rewrites
from ortune.engines.partitions import support
from ortune.engines.partitions.partition import partition
from ortune.graph.model.open import open_model
from ortune.graph.model.save import save_model
from ortune.graph.nodes import operator
from ortune.inputs import workload
from ortune.verbs.partition.words import why

MODELS = (
    "light-squeezenet", "light-resnet50", "light-shufflenet", "light-inception-v1", "light-densenet121", "ppocrv2-cls",
    "ppocrv4-det", "ppocrv4-rec", "basic-pitch", "magika", "minilm-int8", "oww-embedding", "oww-hey-jarvis",
    "oww-melspectrogram",
)  # fmt: skip
LISTS = {
    "nnapi": ("nnapi_supported_ops.md", 999),
    "coreml": ("coreml_supported_mlprogram_ops.md", 5),
    "coreml-neuralnetwork": ("coreml_supported_neuralnetwork_ops.md", 5),
}
PROBED = ("xnnpack", "qnn", "webgpu")
"""Providers with a table of their own answers, which the checker does not know."""
HELPERS = Path(usability_checker.__file__).parent


def prepared(name: str, folder: Path) -> Path:
    """The model with fixed sizes, at level basic."""
    model = open_model(zoo.model_path(name))
    work = workload.propose(model.ir)
    for params, _ in rewrites.find("fixed-dimensions").proposes(model.ir, work)[:1]:
        rewrites.find("fixed-dimensions").apply(model.ir, params)
    save_model(model.ir, folder / f"{name}.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / f"{name}-basic.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
    return folder / f"{name}-basic.onnx"


def ask(provider: str, names: list[str]) -> None:
    """Prints a row a model."""
    targets_here.allow_software_gpu()
    print("| model | provider | nodes that agree | what differs |\n|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            path = prepared(name, Path(place))
            result = ortune.partition(path, providers=provider, runtime=provider).result
        assert result is not None
        agreement = result.providers[0].agreement
        if agreement is None:
            print(f"| {name} | {provider} | no answer | {'; '.join(result.notes)} |", flush=True)
            continue
        parts = [f"{n} {op}" for op, n in agreement.differing.items()]
        parts += [f"{agreement.n_removed} removed"] if agreement.n_removed else []
        parts += ["not compiled"] if agreement.not_compiled else []
        counts = f"{agreement.n_equal} of {agreement.n_nodes}"
        print(f"| {name} | {provider} | {counts} | {'; '.join(parts)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--ask", choices=("qnn", "webgpu"))
    options = parser.parse_args()
    if options.ask:
        ask(options.ask, list(options.models))
    else:
        tables(list(options.models))


def tables(names: list[str]) -> None:
    """Prints the tables of counts."""
    probed = []
    print("| model | provider | checker: regions, nodes | ortune: regions, nodes | what differs |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            file = prepared(name, Path(folder))
            model = open_model(file).ir
            known = ModelProtoWithShapeInfo(file).model_with_shape_info
            found = [partition(model, support.find(provider), onnxruntime.__version__) for provider in PROBED]
            cells = [f"{len(each.regions)}, {len(each.taken)}" for each in found]
            probed.append(f"| {name} | {len(list(model.graph))} | {' | '.join(cells)} |")
            for provider, (listed, rank) in LISTS.items():
                theirs = usability_checker._check_ep_partitioning(known, HELPERS / listed, True, rank)
                ours = partition(model, support.find(provider), onnxruntime.__version__)
                reasons = Counter(
                    f"{operator(node)}: {why(reason)}"
                    for node, reason in ours.left.items()
                    if reason.code not in ("not-listed", "fused-operator")
                )
                same = (theirs.num_partitions, theirs.num_supported_nodes) == (
                    len(ours.regions),
                    len(ours.taken),
                )
                said = (
                    ""
                    if same
                    else "; ".join(f"{n} {what}" for what, n in reasons.most_common(3)) or "subgraphs"
                )
                counts = f"{theirs.num_partitions}, {theirs.num_supported_nodes}"
                print(
                    f"| {name} | {provider} | {counts} | {len(ours.regions)}, {len(ours.taken)} | {said} |",
                    flush=True,
                )
    print(f"\n| model | nodes | {' | '.join(PROBED)} |\n|---|---|---|---|---|")
    print("\n".join(probed))


if __name__ == "__main__":
    main()
