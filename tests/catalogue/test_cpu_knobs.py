"""What CPU settings really do in a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from facts import facts
from knob_models import transformer_block
from ortune.catalogue import knobs
from ortune.catalogue.computed.disabled_optimizers import OPTIMIZERS
from ortune.catalogue.knobs import Knob
from ortune.inputs import feed_files
from ortune.measuring.executor import Arm, Executor, Timing
from ortune.records import (
    Case,
    Failed,
    FeedRef,
    InputChoice,
    Measured,
    Outcome,
    Plan,
    Runtime,
    Value,
    Workload,
)
from ortune.store.db import SessionLog
from ortune.targets import requests
from ortune.targets.archive import environment
from ortune.targets.machine import Machine

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Bench:
    """Trials of one model: a residual block that fusions act on."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        self.version = onnxruntime.__version__
        choice = InputChoice(name="x", dtype="float", shape=(1, 16, 32))
        workload = Workload(cases=(Case(name="all", inputs=(choice,)),))
        self.executor = Executor({}, workload, folder, SessionLog(None, ""), Machine())
        self.executor.timing = Timing(runs=3, warmup_runs=1, warmup_ns=0)
        self.model = folder / "m.onnx"
        onnx.save(transformer_block(), self.model)
        feed_files.write_feeds(folder / "feeds", {"x": np.ones((1, 16, 32), np.float32)})
        self.feeds = (FeedRef(name="all", path=str(folder / "feeds")),)

    def run(self, ort_version: str | None = None, **settings: Value) -> Outcome:
        runtime = Runtime(
            python=sys.executable, ort_version=self.version if ort_version is None else ort_version
        )
        arm = Arm(
            name="new", plan=Plan(settings=settings), model=self.model, runtime=runtime, feeds=self.feeds
        )
        return self.executor.trial(arm)

    def levels(self, **settings: Value) -> dict[str, tuple[str, str]]:
        """(level, what was seen) of every setting; all must have arrived."""
        outcome = self.run(**settings)
        assert isinstance(outcome, Measured), outcome
        assert all(item.ok for item in outcome.done.read_back)
        return {item.knob: (item.level, item.seen) for item in outcome.done.read_back}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


def settable(knob: Knob, group: list[Knob]) -> bool:
    """Whether the knob can join the group in one process."""
    return not any(other.name in knob.conflicts for other in group)


def test_settings_arrive_together(bench: Bench) -> None:
    """Every setting that ORT or the process can echo, in as few processes as their conflicts allow."""
    left = [k for k in knobs.all_knobs().values() if k.kind != "text" and k.channel != "preload"]
    left = [k for k in left if not (k.provider or k.is_only_in_browsers)]
    left = [k for k in left if knobs.why_too_old(k, bench.version) == ""]
    left = [
        k for k in left if k.probe != "rows"
    ]  # this model has no batch; tests/worker/test_rows.py has one
    processes = 0
    while left:
        group: list[Knob] = []
        for knob in left:
            if settable(knob, group):
                group.append(knob)
        left = [knob for knob in left if knob not in group]
        found = bench.levels(**{knob.name: other_than_default(knob) for knob in group})
        assert set(found) == {knob.name for knob in group}
        assert {name for name, (level, _) in found.items() if level == "none"} <= {"call_style"}
        processes += 1
    assert processes >= 2


def other_than_default(knob: Knob) -> Value:
    """A value to tell from the default, by the knob's own description."""
    if knob.kind == "bool":
        return not knob.default.startswith("on")
    if knob.kind == "int":
        return max(2, knob.minimum or 0)
    return next(choice for choice in knob.choices if choice != knob.default)


@LINUX
def test_threads_of_both_pools_are_counted(bench: Bench) -> None:
    found = bench.levels(intra_op_num_threads=3, inter_op_num_threads=4, execution_mode="parallel")
    assert found["intra_op_num_threads"][0] == "effect"
    assert found["intra_op_num_threads"][1].startswith("5 threads ")
    assert found["inter_op_num_threads"][0] == "effect"


@LINUX
def test_inter_op_threads_mean_nothing_in_sequential_mode(bench: Bench) -> None:
    found = bench.levels(intra_op_num_threads=2, inter_op_num_threads=4)
    assert found["intra_op_num_threads"] == ("effect", "1 thread added")
    assert found["inter_op_num_threads"][0] == "echo"


@LINUX
def test_the_global_pool_serves_the_session(bench: Bench) -> None:
    level, evidence = bench.levels(global_thread_pool=4)["global_thread_pool"]
    assert level == "effect"
    facts(evidence, "3 threads", "0 added")


@LINUX
def test_the_variable_sizes_the_pool(bench: Bench) -> None:
    assert bench.levels(ort_intra_op_num_threads=3)["ort_intra_op_num_threads"] == (
        "effect",
        "2 threads added",
    )


@LINUX
def test_threads_are_tied_to_cpus(bench: Bench) -> None:
    cpu = min(os.sched_getaffinity(0))
    found = bench.levels(intra_op_num_threads=2, intra_op_thread_affinities=str(cpu + 1))
    assert found["intra_op_thread_affinities"][0] == "effect"
    assert str(cpu) in found["intra_op_thread_affinities"][1].split(": ")[1].split(";")


@LINUX
def test_affinity_to_a_cpu_that_is_not_there_fails(bench: Bench) -> None:
    nowhere = bench.run(process_affinity="9999")
    assert isinstance(nowhere, Failed)
    assert nowhere.reason == "not-applied"
    assert "9999" in nowhere.what
    threads = bench.run(intra_op_num_threads=2, intra_op_thread_affinities="9999")
    assert isinstance(threads, Failed)


@LINUX
def test_huge_pages_are_there(bench: Bench) -> None:
    mode = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not mode.exists() or "[never]" in mode.read_text():
        pytest.skip("this system gives no huge pages")
    level, seen = bench.levels(malloc_huge_pages="thp")["malloc_huge_pages"]
    assert level == "effect"
    assert seen != "AnonHugePages 0 kB"
    assert bench.levels(transparent_huge_pages="never")["transparent_huge_pages"] == (
        "effect",
        "THP_enabled 0",
    )


def test_denormals_are_flushed_or_kept(bench: Bench) -> None:
    assert bench.levels(set_denormal_as_zero=True)["set_denormal_as_zero"] == ("effect", "denormals flushed")
    assert bench.levels(set_denormal_as_zero=False)["set_denormal_as_zero"] == ("effect", "denormals kept")


def test_several_optimisers_are_left_out(bench: Bench) -> None:
    names = "SkipLayerNormFusion;TransposeOptimizer;TransposeOptimizer_CPUExecutionProvider"
    assert bench.levels(disabled_optimizers=names)["disabled_optimizers"] == ("echo", names)


@pytest.mark.parametrize(
    "names", ["NoSuchFusion", "SkipLayerNormFusion,MatMulAddFusion", "SkipLayerNormFusion;", "1"]
)
def test_an_unknown_optimiser_is_refused(bench: Bench, names: str) -> None:
    outcome = bench.run(disabled_optimizers=names)
    assert isinstance(outcome, Failed)
    assert outcome.reason == "unknown-key"
    assert "separated by ';'" in outcome.what


def test_every_optimiser_on_the_list_exists_and_is_left_out(bench: Bench, tmp_path: Path) -> None:
    """ORT must know all names; and the config key must do what it says."""
    everything = ";".join(dict.fromkeys(n for o in OPTIMIZERS for n in o.setting(bench.version).split(";")))
    assert bench.levels(disabled_optimizers=everything)
    import onnxruntime

    def operators(left_out: str) -> set[str]:
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
        options.log_severity_level = 3
        options.add_session_config_entry("optimization.disable_specified_optimizers", left_out)
        onnxruntime.InferenceSession(bench.model, options, providers=["CPUExecutionProvider"])
        return {node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node}

    assert {"SkipLayerNormalization", "Gelu"} <= operators("")
    assert "LayerNormalization" in operators("SkipLayerNormFusion")
    assert "Erf" in operators("GeluFusionL1;GeluFusionL2")
    assert not {"SkipLayerNormalization", "Gelu", "BiasGelu", "FusedMatMul"} & operators(everything)


def test_an_older_runtime_is_told(bench: Bench) -> None:
    outcome = bench.run("1.25.1", spin_duration_us=200)
    assert isinstance(outcome, Failed)
    assert outcome.reason == "unsupported"
    assert outcome.what == "spin_duration_us needs onnxruntime 1.26; this is 1.25.1"


def test_on_and_off_travel_as_digits() -> None:
    plan = Plan(settings={"disable_flash_attention": True, "set_denormal_as_zero": False})
    sent = requests.applied(plan, Runtime(python="python", ort_version="1.31.1"))
    assert {item.knob: item.value for item in sent} == {
        "disable_flash_attention": 1,
        "set_denormal_as_zero": 0,
    }
    assert environment(sent)["ORT_DISABLE_FLASH_ATTENTION"] == "1"
