"""What transfer between host and device takes of a run, and which times contain it, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortune.catalogue.providers import WEB_WEBGPU, find, short
from ortune.records import GpuRun, Plan, ProfileResult, Transfer
from ortune.show.memory_words import size
from ortune.show.numbers import duration, percent

_WAYS = {"to-device": "to the device", "to-host": "to the host", "on-device": "on the device"}
"""Copies, by where they go."""
_VALUES = ("input", "output")


def rows(result: ProfileResult) -> list[tuple[str, str]]:
    """Return what a profile knows of it, each with its name."""
    named = [("transfer", split(result.gpu_run) if result.gpu_run else ""), ("copies", copies(result))]
    return [(name, text) for name, text in named if text]


def split(run: GpuRun) -> str:
    """Transfer apart from the rest of a run, as runs without it show."""

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
    """Copies to and from the device as the trace has them, with their bytes."""

    def told(row: Transfer) -> str:
        by = " by Memcpy nodes" if row.of_nodes else ""
        return f"{_WAYS[row.way]}{by} {size(round(row.bytes))} in {duration(row.time_ns)}"

    return ", ".join(map(told, result.transfers))


def included(plans: Iterable[Plan], splits: Mapping[str, GpuRun] | None = None) -> list[tuple[str, str]]:
    """Says of each device with memory of its own whether times contain the transfer of inputs and outputs.

    Args:
        plans: Whose times are shown.
        splits: How much it is with a provider's defaults, by its name.
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
        return (
            f"times on {short(provider.name)} exclude {which}, which stay on the device ({plan.describe()})"
        )
    apart = "; ortune profile separates it" if provider.memory or provider == WEB_WEBGPU else ""
    apart = f"; with its defaults, {split(run)}" if run else apart
    return f"times on {short(provider.name)} include the transfer of inputs and outputs{apart}"
