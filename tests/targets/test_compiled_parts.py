"""Parts that a provider compiled, saved in a model: what is written, that it runs, and who can do neither."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from target_trials import FEED, WEIGHT, Trials, measured, model

from ortune import rewrites, targets
from ortune.graph.model.open import open_model
from ortune.inputs.value_files import read_index
from ortune.measuring.rewriting import ModelVariants
from ortune.records import Plan, Runtime
from ortune.targets.tool import ToolFailed, ToolProcess
from targets_here import usable

SPEC = rewrites.parse("compiled-parts")


@pytest.mark.xdist_group("target qnn")
def test_compiled_parts_run_as_what_they_were_made_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = targets.find("qnn")
    runtime = usable(target)
    source = open_model(model(tmp_path / "m.onnx"))
    tool = ToolProcess(runtime=runtime, folder=tmp_path, plan=Plan(providers=target.providers))
    made = rewrites.rewrite_model(source, [SPEC], tmp_path / "made", tool)
    (step,) = made.steps
    assert step.result.what.startswith("Saved the parts that QNNExecutionProvider compiled in ")
    assert made.hardware_bound
    written = open_model(made.path)
    assert written.op_counts["com.microsoft.EPContext"] == 1
    assert not written.op_counts["MatMul"]
    trials = Trials(tmp_path, target, runtime)
    outcome = measured(*trials.run(trials.task("compiled", made.path, watched=True)))
    (found,) = read_index(Path(outcome.outputs_path) / "all", "outputs")
    np.testing.assert_allclose(np.load(found.files[0]), np.maximum(FEED @ WEIGHT, 0), rtol=1e-3, atol=1e-3)
    assert not caplog.records  # the code in the node is no text, which is nothing to warn of
    again = rewrites.rewrite_model(written, [SPEC], tmp_path / "again", tool)
    assert not again.modified and "already contains compiled parts" in again.steps[0].result.reasons[0]


def test_the_cpu_provider_compiles_no_parts(tmp_path: Path) -> None:
    tool = ToolProcess(runtime=Runtime(python=sys.executable), folder=tmp_path)
    with pytest.raises(ToolFailed, match="saved no compiled part"):
        rewrites.rewrite_model(open_model(model(tmp_path / "m.onnx")), [SPEC], tmp_path / "made", tool)


def test_they_are_tried_where_starting_counts_and_a_provider_saves_them(tmp_path: Path) -> None:
    graph = open_model(model(tmp_path / "m.onnx")).ir
    tried = {
        target
        for target in targets.all_targets()
        if SPEC in [spec for spec, _ in rewrites.proposals(graph, objective="cold-start", target=target)]
    }
    assert tried == {"openvino", "qnn", "tensorrt-rtx"}
    assert SPEC not in [spec for spec, _ in rewrites.proposals(graph, objective="latency", target="qnn")]


def test_plans_share_them_only_with_the_same_options_of_the_same_provider() -> None:
    plan = Plan(rewrites=(SPEC,), providers=targets.find("openvino").providers)
    one_thread = msgspec.structs.replace(plan, settings={"openvino_threads": 1})
    fed_otherwise = msgspec.structs.replace(plan, settings={"call_style": "io_binding"})
    elsewhere = msgspec.structs.replace(plan, providers=targets.find("qnn").providers)
    assert ModelVariants.key(plan) == ModelVariants.key(fed_otherwise)
    assert len({ModelVariants.key(plan), ModelVariants.key(one_thread), ModelVariants.key(elsewhere)}) == 3
    others = [msgspec.structs.replace(p, rewrites=(rewrites.parse("gelu"),)) for p in (plan, elsewhere)]
    assert len({ModelVariants.key(p) for p in others}) == 1
