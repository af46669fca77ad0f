"""Whether a runtime can use an execution provider that it has, or why not."""

from __future__ import annotations

import re

from ortune.fleet.probe import Answer, Wheel, ask
from ortune.providers import CPU
from ortune.records import ProviderReport, Runtime

_USE_TIMEOUT_S = 60.0


def in_build(provider: str, runtime: Runtime) -> ProviderReport:
    """Whether a provider that is in the build can be used.

    Each, other than the CPU's, is tried by creating a session in a process of its own, for only the session tells
    whether ONNX Runtime fell back.
    """
    if provider == CPU.name:
        return ProviderReport(name=provider, in_build=True, usable=True)
    return _tried(provider, ask(runtime.python, "use", provider, _USE_TIMEOUT_S))


def plugged(runtime: Runtime, wheels: tuple[Wheel, ...]) -> list[ProviderReport]:
    """The providers that plugin wheels add to a runtime."""
    # onnxruntime-qnn became a plugin at 2.0 without changing its name, so plugins are known by not being builds.
    return [
        _plugged(f"{wheel.name} {wheel.version}", ask(runtime.python, "devices", wheel.name, _USE_TIMEOUT_S))
        for wheel in wheels
        if wheel.name.startswith("onnxruntime-ep-") or (wheel.name == "onnxruntime-qnn" and not wheel.build)
    ]


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
