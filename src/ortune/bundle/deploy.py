"""``deploy/``: what a container needs to run a bundle as it was measured.

Only what was measured becomes a number: memory from the peak of the confirmed plan's processes with the headroom
stated beside it, CPUs from the plan's threads. What was not measured is left out, and a comment says so.
"""

from __future__ import annotations

import math
import re

import msgspec
import onnx_ir as ir

from ortune import knobs
from ortune.bundle.languages._literals import comment
from ortune.bundle.machine import PACKAGES
from ortune.bundle.settings import measured, named, of, preload, process_line
from ortune.bundle.shared import as_text
from ortune.bundle.triton import config
from ortune.errors import UsageError
from ortune.providers import find
from ortune.records import Applied, BundleInfo, TuneResult, Workload

HEADROOM = 0.25
"""Share of the measured peak that a container gets on top: other inputs, another allocator state."""

_NVIDIA = "NVIDIA"
"""Its providers need libraries which no image of Python has, and a GPU."""

_MIB = 1 << 20


def deploy_files(result: TuneResult, info: BundleInfo, workload: Workload, model: ir.Model) -> dict[str, str]:
    """The files of ``deploy/`` by their names within the bundle."""
    # The container has as many CPUs as the tuned machine.
    info = msgspec.structs.replace(info, applied=measured(info.applied))
    return {
        "deploy/env": _env(info),
        "deploy/Dockerfile": _dockerfile(result, info),
        "deploy/k8s.yaml": _kubernetes(result, info, workload),
        "deploy/k8s-check.yaml": _kubernetes_check(result, info, workload),
        "deploy/config.pbtxt": config(info, model, workload.custom_ops),
    }


def cpus(info: BundleInfo, workload: Workload) -> int | None:
    """CPUs that the plan keeps busy at most; None where neither plan nor machine says.

    Each session has its intra-op threads, one of which is the caller's own; more callers bring more. A parallel
    execution has the inter-op threads besides.
    """
    # 0 is ONNX Runtime's own choice.
    counts = [s for s in measured(info.applied) if type(s.value) is int and s.value > 0]
    threads = {knobs.find(s.knob).threads: int(s.value) for s in counts}
    had = info.host.effective_cpus if info.host else None
    intra = threads.get("intra") or had
    if intra is None:
        return None
    parallel = any(s.value == "ORT_PARALLEL" for s in info.applied)
    pools = 1 if any(s.channel == "global_pool" for s in info.applied) else workload.sessions
    inter = (threads.get("inter") or intra) - 1 if parallel else 0
    busy = pools * (intra - 1 + inter) + workload.sessions * workload.callers
    return max(1, min(busy, had) if had is not None else busy)


def memory_mib(result: TuneResult) -> tuple[int, int] | None:
    """The measured peak and the peak with headroom, in MiB rounded up; None where it was not measured."""
    figures = result.winner_figures or result.default_figures
    if figures.peak_bytes is None:
        return None
    return math.ceil(figures.peak_bytes / _MIB), math.ceil(figures.peak_bytes * (1 + HEADROOM) / _MIB)


def _env(info: BundleInfo) -> str:
    """Lines for ``docker run --env-file`` or systemd's ``EnvironmentFile``."""
    lines = [
        "# docker run --env-file deploy/env ..., or EnvironmentFile= of systemd. Written by ortune.",
        *(f"{s.key}={_value(s)}" for s in of(info.applied, "env")),
    ]
    for setting in of(info.applied, "preload"):
        lines.append(f"# The file of {comment(as_text(setting.value))} on this system; this finds it:")
        lines.append(f'#     echo LD_PRELOAD="{comment(preload(as_text(setting.value)))}"')
    lines += _process(info)
    if len(lines) == 1:
        lines.append("# The plan needs no variables.")
    return "\n".join(lines) + "\n"


def _dockerfile(result: TuneResult, info: BundleInfo) -> str:
    """Builds from the bundle's folder and, as it is, checks the bundle there."""
    runtime = result.runtime or result.side.runtime
    python = re.match(r"3\.\d+", runtime.python_version)
    named = re.fullmatch(r"onnxruntime[a-z0-9_-]*", runtime.package)
    version_match = re.fullmatch(r"\d+(\.\d+)+[a-z0-9.]*", info.ort_version)
    lines = [
        "# docker build -t NAME -f deploy/Dockerfile .    in the bundle's folder. Written by ortune.",
        "# As it is, the container runs the model on its inputs and compares the outputs: put your program there.",
    ]
    if not python:
        lines.append("# The Python that was measured with is not recorded.")
    version = python.group() if python else "3"
    lines += _gpu_base(version) if _gpu(info) else [f"FROM python:{version}-slim"]
    for setting in of(info.applied, "preload"):
        name = as_text(setting.value)
        find = f"find /usr/lib -regex '.*/lib{name}\\(_minimal\\)?.so'"
        lines += [
            f"RUN apt-get update && apt-get install -y --no-install-recommends {PACKAGES[name]} \\",
            "    && rm -rf /var/lib/apt/lists/* \\",
            f'    && ln -s "$({find} | sort -r | head -n 1)" {_library(name)}',
        ]
    package = named.group() if named else "onnxruntime"
    lines.append(
        f"RUN pip install --no-cache-dir {package}{'==' + version_match.group() if version_match else ''}"
    )
    if not version_match:
        lines.append("# The version of ONNX Runtime that was measured with is not recorded.")
    lines.append("COPY . /model")
    lines += [f"ENV {name}={value}" for name, value in _variables(info)]
    lines += _process(info)
    return "\n".join([*lines, 'CMD ["python", "/model/load.py"]']) + "\n"


def _gpu_base(python: str) -> list[str]:
    """Which releases of CUDA a build of ONNX Runtime needs is not recorded, so no image is named that may be wrong."""
    return [
        f"# Not covered: CUDA, cuDNN and TensorRT. Give an image that has Python {python} and what your build of",
        "# ONNX Runtime needs of these:    docker build --build-arg BASE=IMAGE -t NAME -f deploy/Dockerfile .",
        "ARG BASE",
        "FROM ${BASE}",
    ]


def _kubernetes(result: TuneResult, info: BundleInfo, workload: Workload) -> str:
    """A Deployment whose container has what the plan was measured to need."""
    name = _label(info)
    lines = [
        "# kubectl apply -f deploy/k8s.yaml    with an image of YOUR program. Written by ortune.",
        "# The image of deploy/Dockerfile as it is checks the bundle and ends: a Deployment would start it again and",
        "# again. To run that check, there is deploy/k8s-check.yaml.",
        *_asked_words(result, info, workload),
        "apiVersion: apps/v1",
        "kind: Deployment",
        "metadata:",
        f'  name: "{name}"',
        "spec:",
        "  replicas: 1",
        "  selector:",
        "    matchLabels:",
        f'      app: "{name}"',
        "  template:",
        "    metadata:",
        "      labels:",
        f'        app: "{name}"',
        "    spec:",
        *_container(result, info, workload),
    ]
    return "\n".join(lines) + "\n"


def _kubernetes_check(result: TuneResult, info: BundleInfo, workload: Workload) -> str:
    """A Job that runs the image as it is: the bundle's check, under the limits of the Deployment."""
    name = _label(info)
    lines = [
        "# kubectl apply -f deploy/k8s-check.yaml    with the image of deploy/Dockerfile as it is: runs the model on",
        "# its inputs once, compares the outputs and ends. Written by ortune.",
        "apiVersion: batch/v1",
        "kind: Job",
        "metadata:",
        f'  name: "{name}-check"',
        "spec:",
        "  backoffLimit: 0",
        "  template:",
        "    spec:",
        "      restartPolicy: Never",
        *_container(result, info, workload),
    ]
    return "\n".join(lines) + "\n"


def _asked_words(result: TuneResult, info: BundleInfo, workload: Workload) -> list[str]:
    """Comments on where the requests come from, and on what no request can say."""
    lines = [_memory_words(result, memory_mib(result))]
    if cpus(info, workload) is not None:
        lines.append(
            "# CPUs are those that the plan's threads keep busy: with fewer, its threads wait for each other."
        )
    else:
        lines.append(
            "# The plan sets no threads and the tuned machine is not recorded: no CPUs are asked for."
        )
    if of(info.applied, "preload"):
        lines.append(
            "# LD_PRELOAD is where deploy/Dockerfile puts the allocator: your image must have it there too."
        )
    if info.hardware_bound:
        lines.append("# The model is made for the CPU that it was tuned on: choose nodes of its kind.")
    return lines + _process(info)


def _container(result: TuneResult, info: BundleInfo, workload: Workload) -> list[str]:
    """The one container of a pod, with requests, limits and variables."""
    count, memory = cpus(info, workload), memory_mib(result)
    resources = [f"cpu: {count}"] if count is not None else []
    resources += [f"memory: {memory[1]}Mi"] if memory is not None else []
    resources += ["nvidia.com/gpu: 1"] if _gpu(info) else []
    lines = ["      containers:", "        - name: model", f'          image: "{_label(info)}:latest"']
    if resources:
        lines.append("          resources:")
        for kind in ("requests", "limits"):
            lines += [f"            {kind}:", *(f"              {line}" for line in resources)]
    variables = _variables(info)
    if variables:
        lines.append("          env:")
        for key, value in variables:
            lines += [f"            - name: {key}", f'              value: "{value}"']
    return lines


def _variables(info: BundleInfo) -> list[tuple[str, str]]:
    """What the container's process is started with."""
    preloads = [("LD_PRELOAD", _library(as_text(s.value))) for s in of(info.applied, "preload")]
    return [(s.key, _value(s)) for s in of(info.applied, "env")] + preloads


def _gpu(info: BundleInfo) -> bool:
    return any(find(provider.name).vendor == _NVIDIA for provider in info.plan.providers)


def _library(name: str) -> str:
    """Where the image has an allocator: the code of each language looks for its name in LD_PRELOAD."""
    return f"/usr/local/lib/lib{name}.so"


def _memory_words(result: TuneResult, memory: tuple[int, int] | None) -> str:
    figures = result.winner_figures or result.default_figures
    if memory is None:
        return "# Peak memory was not measured: no memory is asked for."
    trials = f"median of {figures.n_trials} processes" if figures.n_trials > 1 else "a single observation"
    whose = "Python, ONNX Runtime and the model"
    return f"# Memory: measured peak {memory[0]} MiB ({trials}; {whose}) and {HEADROOM:.0%} headroom."


def _process(info: BundleInfo) -> list[str]:
    """Comments on what no variable sets: how the process must be started."""
    lines = [(s, process_line(s)) for s in of(info.applied, "process")]
    return [f"# {comment(named(s))}: {comment(line)}" for s, line in lines if line]


def _value(setting: Applied) -> str:
    """A value as text of one word.

    Raises:
        UsageError: It has a character that these files would read in different ways.
    """
    text = as_text(setting.value)
    if not re.fullmatch(r"[\w.=:,/+-]*", text, flags=re.ASCII):
        raise UsageError(
            f"{setting.key}={text!r} cannot be used in containers: only letters, digits and . = : , / + - _ are "
            "allowed",
            where=f"setting {setting.knob}",
            do="set another value, or --no-bundle",
        )
    return text


def _label(info: BundleInfo) -> str:
    """The model's name as Kubernetes and image registries accept it."""
    stem = re.sub(r"\.[^.]*$", "", info.model.rpartition("/")[2]).lower()
    return re.sub(r"[^a-z0-9]+", "-", stem, flags=re.ASCII).strip("-")[:50].strip("-") or "model"
