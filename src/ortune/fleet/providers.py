"""The execution providers: which wheel brings each, and why one is absent or unusable in a runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ortune.fleet.probe import Answer, ask
from ortune.records import ProviderReport

_USE_TIMEOUT_S = 60.0
_SYSTEM_NAMES = {"Darwin": "macOS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Where a provider comes from.

    Attributes:
        wheel: The wheel whose build has it; "" when no wheel does.
        systems: Where that wheel exists, by ``platform.system()``.
        plugin: A plugin wheel that adds it to a plain ``onnxruntime``.
        otherwise: Where it does come from when no wheel brings it.
    """

    wheel: str = ""
    systems: tuple[str, ...] = ("Linux",)
    plugin: str = ""
    otherwise: str = ""


_DESKTOP = ("Linux", "Windows")

KNOWN: Mapping[str, Known] = {
    "CPUExecutionProvider": Known(wheel="onnxruntime", systems=("Linux", "Windows", "Darwin")),
    "CUDAExecutionProvider": Known(wheel="onnxruntime-gpu", systems=_DESKTOP),
    "TensorrtExecutionProvider": Known(wheel="onnxruntime-gpu", systems=_DESKTOP),
    "NvTensorRTRTXExecutionProvider": Known(
        wheel="onnxruntime-trt-rtx", systems=_DESKTOP, plugin="onnxruntime-ep-nv-tensorrt-rtx"
    ),
    "OpenVINOExecutionProvider": Known(
        wheel="onnxruntime-openvino", systems=_DESKTOP, plugin="onnxruntime-ep-openvino"
    ),
    "WebGpuExecutionProvider": Known(
        wheel="onnxruntime-webgpu", systems=("Linux", "Windows", "Darwin"), plugin="onnxruntime-ep-webgpu"
    ),
    "QNNExecutionProvider": Known(wheel="onnxruntime-qnn", systems=_DESKTOP),
    "DmlExecutionProvider": Known(wheel="onnxruntime-directml", systems=("Windows",)),
    "CoreMLExecutionProvider": Known(wheel="onnxruntime", systems=("Darwin",)),
    "MIGraphXExecutionProvider": Known(wheel="onnxruntime-migraphx"),
    "ROCMExecutionProvider": Known(
        wheel="onnxruntime-rocm", otherwise="releases since 1.23 no longer have it: use MIGraphX"
    ),
    "XnnpackExecutionProvider": Known(otherwise="it is in the Android and iOS packages"),
    "NnapiExecutionProvider": Known(otherwise="it is in the Android package"),
}
"""The providers that doctor speaks of. Azure's is left out: it calls a remote service, nothing runs here."""


def provider_reports(python: str, look: Answer, system: str) -> tuple[ProviderReport, ...]:
    """Every known provider, and any other in the build: there, usable, or why not.

    Each provider in the build, other than the CPU's, is tried by creating a session in a process of its own,
    for only the session tells whether ONNX Runtime fell back.

    Args:
        python: The interpreter of the runtime.
        look: What the probe found in it.
        system: ``platform.system()`` of the host.
    """
    in_build = [name for name in look.providers if name != "AzureExecutionProvider"]
    reports = [
        ProviderReport(name=name, in_build=True, usable=True)
        if name == "CPUExecutionProvider"
        else _tried(name, ask(python, "use", name, _USE_TIMEOUT_S))
        for name in in_build
    ]
    # onnxruntime-qnn became a plugin at 2.0 without changing its name, so plugins are known by not being builds.
    plugins = [
        wheel
        for wheel in look.wheels
        if wheel.name.startswith("onnxruntime-ep-") or (wheel.name == "onnxruntime-qnn" and not wheel.build)
    ]
    for wheel in plugins:
        answer = ask(python, "devices", wheel.name, _USE_TIMEOUT_S)
        reports.append(_plugged(f"{wheel.name} {wheel.version}", answer))
    named = {report.name for report in reports}
    absent = [name for name in KNOWN if name not in named]
    return (*reports, *(_absent(name, system) for name in absent))


def why_absent(name: str, system: str) -> str:
    """One sentence on how to get a provider that a build lacks.

    Args:
        name: The provider's full name.
        system: ``platform.system()`` of the host.
    """
    known = KNOWN.get(name)
    if known is None:
        return "not in this build"
    if not known.wheel:
        return f"not in this build, and in no wheel: {known.otherwise}"
    if system not in known.systems:
        places = " and ".join(_SYSTEM_NAMES.get(place, place) for place in known.systems)
        return f"not in this build: {places} only"
    plugin = f", or {known.plugin} beside a plain onnxruntime" if known.plugin else ""
    note = f" ({known.otherwise})" if known.otherwise else ""
    return f"not in this build: pip install {known.wheel} in an environment of its own{plugin}{note}"


def _absent(name: str, system: str) -> ProviderReport:
    return ProviderReport(name=name, in_build=False, usable=False, why=why_absent(name, system))


def _tried(name: str, answer: Answer) -> ProviderReport:
    if name in answer.session_providers:
        why = ""
        if answer.preloaded:
            why = f"only after onnxruntime.preload_dlls(): {_library(answer)}"
        return ProviderReport(name=name, in_build=True, usable=True, why=why)
    return ProviderReport(name=name, in_build=True, usable=False, why=_why_not(answer))


def _why_not(answer: Answer) -> str:
    if answer.missing or (answer.library_error and not answer.preloaded):
        return _library(answer)
    if answer.error:
        return _short(answer.error)
    if not answer.complete:
        return f"{answer.stage}: the process {answer.ended}"
    return _short(answer.log) if answer.log else "the session fell back to the CPU without a reason"


def _library(answer: Answer) -> str:
    """What is wrong with a shared library: that it is not there, else the loader's own words."""
    return f"shared library {answer.missing} is missing" if answer.missing else _short(answer.library_error)


def _plugged(wheel: str, answer: Answer) -> ProviderReport:
    name = answer.plugin_provider or wheel
    if answer.plugin_devices:
        offered = ", ".join(sorted(set(answer.plugin_devices)))
        return ProviderReport(name=name, in_build=False, usable=True, why=f"plugin {wheel}, for {offered}")
    reason = "no device of its kind here" if answer.complete and not answer.error else _why_not(answer)
    return ProviderReport(name=name, in_build=False, usable=False, why=f"plugin {wheel}: {reason}")


def _short(text: str, limit: int = 240) -> str:
    """One line of a library's message, without ONNX Runtime's prefixes of source file and log level."""
    line = re.sub(r"\x1b\[[\d;]*m", "", " ".join(text.split()))
    line = re.sub(r"^.*?\[E:onnxruntime:[^\]]*\]\s*", "", line)
    line = re.sub(r"\S*/onnxruntime/\S+?:\d+ ", "", line)
    return line if len(line) <= limit else line[: limit - 1] + "…"
