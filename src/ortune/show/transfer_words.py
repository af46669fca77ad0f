"""The share of a run for transfer between host and device, and which times include it, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortune.catalogue.providers import WEB_WEBGPU, find, short_name
from ortune.records import GpuRun, Plan, ProfileResult, Transfer
from ortune.show.memory_words import size
from ortune.show.numbers import duration, percent

_WAYS = {"to-device": "to the device", "to-host": "to the host", "on-device": "on the device"}
"""Directions of copies, in words."""
_VALUES = ("input", "output")


def rows(result: ProfileResult) -> list[tuple[str, str]]:
    """Return name and text of the transfer's share of a run and of the copies; only those that are known."""
    named = [("transfer", split(result.gpu_run) if result.gpu_run else ""), ("copies", copies(result))]
    return [(name, text) for name, text in named if text]


def split(run: GpuRun) -> str:
    """Return the transfer's share of a run, from runs with and without it."""

    def part(name: str, ns: float, n_bytes: int) -> str:
        time = duration(ns) if ns > 0 else "too small to measure"
        return f"{name} {time} ({size(n_bytes)})"

    doubt = "; functional only: the GPU is emulated" if run.software else ""
    basis = "one run each" if run.n_runs == 1 else f"medians of {run.n_runs} runs each"
    return (
        f"{duration(run.transfer_ns)} of {duration(run.whole_ns)} "
        f"({percent(run.transfer_ns / run.whole_ns, 0)}) is transfer: "
        f"{part('upload', run.upload_ns, run.input_bytes)}, "
        f"{part('read-back', run.read_back_ns, run.output_bytes)}; {duration(run.device_ns)} with inputs and outputs "
        f"on the device ({basis}, alternating, without the profiler{doubt})"
    )


def copies(result: ProfileResult) -> str:
    """Return the copies to and from the device with bytes and time, from the trace; "" if there are none."""

    def told(row: Transfer) -> str:
        by = " by Memcpy nodes" if row.of_nodes else ""
        return f"{_WAYS[row.way]}{by} {size(round(row.bytes))} in {duration(row.time_ns)}"

    return ", ".join(map(told, result.transfers))


def included(plans: Iterable[Plan], splits: Mapping[str, GpuRun] | None = None) -> list[tuple[str, str]]:
    """Return, for each device with its own memory, whether times include the transfer of inputs and outputs.

    Args:
        plans: Plans whose times are shown.
        splits: Transfer with a provider's defaults, by the provider's name.
    """
    texts = (_included(plan, (splits or {}).get(plan.provider_names[0])) for plan in plans)
    return [("transfer", text) for text in dict.fromkeys(texts) if text]


def _included(plan: Plan, run: GpuRun | None) -> str:
    provider, settings = find(plan.provider_names[0]), plan.settings
    if provider.hardware not in ("gpu", "npu") and settings.get("openvino_device", "cpu") == "cpu":
        return ""
    stays = [values for values in _VALUES if settings.get(f"web_{values}_location", "cpu") != "cpu"]
    if settings.get("call_style") == "device_resident":
        stays = [*_VALUES]
    if stays:
        which = " and ".join(f"{values}s" for values in stays)
        return f"times on {short_name(provider.name)} exclude {which}, which stay on the device ({plan.describe()})"
    apart = "; ortune profile separates it" if provider.memory or provider == WEB_WEBGPU else ""
    apart = f"; with its defaults, {split(run)}" if run else apart
    return f"times on {short_name(provider.name)} include the transfer of inputs and outputs{apart}"
