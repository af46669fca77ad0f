"""What transfer takes of a run, and whether times contain it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from facts import facts
from ortune.records import GpuRun, Plan, ProviderSpec, Value
from ortune.show import transfer_words

RUN = GpuRun(whole_ns=31e6, fed_ns=20e6, device_ns=13e6, input_bytes=1 << 20, output_bytes=4096, n_runs=9)


def on(provider: str, settings: Mapping[str, Value] = {}) -> Plan:
    return Plan(providers=(ProviderSpec(name=provider),), settings=dict(settings))


def test_transfer_and_compute_are_told_apart() -> None:
    facts(
        transfer_words.split(RUN),
        "18.0 ms of 31.0 ms (58 %) is transfer",
        "upload 11.0 ms (1 MiB)",
        "read-back 7.00 ms (4 KiB)",
        "13.0 ms with inputs and outputs on the device",
        "9 runs",
    )


def test_transfer_that_is_lost_in_noise_is_no_negative_time() -> None:
    lost = GpuRun(whole_ns=10e6, fed_ns=11e6, device_ns=12e6, input_bytes=4, output_bytes=4, n_runs=3)
    facts(transfer_words.split(lost), "0 ns of 10.0 ms (0 %)", "upload too small", "read-back too small")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (on("CUDAExecutionProvider"), ("times on CUDA include the transfer", "ortune profile separates it")),
        (on("CUDAExecutionProvider", {"call_style": "device_binding"}), ("include",)),
        (on("CUDAExecutionProvider", {"call_style": "device_resident"}), ("exclude inputs and outputs",)),
        (on("webgpu"), ("include", "ortune profile separates it")),
        (on("webgpu", {"web_output_location": "gpu-buffer"}), ("exclude outputs, which stay",)),
        (on("OpenVINOExecutionProvider", {"openvino_device": "gpu"}), ("times on OpenVINO include",)),
        (on("QNNExecutionProvider"), ("times on QNN include",)),
    ],
    ids=lambda value: value.describe() if isinstance(value, Plan) else "",
)
def test_times_of_a_device_say_whether_they_contain_transfer(plan: Plan, words: tuple[str, ...]) -> None:
    ((name, text),) = transfer_words.included([Plan(), plan, plan])
    assert name == "transfer"
    facts(text, *words)


@pytest.mark.parametrize("plan", [Plan(), on("OpenVINOExecutionProvider"), on("wasm")])
def test_there_is_nothing_to_transfer_on_the_cpu(plan: Plan) -> None:
    assert transfer_words.included([plan]) == []
