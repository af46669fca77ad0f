"""Providers from wheels of their own: which of their devices is taken, and what is no such wheel."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from ortune.catalogue import providers
from ortune.worker import plugins


def device(provider: str, kind: str, own: str = "") -> SimpleNamespace:
    """One as ONNX Runtime lists it."""
    metadata = {"ov_device": own} if own else {}
    return SimpleNamespace(
        ep_name=provider, ep_metadata=metadata, device=SimpleNamespace(type=SimpleNamespace(name=kind))
    )


INTEL = [
    device("OpenVINOExecutionProvider", kind, own)
    for kind, own in (("GPU", "GPU.0"), ("CPU", "CPU"), ("NPU", "NPU"))
]
WEBGPU = [device("WebGpuExecutionProvider", kind) for kind in ("CPU", "GPU")]


@pytest.mark.parametrize(
    ("offered", "wanted", "taken"),
    [
        (INTEL, "", "CPU"), (INTEL, "NPU", "NPU"), (INTEL, "GPU.0", "GPU"), (WEBGPU, "", "GPU"),
        (WEBGPU[:1], "", "CPU"), (WEBGPU, "CPU", "CPU"),
    ],
)  # fmt: skip
def test_the_device_is_the_one_named_or_the_usual_one(
    offered: list[SimpleNamespace], wanted: str, taken: str
) -> None:
    assert plugins._device(offered, "a-wheel 1", wanted).device.type.name == taken


def test_a_device_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(plugins.Unusable, match="a-wheel 1 found no device NPU: CPU, GPU"):
        plugins._device(WEBGPU, "a-wheel 1", "NPU")
    with pytest.raises(plugins.Unusable, match="found no device"):
        plugins._device([], "a-wheel 1", "")


def test_it_keeps_to_python_3_8() -> None:
    ast.parse(Path(plugins.__file__).read_text(), feature_version=(3, 8))


def test_a_plan_without_a_device_takes_the_same_one_in_the_worker_and_in_pasted_code() -> None:
    assert {p.name: p.device for p in providers.providers_with(lambda p: p.device)} == plugins.USUAL_DEVICE
