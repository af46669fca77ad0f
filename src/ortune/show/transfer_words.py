"""The time of a run that is transfer between host and device, and which times include the transfer, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortune.catalogue.providers import WEB_WEBGPU, find, short_name
from ortune.records import GpuRun, Plan, ProfileResult, Transfer
from ortune.show.memory_words import size
from ortune.show.numbers import duration, percent

_WAYS = {"to-device": "to the device", "to-host": "to the host", "on-device": "on the device"}
"""Maps the directions of copies to words."""
_VALUES = ("input", "output")


def rows(result: ProfileResult) -> list[tuple[str, str]]:
    """Return pairs of a name and a text on the transfer's share of a run and on the copies, as far as known."""
    named = [("transfer", split(result.gpu_run) if result.gpu_run else ""), ("copies", copies(result))]
    return [(name, text) for name, text in named if text]


def split(run: GpuRun) -> str:
    """Return a phrase on the transfer's share of a run, determined from runs with and without the transfer."""

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
    """Return a phrase on the traced copies to and from the device, with bytes and time; "" if there are none."""

    def told(row: Transfer) -> str:
        by = " by Memcpy nodes" if row.of_nodes else ""
        return f"{_WAYS[row.way]}{by} {size(round(row.bytes))} in {duration(row.time_ns)}"

    return ", ".join(map(told, result.transfers))


def included(plans: Iterable[Plan], splits: Mapping[str, GpuRun] | None = None) -> list[tuple[str, str]]:
    """Return a row for each device with its own memory on whether times include the transfer of inputs and outputs.

    Args:
        plans: Plans whose times are shown.
        splits: Maps provider names to the transfer with the provider's default settings.
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
