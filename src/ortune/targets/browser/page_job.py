"""The job message for a page, and the files that the page may load."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortune.catalogue import providers
from ortune.catalogue.computed.web_build import build_of_file, default_of
from ortune.catalogue.in_page import in_page
from ortune.catalogue.named import WEB_ISOLATION as ISOLATION
from ortune.records import Applied
from ortune.targets.browser import setup
from ortune.targets.browser.outputs import Outputs
from ortune.targets.browser.page_files import CannotServe, inputs_of, model_of
from ortune.targets.browser.server import Served
from ortune.targets.task import Limits, TrialTask

GRAPH, MOST_GRAPH = "graph.onnx", 1 << 27
"""Name of the graph that ran on a GPU, read at the end, and its size limit; the page needs twice that memory."""
FILES = {
    "jsep": "ort.min.mjs", "asyncify": "ort.webgpu.min.mjs", "jspi": "ort.jspi.min.mjs", "wasm": "ort.wasm.min.mjs",
    "webgl": "ort.webgl.min.mjs",
}  # fmt: skip
WARM_MS, AGAIN_MS = 1000, 5000
"""Duration of a page's warm-up, and the limit of the wait until V8 has recompiled its WebAssembly, in milliseconds: the
hottest functions take half a second on a quiet machine, and up to four on a busy one. Others follow one by one, which
shows in the CPU time of V8's threads: meanwhile a model of 0.9 ms took 10 to 30 ms of CPU per run. A page with stored
code does not wait: the remaining functions are compiled only after a thousand runs, and one of the default build then
takes over 20 s and 2.5 GB."""
COMPILING = 0.2
"""Share of CPU time from which on V8's compiling threads count as compiling."""
HIDDEN_S = 60.0
"""Longest wait in seconds for a hidden page to be shown, limited to half of the trial's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageJob:
    """A trial prepared for a page.

    Attributes:
        served: Files that the page may request.
        outputs: Storage of the outputs that the page sends.
        message: The job, before the protocol's version is added.
    """

    served: Served
    outputs: Outputs
    message: dict[str, Any]


def prepare(
    task: TrialTask,
    settings: tuple[Applied, ...],
    web: setup.OrtWeb,
    limits: Limits,
    *,
    alone: bool,
    elsewhere: bool,
) -> PageJob:
    """Read the model and the inputs, and return the job of the page.

    Args:
        task: The trial.
        settings: The plan's settings.
        web: The onnxruntime-web to use.
        limits: Limits of the trial.
        alone: Whether no other trial is alive at the same time.
        elsewhere: Whether the browser is on another device.

    Raises:
        CannotServe: An input has no counterpart in JavaScript, or a file is larger than a page can fetch.
    """
    request, provider = task.request, task.plan.providers[0]
    traits = providers.find(provider.name)
    if request.custom_ops or request.sessions > 1 or request.callers > 1:
        raise CannotServe(
            "custom operators, several sessions and several callers are not supported in a page"
        )
    page_settings = in_page(provider, (*settings, *request.applied))
    isolated = [setting.value for setting in settings if setting.knob == ISOLATION.name]
    if elsewhere and isolated and not is_on(isolated[-1]):
        raise CannotServe(
            f"pages on other devices are always served with the isolation headers; {ISOLATION.name}=0 needs a browser "
            "on this machine"
        )
    feeds = [inputs_of(Path(feed.path)) for feed in request.feeds]
    model = Path(request.model).absolute()
    contents = model_of(model)
    build = page_settings.build or default_of(provider.name)
    if page_settings.build and build not in map(build_name, (path.name for path in web.dist.iterdir())):
        # Release 1.22 has a file with this name, which contains JSEP.
        raise CannotServe(f"onnxruntime-web {web.version or 'there'} has no {build} build")
    outputs = Outputs(
        Path(request.outputs_path) if request.outputs_path else None,
        [ref.name for ref in request.feeds],
        contents.outputs,
        task.reference,
    )
    served = Served(
        model=model,
        external=[model.parent / name for name in contents.external],
        feeds=[[data for _, data in feed] for feed in feeds],
        dist=web.dist,
        isolated=not isolated or is_on(isolated[-1]),
    )
    message = {
        "builds": "ort/",
        "build": FILES[build],
        "compiled": False,
        "env": page_settings.env,
        "session": page_settings.session,
        "provider": provider.name,
        "inputs_on_gpu": page_settings.inputs == "gpu-buffer",
        "profile": bool(request.profile_path),
        # Only a verbose log contains the provider of each node and the reasons for fallbacks.
        "placement": bool(request.profile_path or (request.outputs_path and not traits.cpu_kernels)),
        # For WebAssembly the native optimiser gives the same graph, and another device may lack the memory.
        "graph": GRAPH
        if request.profile_path
        and not traits.web_alone
        and not elsewhere
        and sum(file.stat().st_size for file in (model, *served.external)) <= MOST_GRAPH // 2
        else "",
        "keep": bool(request.outputs_path),
        "alone": alone,
        "hidden_ms": int(1000 * min(HIDDEN_S, limits.load_s / 2, limits.run_s / 2)),
        "external": contents.external,
        "gap_ns": request.gap_ns,
        "wait_ratio": request.wait_ratio,
        "warm_ms": WARM_MS,
        "again_ms": AGAIN_MS,
        "compiling": COMPILING,
        "warmup_runs": request.warmup_runs,
        "warmup_ns": min(request.warmup_ns, request.warmup_cap_ns or math.inf),
        "feeds": [
            {"index": i, "name": ref.name, "weight": ref.weight, "inputs": [about for about, _ in feed]}
            for i, (ref, feed) in enumerate(zip(request.feeds, feeds, strict=True))
        ],
    }
    return PageJob(served=served, outputs=outputs, message=message)


def build_name(name: str) -> str:
    """Return the build of a WebAssembly file, or "webgl" for the script of the build without one; else ""."""
    return "webgl" if name == FILES["webgl"] else build_of_file(name)


def is_on(value: object) -> bool:
    """Return whether a switch is on, given as a page or a plan writes it."""
    return value not in (False, 0, "0", "false", "off", "")
