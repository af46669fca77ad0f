"""Tests whether a runtime can use an execution provider, with the reason if it cannot."""

from __future__ import annotations

import re
from pathlib import Path

from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import CPU, find
from ortune.records import ProviderReport, Runtime
from ortune.runtimes import libraries
from ortune.runtimes.elf import needed
from ortune.runtimes.local_support import lacking
from ortune.runtimes.probe import ProbeReport, missing_libraries, try_provider

NO_DEVICE = "no such device was found"


def provider_report(provider: str, runtime: Runtime) -> ProviderReport:
    """Test whether a provider in the build or in a plug-in wheel can be used.

    Every provider except the CPU's is tested by creating a session in a separate process, because only a session shows
    whether ONNX Runtime fell back.
    """
    in_build = provider in runtime.providers
    if provider == CPU.name:
        return ProviderReport(name=provider, in_build=in_build, usable=in_build)
    p = find(provider)
    answer = try_provider(runtime.python, provider, dict(p.needs))
    wheel = "" if in_build else runtime.plugins.get(provider, "")
    software = p.emulated_by(answer.devices)
    if provider in answer.session_providers:
        why = [
            *([f"plug-in {wheel}, for {', '.join(answer.devices or ())}"] if wheel else []),
            *([f"only after onnxruntime.preload_dlls(): {_library(answer)}"] if answer.preloaded else []),
            *(["its device is emulated on the CPU: correct outputs, meaningless times"] if software else []),
        ]
        return ProviderReport(
            name=provider, in_build=in_build, usable=True, why="; ".join(why), emulated=software
        )
    reason, do = _no_device(p, wheel) if answer.devices == () else _obstacle(answer, runtime.python)
    prefix = f"plug-in {wheel}: " if wheel else ""
    return ProviderReport(name=provider, in_build=in_build, usable=False, why=prefix + reason, do=do)


def _no_device(provider: Provider, wheel: str) -> tuple[str, str]:
    """Return the reason why a plug-in offers no device, and the command that installs a suitable build, or ""."""
    own = [build for build in provider.builds if build.wheel == wheel.partition(" ")[0]]
    why = next(filter(None, (lacking(provider, build) for build in own)), NO_DEVICE)
    others = [build for build in provider.builds if build not in own and not lacking(provider, build)]
    return why, f"ortune runtime add {provider.target}" if others else ""


def _obstacle(answer: ProbeReport, python: str) -> tuple[str, str]:
    """Return the reason why a session does not get a provider, and the command that fixes the problem, or ""."""
    if answer.library and answer.library_error and not answer.preloaded:
        linked = needed(Path(answer.library))
        why, do = libraries.lacking(linked, missing_libraries(python, linked), python)
        if why:
            return why, do
    if answer.missing or (answer.library_error and not answer.preloaded):
        return _library(answer), ""
    if answer.error:
        return _short(answer.error), ""
    if not answer.complete:
        return f"{answer.stage}: the process {answer.ended}", ""
    return _short(
        answer.log
    ) if answer.log else "the session fell back to the CPU, and ONNX Runtime gave no reason", ""


def _library(answer: ProbeReport) -> str:
    """Return a message that a shared library is missing, or the loader's message about it."""
    return f"shared library {answer.missing} is missing" if answer.missing else _short(answer.library_error)


def _short(text: str, limit: int = 240) -> str:
    """Return one line of a library's message, without ONNX Runtime's prefixes of source file and log level."""
    line = re.sub(r"\x1b\[[\d;]*m", "", " ".join(text.split()))
    line = re.sub(r"^.*?\[E:onnxruntime:[^\]]*\]\s*", "", line)
    line = re.sub(r"\S*/onnxruntime/\S+?:\d+ ", "", line)
    return line if len(line) <= limit else line[: limit - 1] + "…"
