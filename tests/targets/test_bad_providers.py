"""What a provider cannot do is a ``Failed`` trial, and the others of its block go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from target_trials import FEED, WEIGHT, Trials, measured, model

from facts import facts
from ortune import targets
from ortune.catalogue import knobs
from ortune.inputs.feed_files import write_feeds
from ortune.inputs.value_files import read_index
from ortune.measuring import failures
from ortune.platform import host
from ortune.records import Failed, FeedRef, Plan, ProviderSpec, Value
from ortune.targets.ignored import ignored
from targets_here import discovered, usable


@pytest.mark.xdist_group("target webgpu")
def test_a_value_that_the_provider_refuses_costs_the_others_nothing(tmp_path: Path) -> None:
    target = targets.find("webgpu")
    runtime = usable(target)
    trials = Trials(tmp_path, target, runtime)
    path = model(tmp_path / "m.onnx")
    # WebGPU refuses so many kernels at once; the knob's own limit is the provider's, so the trial goes around it.
    bad = trials.task("bad", path, {"webgpu_pending_dispatches": 100_000})
    failed, good = trials.run(bad, trials.task("good", path))
    assert isinstance(failed, Failed)
    facts(failed.what, "EPFail: maxNumPendingDispatches", "4096")
    facts(failures.remedy(failed), "omit the options", "execution provider")
    measured(good)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xdist_group(f"target {name}"))
        for name in ("openvino", "qnn", "webgpu")
    ],
)
def test_an_option_that_the_build_does_not_know_is_a_failure(name: str, tmp_path: Path) -> None:
    """Plug-ins take any option without a word, so that their libraries are searched for its name."""
    target = targets.find(name)
    runtime = usable(target)
    trials = Trials(tmp_path, target, runtime)
    good = trials.task("good", model(tmp_path / "m.onnx"))
    options = {**dict(target.provider.needs), "no_such_option": "1"}
    bad = trials.task("bad", tmp_path / "m.onnx")
    bad = replace(bad, plan=Plan(providers=(ProviderSpec(name=target.provider.name, options=options),)))
    failed, other = trials.run(bad, good)
    assert isinstance(failed, Failed) and failed.reason == "unknown-key"
    assert failed.what.endswith("the option 'no_such_option'")
    measured(other)


@pytest.mark.xdist_group("target openvino")
def test_an_option_that_the_log_says_is_ignored_is_a_failure_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    target = targets.find("openvino")
    runtime, report = discovered(target)
    if runtime is None or not report.usable or target.provider.name not in runtime.plugins:
        pytest.skip(report.why or "a whole build applies the option")
    trials = Trials(tmp_path, target, runtime)
    good = trials.task("good", model(tmp_path / "m.onnx"))
    bad = trials.task("bad", tmp_path / "m.onnx")
    options = {"num_streams": "2"}  # which the plug-in takes as NUM_STREAMS of load_config alone
    bad = replace(bad, plan=Plan(providers=(ProviderSpec(name=target.provider.name, options=options),)))
    failed, other = trials.run(bad, good)
    assert isinstance(failed, Failed) and failed.reason == "not-applied"
    facts(failed.what, "num_streams=2 was not applied", "ignored", "NUM_STREAMS")
    facts(failures.remedy(failed), "another value")
    measured(other)


@pytest.mark.xdist_group("target openvino")
def test_a_number_type_that_the_processor_lacks_is_a_failure(tmp_path: Path) -> None:
    """OpenVINO would compute in another one without a word."""
    target = targets.find("openvino")
    trials = Trials(tmp_path, target, usable(target))
    path = model(tmp_path / "m.onnx")
    if not knobs.without_instructions({"openvino_precision": "f16"}, host().features):
        pytest.skip("this processor computes in float16")
    failed, good = trials.run(
        trials.task("f16", path, {"openvino_precision": "f16"}),
        trials.task("f32", path, {"openvino_precision": "f32"}),
    )
    assert isinstance(failed, Failed) and failed.reason == "not-applied"
    facts(failed.what, "openvino_precision=f16", "avx512_fp16", "this processor lacks")
    measured(good)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "\x1b[0;93m2026-11-27 02:58:56 [W:onnxruntime:Default, openvino_provider_factory.cc:358 ParseProviderInfo] "
            "[OpenVINO-EP] The value for the key 'num_streams' should be in the range of 1-8.",
            "streams was not applied: [OpenVINO-EP] The value for the key 'num_streams' should be in the range of 1-8.",
        ),
        (
            "\x1b[0;93m2026-11-27 02:58:51.2 [W:onnxruntime:, ov_plugin_options.cc:180 ParseProviderOptions] Provider "
            'option num_streams is ignored. Please set it via the load_config as: "NUM_STREAMS": "1"\x1b[m',
            "streams was not applied: Provider option num_streams is ignored. Please set it via the load_config as: "
            '"NUM_STREAMS": "1"',
        ),
        (
            "2026-11-27 02:58:56 [W:onnxruntime:Default, openvino_provider_factory.cc:247 ParseProviderInfo] "
            "[OpenVINO] The options 'device_id' is deprecated. Upgrade to set deice_type and precision options.",
            "",
        ),
        ("num_streams is ignored, says something else than ONNX Runtime", ""),
    ],
)
def test_what_the_log_says_of_an_option_is_read(line: str, said: str) -> None:
    options = {"load_config": "config", "device_id": "device", "num_streams": "streams"}
    assert ignored(["a line before", line], options) == said


@pytest.mark.xdist_group("target webgpu")
def test_a_captured_graph_answers_changed_inputs(tmp_path: Path) -> None:
    """Three feeds take turns in one session: each but the first is a replay of what another one recorded."""
    target = targets.find("webgpu")
    runtime = usable(target)
    trials = Trials(tmp_path, target, runtime)
    settings: dict[str, Value] = {"webgpu_graph_capture": "1", "call_style": "device_binding"}
    task = trials.task("a", model(tmp_path / "m.onnx"), settings, watched=True)
    feeds = {name: factor * FEED for name, factor in (("all", 1), ("minus", -1), ("thrice", 3))}
    for name, feed in feeds.items():
        write_feeds(tmp_path / name, {"x": feed})
    refs = tuple(FeedRef(name=name, path=str(tmp_path / name)) for name in feeds)
    changed = replace(task, request=msgspec.structs.replace(task.request, feeds=refs))
    outcome = measured(*trials.run(changed))
    assert {item.knob: item.ok for item in outcome.done.read_back} == dict.fromkeys(settings, True)
    for name, feed in feeds.items():
        (output,) = read_index(Path(outcome.outputs_path) / name, "outputs")
        np.testing.assert_allclose(
            np.load(output.files[0]), np.maximum(feed @ WEIGHT, 0), rtol=1e-3, atol=1e-3
        )


@pytest.mark.xdist_group("target qnn")
def test_a_device_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    target = targets.find("qnn")
    runtime = usable(target)
    trials = Trials(tmp_path, target, runtime)
    path = model(tmp_path / "m.onnx")
    failed, good = trials.run(
        trials.task("gpu", path, {"qnn_backend": "gpu"}), trials.task("npu", path, {"qnn_backend": "htp"})
    )
    assert isinstance(failed, Failed) and failed.reason == "not-applied"
    assert "took none" in failed.what
    measured(good)
