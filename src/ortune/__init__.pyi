"""Written by tools/make_stub.py from what each verb can be asked."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from ortune.answer import Answer as Answer
from ortune.errors import OrtuneError as OrtuneError
from ortune.loader import load as load
from ortune.measuring.watcher import Watcher as Watcher
from ortune.objectives import HistoryObjective, Objective
from ortune.records import ManyResult
from ortune.records.profile import ProfileResult
from ortune.verbs.bench.result import BenchResult
from ortune.verbs.bisect.result import BisectResult
from ortune.verbs.check.result import CheckResult
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.convert.result import ConvertResult
from ortune.verbs.diagnose.result import DiagnoseResult
from ortune.verbs.doctor.result import DoctorResult
from ortune.verbs.explain.result import ExplainResult
from ortune.verbs.history.result import HistoryResult
from ortune.verbs.lock.result import LockResult
from ortune.verbs.look.result import LookResult
from ortune.verbs.partition.result import PartitionResult
from ortune.verbs.quantize.result import QuantizeResult
from ortune.verbs.record.result import RecordResult
from ortune.verbs.report.result import ReportResult
from ortune.verbs.rewrite.result import RewritingResult
from ortune.verbs.run.result import RunResult
from ortune.verbs.runtime.result import RuntimeResult
from ortune.verbs.skeleton.result import SkeletonResult
from ortune.verbs.soak.result import SoakResult
from ortune.verbs.tune.result import TuneResult

__version__: str

class _BenchOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes give one row each. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer, e.g. 2m; '20s' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of the model. Repeatable."
    processes: int | None
    "Fresh processes per shape. Default: as many as the budget allows, at least 3."
    runs: int | None
    "Timed requests per process and caller."
    gap: str | float
    "Pause between requests (30ms); '0' by default."
    sessions: int
    "Sessions of the model per process; 1 by default."
    callers: int
    "Concurrent callers per session; 1 by default."
    cpus: float | None
    "Emulate a container limited to N CPUs."
    memory: str | int | None
    "Emulate a container with this memory limit (2g)."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    budget_each: str | float | None
    "With several models: time for each one, instead of budget for all together."
    host: Sequence[str] | str | Mapping[str, object]
    "Run on that machine; the script starts a Python there (ssh, docker exec). Repeatable: one after another."
    on: str | None
    "Run on the hosts of a Ray cluster: its nodes that have the resource 'ortune' (ray[:HOST:PORT])."
    hosts: Sequence[str] | str | Mapping[str, object]
    "With on: nodes with these Ray labels, as one kind of host. Repeatable: each model runs on each kind."
    price: Sequence[str] | str | Mapping[str, object]
    "Price of an hour of a machine, e.g. pi=0.05/h: shows the cost per million requests. Repeatable."
    shared_pool: bool
    "One thread pool for all sessions."
    shared_arena: bool
    "One memory arena for all sessions."
    models: Sequence[str | Path] | str | Mapping[str, object]
    "Models of a recording that are not where they were: files, or folders to search. Repeatable."
    rate: str | float | None
    "Start calls at this rate, whether or not earlier ones have ended (50/s)."
    arrival: str | None
    "When calls start: poisson (default), constant, gamma:CV, or recorded (of workload)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

@overload
def bench(  # type: ignore[overload-overlap]
    model: str | Path,
    **options: Unpack[_BenchOptions],
) -> Answer[BenchResult]:
    """How fast is this model with these settings?"""

@overload
def bench(
    model: Iterable[str | Path],
    **options: Unpack[_BenchOptions],
) -> Answer[ManyResult]:
    """How fast is this model with these settings?"""

class _BisectOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of the model. Repeatable."
    a_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting of A only."
    b_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting of B only."
    a_rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of A only."
    b_rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of B only."
    a_runtime: str | Path | None
    "The onnxruntime of A only."
    b_runtime: str | Path | None
    "The onnxruntime of B only."
    a_target: str | None
    "The target of A only."
    b_target: str | None
    "The target of B only."
    a_ort_web: str | None
    "The onnxruntime-web of A only."
    b_ort_web: str | None
    "The onnxruntime-web of B only."
    map: Sequence[str] | str | Mapping[str, object]
    "Input a of A corresponds to input b of B. Repeatable."
    tolerance: str | float | None
    "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99."
    seed: int
    "Seed of the synthetic inputs."
    no_wait: bool
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def bisect(
    a: str | Path = ...,
    b: str | Path | None = ...,
    **options: Unpack[_BisectOptions],
) -> Answer[BisectResult]:
    """Which node makes the outputs of two models, or two configurations, differ?"""

class _CheckOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    select: Sequence[str] | str | Mapping[str, object]
    "Only these rules: codes, code prefixes, or names. Repeatable."
    ignore: Sequence[str] | str | Mapping[str, object]
    "Exclude these rules. Repeatable."
    preview: bool
    "Include preview rules."
    fail_on: str | None
    "Exit with 1 at this severity or above: error, warning, note or never. [warning]."
    fix: bool
    "Write a copy of each model with the exact fixes applied."
    unsafe_fixes: bool
    "Also apply fixes that change outputs or accepted inputs."
    diff: bool
    "Show how the fixes would change the operators."
    output: str | Path | None
    "File for the fixed model. Default: NAME.fixed.onnx."
    in_place: bool
    "Overwrite the checked model."
    no_config: bool
    "Ignore ortune.toml and [tool.ortune] of pyproject.toml."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def check(
    *models: str | Path,
    **options: Unpack[_CheckOptions],
) -> Answer[CheckResult]:
    """What slows down these models, according to their files? Without --fix, runs nothing."""

class _CompareOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of the model. Repeatable."
    a_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting of A only."
    b_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting of B only."
    a_rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of A only."
    b_rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of B only."
    a_runtime: str | Path | None
    "The onnxruntime of A only."
    b_runtime: str | Path | None
    "The onnxruntime of B only."
    a_target: str | None
    "The target of A only."
    b_target: str | None
    "The target of B only."
    a_ort_web: str | None
    "The onnxruntime-web of A only."
    b_ort_web: str | None
    "The onnxruntime-web of B only."
    map: Sequence[str] | str | Mapping[str, object]
    "Input a of A corresponds to input b of B. Repeatable."
    c_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    d_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    e_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    f_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    g_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    h_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    c_rewrite: Sequence[str] | str | Mapping[str, object]
    d_rewrite: Sequence[str] | str | Mapping[str, object]
    e_rewrite: Sequence[str] | str | Mapping[str, object]
    f_rewrite: Sequence[str] | str | Mapping[str, object]
    g_rewrite: Sequence[str] | str | Mapping[str, object]
    h_rewrite: Sequence[str] | str | Mapping[str, object]
    c_runtime: str | Path | None
    d_runtime: str | Path | None
    e_runtime: str | Path | None
    f_runtime: str | Path | None
    g_runtime: str | Path | None
    h_runtime: str | Path | None
    c_target: str | None
    d_target: str | None
    e_target: str | None
    f_target: str | None
    g_target: str | None
    h_target: str | None
    c_ort_web: str | None
    d_ort_web: str | None
    e_ort_web: str | None
    f_ort_web: str | None
    g_ort_web: str | None
    h_ort_web: str | None
    a_host: str | None
    "The machine of A only."
    b_host: str | None
    "The machine of B only."
    c_host: str | None
    d_host: str | None
    e_host: str | None
    f_host: str | None
    g_host: str | None
    h_host: str | None
    network: str
    "Download speed of the page, for objective first-result (10mbit|3G|4G|5G); '10mbit' by default."
    gap: str | float
    "Pause between requests (30ms); '0' by default."
    sessions: int
    "Sessions of the model per process; 1 by default."
    callers: int
    "Concurrent callers per session; 1 by default."
    cpus: float | None
    "Emulate a container limited to N CPUs."
    memory: str | int | None
    "Emulate a container with this memory limit (2g)."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer, e.g. 2m; '2m' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    address: str
    "Address of this machine to listen on; HTTPS unless it is 127.0.0.1 (192.168.1.20); '127.0.0.1' by default."
    port: int
    "Port to listen on; 0 uses a free one."
    cert: str
    "Certificate for HTTPS. Default: a temporary self-signed one."
    key: str
    "Private key of the certificate."
    open_within: str | float
    "How long to wait for a browser (5m); '5m' by default."
    serve: bool
    "Run in a browser on a phone or another machine: shows a URL to open there."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    budget_each: str | float | None
    "With several models: time for each one, instead of budget for all together."
    host: Sequence[str] | str | Mapping[str, object]
    "Run on that machine; the script starts a Python there (ssh, docker exec). Repeatable: one after another."
    on: str | None
    "Run on the hosts of a Ray cluster: its nodes that have the resource 'ortune' (ray[:HOST:PORT])."
    hosts: Sequence[str] | str | Mapping[str, object]
    "With on: nodes with these Ray labels, as one kind of host. Repeatable: each model runs on each kind."
    price: Sequence[str] | str | Mapping[str, object]
    "Price of an hour of a machine, e.g. pi=0.05/h: shows the cost per million requests. Repeatable."
    app: str | None
    "Compare whole runs of a program, without and with the bundle of b_with."
    b_with: str | Path | None
    "Bundle of an application, for app."
    app_metric: str | None
    "A number in the output of the program; the last match counts."
    objective: Objective
    "latency, p95, throughput, cold-start, first-result, main-thread, event-loop, memory, memory:idle, memory:released or cpu; 'latency' by default."
    tolerance: str | float | None
    "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99."
    metric: str | None
    "For tolerance='metric>=99%': accuracy, boxes, ctc, ranks, perplexity, or your MODULE:FUNCTION."
    max_blocks: int | None
    "Maximum number of blocks. Default: 100, more with a longer budget."
    inject_wait: str | float | None
    "For testing: add a busy wait to each run of B (5%)."
    allow: Sequence[str] | str | Mapping[str, object]
    "non-finite: measure even if outputs are NaN or infinite."
    no_why: bool
    "Do not profile both sides after a confirmed difference."
    threshold: str | float | None
    "Exit with 1 if a regression larger than this is confirmed (5%)."
    framework: str | None
    "Framework of module:function: pytorch, tensorflow or sklearn. Default: detected from its imports."
    trust_source: bool
    "Open the source without confinement: it gets your files, programs and network. Needed on systems that cannot confine it (macOS, Windows, Linux before 5.13)."
    undecided: str
    "Result of an inconclusive gate (pass|fail); 'pass' by default."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

@overload
def compare(
    a: str | Path = ...,
    b: str | Path | None = ...,
    *more: str | Path,
    each: Literal[False] = ...,
    **options: Unpack[_CompareOptions],
) -> Answer[CompareResult]:
    """Is B faster than A on this machine?"""

@overload
def compare(
    a: str | Path = ...,
    b: str | Path | None = ...,
    *more: str | Path,
    each: Literal[True],
    **options: Unpack[_CompareOptions],
) -> Answer[ManyResult]:
    """Is B faster than A on this machine?"""

class _ConvertOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    to: str
    "The format to write; ort takes an .onnx (onnx|ort); 'onnx' by default."
    runs_on: str
    "Where the .ort will run: cpu-arm64, cpu-amd64, nnapi, coreml, xnnpack, qnn, web-webgpu or web-wasm."
    level: str
    "Optimisation level of the .ort: basic, extended or all. Default: depends on runs_on."
    style: str
    "Style of the .ort: fixed, or runtime (CPU fusions are applied at load time)."
    needed: str
    "Also write the operator list for a reduced build of ONNX Runtime (operators|types)."
    aware: bool
    "Do not fuse nodes that the provider supports; optimise all others."
    matrix: bool
    "Write a folder of .ort files (CPU, provider, both) with benchmark apps for phones."
    verify: bool
    "Check MODEL.onnx against SOURCE; write nothing."
    dynamic: str
    "Axes to keep dynamic: batch, seq, height, width, or INPUT:AXIS=NAME (batch,seq)."
    exporter: str
    "dynamo or torchscript (PyTorch). Default: the first whose outputs match; 'auto' by default."
    opset: int
    "ONNX opset. Default: the exporter's own choice."
    framework: str | None
    "Framework of module:function: pytorch, tensorflow or sklearn. Default: detected from its imports."
    trust_source: bool
    "Open the source without confinement: it gets your files, programs and network. Needed on systems that cannot confine it (macOS, Windows, Linux before 5.13)."
    source_python: str | Path | None
    "Interpreter or venv with the framework and its converter. Default: one that ortune installs once."
    data: str | Path | None
    "More real inputs to compare on: a folder of .npz or test_data_set_*."
    tune: bool
    "Tune the new model; its bundle records the source."
    budget: str
    "Total time for tune=True (default 3m); for matrix=True, to compare its files here (default 1m, 0 to skip) (3m)."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    tolerance: str | float | None
    "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99."
    seed: int
    "Seed of the synthetic inputs."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    force: bool
    "Overwrite an existing file; write an .ort that does not suit runs_on."
    output: str | Path | None
    "File for the new model. Default: NAME.onnx or NAME.ort in the current folder."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def convert(
    source: str,
    model: str | Path | None = ...,
    **options: Unpack[_ConvertOptions],
) -> Answer[ConvertResult]:
    """Convert a PyTorch, TensorFlow, Keras, TFLite, scikit-learn, LightGBM or XGBoost model to ONNX, and check it."""

class _DiagnoseOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    gap: str | float
    "Pause between requests (30ms); '0' by default."
    sessions: int
    "Sessions of the model per process; 1 by default."
    callers: int
    "Concurrent callers per session; 1 by default."
    cpus: float | None
    "Emulate a container limited to N CPUs."
    memory: str | int | None
    "Emulate a container with this memory limit (2g)."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer, e.g. 2m; '2m' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    page: str
    "A page to observe instead of a model: how it uses onnxruntime-web."
    watch: str | float
    "How long to observe the page after loading (15s); '15s' by default."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite to apply to the baseline. Repeatable."
    objective: Objective
    "latency, p95, throughput, cold-start, first-result, main-thread, event-loop, memory, memory:idle, memory:released or cpu; 'latency' by default."
    tolerance: str | float | None
    "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99."
    allow: Sequence[str] | str | Mapping[str, object]
    "Also measure fixes of the class numerics or behaviour, or non-finite outputs. Repeatable."
    fail_on: str
    "Exit with 1 at this severity or above: error, warning, note or never; 'never' by default."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def diagnose(
    model: str | Path | None = ...,
    **options: Unpack[_DiagnoseOptions],
) -> Answer[DiagnoseResult]:
    """Why is this model slow? Every fix is measured before it is recommended."""

class _DoctorOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    measure: bool
    "Also measure noise (about 20 s) and the machine's peak (10 s on a quiet machine, 40 s on a busy one); True by default."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def doctor(
    model: str | Path | None = ...,
    **options: Unpack[_DoctorOptions],
) -> Answer[DoctorResult]:
    """What can this machine run, and how small a difference can it detect?"""

class _ExplainOptions(TypedDict, total=False):
    search: str | None
    "List rules, rewrites and settings whose text contains all these words."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def explain(
    code: str | None = ...,
    **options: Unpack[_ExplainOptions],
) -> Answer[ExplainResult]:
    """What does a finding's code mean? Without a code, lists all rules."""

class _HistoryOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer, e.g. 2m; '4m' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    budget_each: str | float | None
    "With several models: time for each one, instead of budget for all together."
    host: Sequence[str] | str | Mapping[str, object]
    "Run on that machine; the script starts a Python there (ssh, docker exec). Repeatable: one after another."
    on: str | None
    "Run on the hosts of a Ray cluster: its nodes that have the resource 'ortune' (ray[:HOST:PORT])."
    hosts: Sequence[str] | str | Mapping[str, object]
    "With on: nodes with these Ray labels, as one kind of host. Repeatable: each model runs on each kind."
    release: Sequence[str] | str | Mapping[str, object]
    "A release to test instead of the last six. Pass at least two."
    runtime: str | Path | None
    "Another machine, on which all releases run: a script that starts a Python there."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    objective: HistoryObjective
    "latency, p95, throughput, cold-start, first-result, main-thread, event-loop, memory, memory:idle, memory:released, cpu or memory-growth; 'latency' by default."
    tolerance: str | float | None
    "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

@overload
def history(  # type: ignore[overload-overlap]
    model: str | Path,
    **options: Unpack[_HistoryOptions],
) -> Answer[HistoryResult]:
    """Which release of ONNX Runtime made this model faster or slower here?"""

@overload
def history(
    model: Iterable[str | Path],
    **options: Unpack[_HistoryOptions],
) -> Answer[ManyResult]:
    """Which release of ONNX Runtime made this model faster or slower here?"""

class _LockOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    resume: str | None
    "With several models: continue the newest interrupted run, or session ID, with the missing models."
    store: str | Path | None
    "Folder for stored results."
    check: bool
    "Compare with the lock file; exit with 1 on a relevant change."
    strict: bool
    "Fail on every difference, even if only onnxruntime changed."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of the model. Repeatable."
    tolerance: str | float | None
    "Accepted difference of each output's mean, norm and weighted sum, relative to its norm, e.g. 0.01."
    no_wait: bool
    seed: int | None
    "Seed of the inputs. Default: 0, or with check=True that of the lock file."
    output: str | Path | None
    "Lock file to write; with check=True, file for the result."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

@overload
def lock(  # type: ignore[overload-overlap]
    model: str | Path,
    file: str | Path | None = ...,
    **options: Unpack[_LockOptions],
) -> Answer[LockResult]:
    """Has ONNX Runtime's optimised graph of this model changed?"""

@overload
def lock(
    model: Iterable[str | Path],
    file: str | Path | None = ...,
    **options: Unpack[_LockOptions],
) -> Answer[ManyResult]:
    """Has ONNX Runtime's optimised graph of this model changed?"""

class _LookOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time; steps that take longer are skipped (8s); '8s' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    resume: str | None
    "With several models: continue the newest interrupted run, or session ID, with the missing models."
    budget_each: str | float | None
    "With several models: time for each one, instead of budget for all together."
    host: Sequence[str] | str | Mapping[str, object]
    "Run on that machine; the script starts a Python there (ssh, docker exec). Repeatable: one after another."
    on: str | None
    "Run on the hosts of a Ray cluster: its nodes that have the resource 'ortune' (ray[:HOST:PORT])."
    hosts: Sequence[str] | str | Mapping[str, object]
    "With on: nodes with these Ray labels, as one kind of host. Repeatable: each model runs on each kind."
    price: Sequence[str] | str | Mapping[str, object]
    "Price of an hour of a machine, e.g. pi=0.05/h: shows the cost per million requests. Repeatable."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of the model. Repeatable."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

@overload
def look(  # type: ignore[overload-overlap]
    model: str | Path,
    **options: Unpack[_LookOptions],
) -> Answer[LookResult]:
    """A first look at a model in ten seconds; short form: ortune MODEL."""

@overload
def look(
    model: Iterable[str | Path],
    **options: Unpack[_LookOptions],
) -> Answer[ManyResult]:
    """A first look at a model in ten seconds; short form: ortune MODEL."""

class _PartitionOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    resume: str | None
    "With several models: continue the newest interrupted run, or session ID, with the missing models."
    store: str | Path | None
    "Folder for stored results."
    providers: str
    "nnapi, coreml (MLProgram), coreml-neuralnetwork, xnnpack, qnn or webgpu; separate several by commas; 'nnapi,coreml,coreml-neuralnetwork' by default."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

@overload
def partition(  # type: ignore[overload-overlap]
    model: str | Path,
    **options: Unpack[_PartitionOptions],
) -> Answer[PartitionResult]:
    """Which nodes does a phone's accelerator support, and in how many regions?"""

@overload
def partition(
    model: Iterable[str | Path],
    **options: Unpack[_PartitionOptions],
) -> Answer[ManyResult]:
    """Which nodes does a phone's accelerator support, and in how many regions?"""

class _ProfileOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer (30s); '30s' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    against: str | Path | None
    "Another model, a plan for the same model, or another profile; shows the difference, B minus A."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of the model. Repeatable."
    b_set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting of B; without against, B is the same model. Repeatable."
    b_rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of B only. Repeatable."
    b_runtime: str | Path | None
    "The onnxruntime of B only."
    processes: int | None
    "Profiled processes per side. Default: 1, or 5 with against."
    sessions: int
    "Sessions of the workload; the profile is of one; 1 by default."
    callers: int
    "Concurrent callers of the workload; the profile is of one; 1 by default."
    no_peak: bool
    "Do not measure this machine's peak if it is unknown."
    keep: str | Path | None
    "Keep ONNX Runtime's own profile in this file."
    export: Sequence[str] | str | Mapping[str, object]
    "chrome, speedscope, csv, nodes-csv, columns or model-explorer. Repeatable."
    cpus: float | None
    "Emulate a container limited to N CPUs."
    memory: str | int | None
    "Emulate a container with this memory limit (2g)."
    timeline: bool
    "Also set by what needs it."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def profile(
    subject: str | Path,
    **options: Unpack[_ProfileOptions],
) -> Answer[ProfileResult]:
    """Where does every millisecond of a run go?"""

class _QuantizeOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    gap: str | float
    "Pause between requests (30ms); '0' by default."
    sessions: int
    "Sessions of the model per process; 1 by default."
    callers: int
    "Concurrent callers per session; 1 by default."
    cpus: float | None
    "Emulate a container limited to N CPUs."
    memory: str | int | None
    "Emulate a container with this memory limit (2g)."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer (5m); '5m' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    budget_each: str | float | None
    "With several models: time for each one, instead of budget for all together."
    host: Sequence[str] | str | Mapping[str, object]
    "Run on that machine; the script starts a Python there (ssh, docker exec). Repeatable: one after another."
    on: str | None
    "Run on the hosts of a Ray cluster: its nodes that have the resource 'ortune' (ray[:HOST:PORT])."
    hosts: Sequence[str] | str | Mapping[str, object]
    "With on: nodes with these Ray labels, as one kind of host. Repeatable: each model runs on each kind."
    price: Sequence[str] | str | Mapping[str, object]
    "Price of an hour of a machine, e.g. pi=0.05/h: shows the cost per million requests. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    data: str | Path | None
    "Real inputs for calibration and for the error: a folder of .npz or test_data_set_*."
    targets: str | None
    "Execution providers to compare in the same blocks, e.g. cpu,openvino; missing ones are installed. auto (default): all that run here; all: also those that can be installed."
    tolerance: str | float | None
    "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99."
    metric: str | None
    "For tolerance='metric>=99%': accuracy, boxes, ctc, ranks, perplexity, or your MODULE:FUNCTION."
    force: bool
    "Replace an existing bundle."
    bundle: bool
    "Write the bundle NAME.ortune; True by default."
    output: str | Path
    "Folder for the bundle; '.' by default."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

@overload
def quantize(  # type: ignore[overload-overlap]
    model: str | Path,
    **options: Unpack[_QuantizeOptions],
) -> Answer[QuantizeResult]:
    """Which layers can be quantized, and how much faster does that make the model?"""

@overload
def quantize(
    model: Iterable[str | Path],
    **options: Unpack[_QuantizeOptions],
) -> Answer[ManyResult]:
    """Which layers can be quantized, and how much faster does that make the model?"""

class _RecordOptions(TypedDict, total=False):
    output: str | Path | None
    "Workload file to write. Default: app.workload in the current folder."
    duration: str | float | None
    "End the program after this time, by SIGTERM (2m)."
    with_inputs: int | None
    "Also record the input values of up to N calls for each model and shape, 64 MiB in all."
    anonymous: bool
    "Leave paths and arguments out of the workload file."
    install: str | Path | None
    "Install the recorder into an environment, for programs that python -I or -E starts. It does nothing unless ortune record runs the program."
    uninstall: str | Path | None
    "Remove the recorder from an environment."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def record(
    *command: str,
    **options: Unpack[_RecordOptions],
) -> Answer[RecordResult]:
    """Record how an application uses ONNX Runtime, and find what costs it time."""

class _ReportOptions(TypedDict, total=False):
    brief: bool
    "A one-page summary for decision makers. Default: the newest tuning or comparison."
    load: str | float | None
    "With brief=True: request rate (/s, /min, /h or /d) for which CPUs are estimated (200/s)."
    issue: str | Path | None
    "Write a bug report in a new folder: on MODEL without weights or names (issue.md and skeleton.onnx), or on the findings of a recording (issue.md)."
    last: int
    "Number of sessions to list; 20 by default."
    store: str | Path | None
    "Folder for stored results."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    timeline: bool
    "Also set by what needs it."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def report(
    *sessions: str | Path,
    **options: Unpack[_ReportOptions],
) -> Answer[ReportResult]:
    """Show stored results. Runs nothing, except with --issue."""

class _RewriteOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    dry_run: bool
    "Show what each rewrite would change, without writing."
    force: bool
    "Overwrite an existing file."
    tolerance: str | float | None
    "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99."
    metric: str | None
    "For tolerance='metric>=99%': accuracy, boxes, ctc, ranks, perplexity, or your MODULE:FUNCTION."
    seed: int
    "Seed of the synthetic inputs."
    no_wait: bool
    output: str | Path | None
    "File for the new model. Default: MODEL-rewritten.onnx in the current folder."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def rewrite(
    model: str | Path,
    *names: str,
    **options: Unpack[_RewriteOptions],
) -> Answer[RewritingResult]:
    """Apply rewrites to a model, or list those that apply."""

class _RunOptions(TypedDict, total=False):
    bundle: str | Path | None
    "Bundle of an application, from ortune tune app.workload."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def run(
    *command: str,
    **options: Unpack[_RunOptions],
) -> Answer[RunResult]:
    """Run an application with the changes of a bundle, without changing the application."""

class _RuntimeOptions(TypedDict, total=False):
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def runtime(
    action: str = ...,
    *names: str,
    **options: Unpack[_RuntimeOptions],
) -> Answer[RuntimeResult]:
    """Manage ONNX Runtime builds with other providers or releases, each in its own environment."""

class _ServeOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes give one row each. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'web-wasm' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer, e.g. 2m; '20s' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of the model. Repeatable."
    processes: int | None
    "Fresh processes per shape. Default: as many as the budget allows, at least 3."
    runs: int | None
    "Timed requests per process and caller."
    address: str
    "Address of this machine to listen on; HTTPS unless it is 127.0.0.1 (192.168.1.20); '127.0.0.1' by default."
    port: int
    "Port to listen on; 0 uses a free one."
    cert: str
    "Certificate for HTTPS. Default: a temporary self-signed one."
    key: str
    "Private key of the certificate."
    open_within: str | float
    "How long to wait for a browser (5m); '5m' by default."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def serve(
    model: str | Path,
    **options: Unpack[_ServeOptions],
) -> Answer[BenchResult]:
    """How fast is this model in a browser on a phone or another machine?"""

class _SkeletonOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    force: bool
    "Overwrite an existing file."
    seed: int
    "Seed of the synthetic inputs."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    output: str | Path | None
    "File for the skeleton. Default: skeleton.onnx in the current folder."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def skeleton(
    model: str | Path,
    **options: Unpack[_SkeletonOptions],
) -> Answer[SkeletonResult]:
    """Write a small copy of a model without weights, names or metadata, to share with others."""

class _SoakOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer, e.g. 2m; '10m' by default."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    gap: str | float
    "Pause between requests (30ms); '0' by default."
    sessions: int
    "Sessions of the model per process; 1 by default."
    callers: int
    "Concurrent callers per session; 1 by default."
    cpus: float | None
    "Emulate a container limited to N CPUs."
    memory: str | int | None
    "Emulate a container with this memory limit (2g)."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite of the model. Repeatable."
    rate: str | float | None
    "Start calls at this rate, whether or not earlier ones have ended (50/s)."
    arrival: str | None
    "When calls start: poisson (default), constant or gamma:CV."
    recreate: int
    "Delete and create the sessions after every N calls."
    fail_on: str
    "Exit with 1 on one of these verdicts, e.g. growing,killed,undecided. Default: never; 'never' by default."
    models: Sequence[str | Path] | str | Mapping[str, object]
    "Models of a recording that are not where they were: files, or folders to search. Repeatable."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

def soak(
    model: str | Path,
    **options: Unpack[_SoakOptions],
) -> Answer[SoakResult]:
    """Does memory grow over time?"""

class _TuneOptions(TypedDict, total=False):
    shape: Sequence[str] | str | Mapping[str, object]
    "Shape of an input. Repeatable."
    dim: Sequence[str] | str | Mapping[str, object]
    "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable."
    inputs: str | Path | None
    "Real inputs: .npz, .npy, or a folder of test_data_set_* or of images."
    image: str
    "How images become inputs: size, mean, std, scale, layout, channels, fit, input (size=224,mean=0.5,std=0.5)."
    custom_ops: Sequence[str | Path] | str | Mapping[str, object]
    "Shared library with custom operators. Repeatable."
    set: Sequence[str] | Mapping[str, str | int | float | bool] | str | Mapping[str, object]
    "A setting, e.g. intra=4, spin=0, level=basic. Repeatable."
    plan: str | Path | None
    "Settings, rewrites and providers from a plan file (FILE.json)."
    target: str
    "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all; 'cpu' by default."
    ort_web: str
    "onnxruntime-web for browsers: a local copy, or a version from npm."
    browser: str
    "Browser to use. Default: Chromium, Chrome or Edge on PATH."
    headful: bool
    "Show the browser window, which some GPUs need."
    runtime: str | Path | None
    "The onnxruntime to use: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, installed once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has onnxruntime."
    network: str
    "Download speed of the page, for objective first-result (10mbit|3G|4G|5G); '10mbit' by default."
    gap: str | float
    "Pause between requests (30ms); '0' by default."
    sessions: int
    "Sessions of the model per process; 1 by default."
    callers: int
    "Concurrent callers per session; 1 by default."
    cpus: float | None
    "Emulate a container limited to N CPUs."
    memory: str | int | None
    "Emulate a container with this memory limit (2g)."
    no_wait: bool
    "Fail immediately if another ortune is measuring."
    wait_quiet: str | float | None
    "Wait up to this long (10m) for other programs to leave the CPUs idle. Not part of the budget."
    store: str | Path | None
    "Folder for stored results."
    workload: str | Path | None
    "Inputs saved by save_workload, or the part of this model in a recording: app.workload, app.workload#3 (FILE.json)."
    save_workload: str | Path | None
    "Save the chosen inputs to a file (FILE.json)."
    budget: str | float
    "Total time from start to answer. Default: 3m, or 10m in a browser (2m)."
    seed: int
    "Seed of the synthetic inputs."
    report: str | Path | None
    "Also write the result as an HTML page (FILE.html)."
    resume: str | None
    "Resume the newest interrupted session with the same options, or session ID."
    address: str
    "Address of this machine to listen on; HTTPS unless it is 127.0.0.1 (192.168.1.20); '127.0.0.1' by default."
    port: int
    "Port to listen on; 0 uses a free one."
    cert: str
    "Certificate for HTTPS. Default: a temporary self-signed one."
    key: str
    "Private key of the certificate."
    open_within: str | float
    "How long to wait for a browser (5m); '5m' by default."
    serve: bool
    "Run in a browser on a phone or another machine: shows a URL to open there."
    rewrite: Sequence[str] | str | Mapping[str, object]
    "A rewrite to include in every configuration. Repeatable."
    current: str | None
    "What you run today: default, 'intra=4,spin=0', a plan.json or a NAME.ortune. The headline then compares with it."
    targets: str | None
    "Execution providers to compare in the same blocks, e.g. cpu,openvino; missing ones are installed. auto (default): all that run here; all: also those that can be installed."
    objective: Objective
    "latency, p95, throughput, cold-start, first-result, main-thread, event-loop, memory, memory:idle, memory:released or cpu; 'latency' by default."
    tolerance: str | float | None
    "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99."
    data: str | Path | None
    "Real inputs for calibration and for the error of quantized models: a folder of .npz or test_data_set_*."
    metric: str | None
    "For tolerance='metric>=99%': accuracy, boxes, ctc, ranks, perplexity, or your MODULE:FUNCTION."
    max_memory: str | int | None
    "Peak memory that a process may need over all sizes of the workload: the fastest configuration within it (512m)."
    worth: str | float
    "Smallest gain that justifies a change (1%); '1%' by default."
    worth_adopting: str | float
    "Smallest gain over the best configuration in your own packages that justifies another package. A target that you name needs none (10%); '10%' by default."
    allow: Sequence[str] | str | Mapping[str, object]
    "Also accept: numerics, behaviour, non-finite (outputs), busy (a gain under load alone), or a guard (mean, p95, memory, cpu). Repeatable."
    export: Sequence[str] | str | Mapping[str, object]
    "Also write csv=FILE (a line per row of the main table) or jsonl=FILE (a document per line). Repeatable."
    budget_each: str | float | None
    "With several models: time for each one, instead of budget for all together."
    host: Sequence[str] | str | Mapping[str, object]
    "Run on that machine; the script starts a Python there (ssh, docker exec). Repeatable: one after another."
    on: str | None
    "Run on the hosts of a Ray cluster: its nodes that have the resource 'ortune' (ray[:HOST:PORT])."
    hosts: Sequence[str] | str | Mapping[str, object]
    "With on: nodes with these Ray labels, as one kind of host. Repeatable: each model runs on each kind."
    price: Sequence[str] | str | Mapping[str, object]
    "Price of an hour of a machine, e.g. pi=0.05/h: shows the cost per million requests. Repeatable."
    quick: bool
    "A quick look: budget='30s', and no bundle is written."
    models: Sequence[str | Path] | str | Mapping[str, object]
    "Models of a recording that are not where they were: files, or folders to search. Repeatable."
    rate: str | float | None
    "Start the calls of a recording at this rate, all together (50/s)."
    arrival: str | None
    "When the calls of a recording start: poisson (default), constant, gamma:CV, or recorded."
    force: bool
    "Replace an existing bundle."
    bundle: bool
    "Write the bundle NAME.ortune; True by default."
    output: str | Path
    "Folder for the bundle; '.' by default."
    progress: bool
    "Show a bar in a notebook, True by default."
    watcher: Watcher | None
    "Receives progress and sentences, and can stop the measurement."

@overload
def tune(  # type: ignore[overload-overlap]
    model: str | Path,
    **options: Unpack[_TuneOptions],
) -> Answer[TuneResult]:
    """Find the fastest correct way to run a model on this machine."""

@overload
def tune(
    model: Iterable[str | Path],
    **options: Unpack[_TuneOptions],
) -> Answer[ManyResult]:
    """Find the fastest correct way to run a model on this machine."""
