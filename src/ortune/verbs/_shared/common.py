"""Definitions of options that several verbs share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from ortune.errors import UsageError
from ortune.objectives import OBJECTIVES, Objective
from ortune.verbs._shared.spelling import MODEL, OUT, RUN, AnyPath, Option

Pairs = Sequence[str] | Mapping[str, str | int | float | bool]
"""Settings as texts in command-line notation or, from Python, as a mapping; options store the texts."""
Settings = Annotated[
    Pairs,
    Option("--set", "KNOB=VALUE", "A setting, e.g. intra=4, spin=0, level=basic. Repeatable.", MODEL),
]
Rewrites = Annotated[
    Sequence[str], Option("--rewrite", "NAME[:k=v]", "A rewrite of the model. Repeatable.", MODEL)
]
PlanFile = Annotated[
    AnyPath | None, Option("--plan", "FILE.json", "Settings, rewrites and providers from a plan file.", MODEL)
]
RuntimeOption = Annotated[
    AnyPath | None,
    Option(
        "--runtime", "PATH|NAME",
        "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, "
        "installed "
        "once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime.",
        MODEL, also="--python",
    ),
]  # fmt: skip
Target = Annotated[
    str,
    Option(
        "--target",
        "T",
        "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all.",
        MODEL,
    ),
]
OrtWeb = Annotated[
    str,
    Option(
        "--ort-web",
        "PATH|VERSION",
        "onnxruntime-web for browsers: a local copy, or a version from npm.",
        MODEL,
    ),
]
Browser = Annotated[
    str,
    Option("--browser", "PATH", "Browser to use. Default: Chromium, Chrome or Edge on PATH.", MODEL),
]
Headful = Annotated[
    bool,
    Option("--headful", "", "Show the browser window, which some GPUs need.", MODEL),
]
Network = Annotated[
    str,
    Option("--network", "10mbit|3G|4G|5G", "Download speed of the page, for --objective first-result.", RUN),
]
Shapes = Annotated[
    Sequence[str], Option("--shape", "NAME:1x3x320x320", "Shape of an input. Repeatable.", MODEL)
]
Dims = Annotated[
    Sequence[str],
    Option(
        "--dim", "seq=16,128:3",
        "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable.", MODEL,
    ),
]  # fmt: skip
Inputs = Annotated[
    AnyPath | None,
    Option(
        "--inputs", "PATH", "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images.", MODEL
    ),
]
Image = Annotated[
    str,
    Option(
        "--image", "size=224,mean=0.5,std=0.5",
        "How images become inputs: size, mean, std, scale, layout, channels, fit, input.", MODEL,
    ),
]  # fmt: skip
WorkloadFile = Annotated[
    AnyPath | None,
    Option(
        "--workload",
        "FILE.json",
        "Inputs saved by --save-workload, or the part of this model in a recording: app.workload, app.workload#3.",
        MODEL,
    ),
]
SaveWorkload = Annotated[
    AnyPath | None,
    Option(
        "--save-workload", "FILE.json", "Save the chosen inputs to a file.", MODEL, again=False, writes=True
    ),
]
CustomOps = Annotated[
    Sequence[AnyPath],
    Option("--custom-ops", "LIB", "Shared library with custom operators. Repeatable.", MODEL),
]
ModelsOfRecording = Annotated[
    Sequence[AnyPath],
    Option(
        "--models",
        "PATH",
        "Models of a recording that are not where they were: files, or folders to search. Repeatable.",
        MODEL,
    ),
]
CallRate = Annotated[
    str | float | None,
    Option("--rate", "50/s", "Start calls at this rate, whether or not earlier ones have ended.", RUN),
]
ReplaceBundle = Annotated[bool, Option("--force", "", "Replace an existing bundle.", OUT, again=False)]
ReplaceFile = Annotated[bool, Option("--force", "", "Overwrite an existing file.", OUT)]
WriteBundle = Annotated[
    bool, Option("--bundle/--no-bundle", "", "Write the bundle NAME.ortune.", OUT, again=False)
]
BundleFolder = Annotated[
    AnyPath, Option("--output", "DIR", "Folder for the bundle.", OUT, short="-o", again=False)
]
Seed = Annotated[int, Option("--seed", "N", "Seed of the synthetic inputs.", RUN)]
WORTH_ADOPTING = 0.1
"""Default for the minimum gain that justifies the installation of another package, as a fraction."""
Goal = Annotated[
    Objective,
    Option("--objective", "WHAT", f"{', '.join(OBJECTIVES[:-1])} or {OBJECTIVES[-1]}.", RUN),
]
Gap = Annotated[str | float, Option("--gap", "30ms", "Pause between requests.", RUN)]
Sessions = Annotated[int, Option("--sessions", "N", "Sessions of the model per process.", RUN, least=1)]
Callers = Annotated[int, Option("--callers", "N", "Concurrent callers per session.", RUN, least=1)]
Cpus = Annotated[
    float | None, Option("--cpus", "N", "Emulate a container limited to N CPUs.", RUN, least=0.01)
]
Memory = Annotated[
    str | int | None, Option("--memory", "2g", "Emulate a container with this memory limit.", RUN)
]
Tolerance = Annotated[
    str | float | None,
    Option(
        "--tolerance", "X",
        "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99.", RUN,
    ),
]  # fmt: skip
Framework = Annotated[
    str | None,
    Option(
        "--framework", "NAME",
        "Framework of module:function: pytorch, tensorflow or sklearn. Default: detected from its imports.",
        MODEL,
    ),
]  # fmt: skip
TrustSource = Annotated[
    bool,
    Option(
        "--trust-source", "",
        "Open the source without confinement: it gets your files, programs and network. Needed on systems that "
        "cannot confine it (macOS, Windows, Linux before 5.13).", RUN,
    ),
]  # fmt: skip
Targets = Annotated[
    str | None,
    Option(
        "--targets",
        "T[,T]",
        "Execution providers to compare in the same blocks, e.g. cpu,openvino; missing ones are installed. "
        "auto (default): all that run here; all: also those that can be installed.",
        MODEL,
    ),
]
Metric = Annotated[
    str | None,
    Option(
        "--metric", "NAME",
        "For --tolerance 'metric>=99%': accuracy, boxes, ctc, ranks, perplexity, or your MODULE:FUNCTION.", RUN,
    ),
]  # fmt: skip
NON_FINITE = "non-finite"
"""Value of ``--allow`` that permits claims although outputs are NaN or infinite."""
Budget = Annotated[str | float, Option("--budget", "TIME", "Total time from start to answer, e.g. 2m.", RUN)]
NoWait = Annotated[
    bool, Option("--no-wait", "", "Fail immediately if another ortune is measuring.", RUN, again=False)
]
WaitQuiet = Annotated[
    str | float | None,
    Option(
        "--wait-quiet",
        "TIME",
        "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget.",
        RUN,
        again=False,
    ),
]
NeverWaits = Annotated[
    bool,
    Option(
        "--no-wait",
        "",
        "No effect: this command measures no time and does not wait.",
        RUN,
        again=False,
        hidden=True,
    ),
]
Resume = Annotated[
    str | None,
    Option(
        "--resume",
        "[ID]",
        "Resume the newest interrupted session with the same options, or session ID.",
        RUN,
        again=False,
    ),
]
ResumeModels = Annotated[
    str | None,
    Option(
        "--resume",
        "[ID]",
        "With several models: continue the newest interrupted run, or session ID, with the missing models.",
        RUN,
        again=False,
    ),
]
StoreFolder = Annotated[
    AnyPath | None, Option("--store", "PATH", "Folder for stored results.", OUT, again=False)
]
Page = Annotated[
    AnyPath | None,
    Option(
        "--report",
        "FILE.html",
        "Also write the result as an HTML page.",
        OUT,
        again=False,
        writes=True,
    ),
]

Export = Annotated[
    Sequence[str],
    Option(
        "--export",
        "KIND=FILE",
        "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable.",
        OUT,
        again=False,
    ),
]
Hosts = Annotated[
    Sequence[str],
    Option(
        "--host",
        "NAME=SCRIPT",
        "Run on that machine; the script starts a Python there (ssh, docker exec). Repeatable: one after another.",
        RUN,
        again=False,
    ),
]
On = Annotated[
    str | None,
    Option(
        "--on",
        "ray[:HOST:PORT]",
        "Run on the hosts of a Ray cluster: its nodes that have the resource 'ortune'.",
        RUN,
    ),
]
HostLabels = Annotated[
    Sequence[str],
    Option(
        "--hosts",
        "KEY=VALUE[,KEY=VALUE]",
        "With --on: nodes with these Ray labels, as one kind of host. Repeatable: each model runs on each kind.",
        RUN,
    ),
]
Prices = Annotated[
    Sequence[str],
    Option(
        "--price",
        "[HOST=]AMOUNT/h",
        "Price of an hour of a machine, e.g. pi=0.05/h: shows the cost per million requests. Repeatable.",
        RUN,
        again=False,
    ),
]
BudgetEach = Annotated[
    str | float | None,
    Option(
        "--budget-each",
        "TIME",
        "With several models: time for each one, instead of --budget for all together.",
        RUN,
        again=False,
    ),
]


NO_CONFIG = "Ignore ortune.toml and [tool.ortune] of pyproject.toml."
"""Help of ``--no-config``."""


def require_allowed(names: Sequence[str], allowed: Collection[str], do: str) -> None:
    """Raise UsageError for a name that ``--allow`` does not accept; ``do`` is the error's remedy."""
    for name in names:
        if name not in allowed:
            raise UsageError(f"{name!r} is not a valid value for --allow", where="--allow", do=do)
