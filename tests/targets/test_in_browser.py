"""Verbs with a browser: real Chromium, real onnxruntime-web; outputs, placement, and what is never claimed."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ortune
from chromium import hardly_warm
from onnx_text import assemble
from ortune import targets
from ortune.errors import UsageError
from ortune.experiment import in_browsers
from ortune.experiment.baseline import Baseline
from ortune.inputs.feed_files import write_feeds
from ortune.options.quantities import bits_a_second
from ortune.profiling import peaks
from ortune.records import (
    CompareResult,
    FeedRef,
    Measured,
    Plan,
    ProfileResult,
    ProviderSpec,
    Runtime,
    TrialRequest,
    TuneResult,
    Value,
)
from ortune.report import profile_words
from ortune.store.db import SessionLog
from ortune.targets.browser.page_report import fallbacks_of, placement_of
from ortune.targets.browser.setup import VERSION, BrowserSetup
from ortune.targets.browser.site import Request
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import Task
from ortune.targets.turns import Turns
from ortune.trials.input_options import InputOptions
from ortune.trials.sides import SideText, resolve
from ortune.verbs.compare import Options

RNG = np.random.default_rng(3)


def net(path: Path) -> Path:
    """Mul, Relu, Shrink (which WebGPU has no kernel for), Add: software compiles shaders of more for seconds."""
    weights = [RNG.standard_normal((8, 16, 16)).astype(np.float32) for _ in range(2)]
    nodes = [
        helper.make_node("Mul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("Shrink", ["b"], ["c"], name="shrink", lambd=0.1),
        helper.make_node("Add", ["c", "w1"], ["y"], name="last"),
    ]
    onnx.save(
        assemble(
            nodes,
            "float[1,8,16,16] x",
            "float[1,8,16,16] y",
            [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
            opset=13,
        ),
        path,
    )
    return path


def inputs(folder: Path) -> str:
    """Real inputs, so that no page asks what invented ones would take; a tuning does."""
    np.savez(folder / "x.npz", x=RNG.standard_normal((1, 8, 16, 16)).astype(np.float32))
    return str(folder / "x.npz")


def needs(name: str) -> None:
    report = targets.find(name).discover(Runtime(python=""))
    if not report.usable:
        pytest.skip(f"NOT TESTED HERE: {name}: {report.why}")


@pytest.mark.xdist_group("browser")
def test_a_page_is_held_against_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hardly_warm(monkeypatch)
    needs("web-wasm")
    envelope = ortune.compare(
        net(tmp_path / "m.onnx"),
        inputs=inputs(tmp_path),
        b_target="web-wasm",
        b_set=["web_threads=1"],
        budget=1,
        store=tmp_path / "st",
    )
    result = envelope.result
    assert isinstance(result, CompareResult)
    assert result.outputs.ok and result.comparison is not None
    assert {(r.knob, r.level, r.ok) for r in result.read_back} == {("web_threads", "echo", True)}


@pytest.mark.xdist_group("browser")
def test_a_gpu_that_is_software_is_never_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hardly_warm(monkeypatch)
    needs("web-webgpu")
    envelope = ortune.compare(
        net(tmp_path / "m.onnx"),
        inputs=inputs(tmp_path),
        b_target="web-webgpu",
        b_set=["web_build=asyncify"],
        budget=90,
        store=tmp_path / "st",
    )
    result = envelope.result
    assert isinstance(result, CompareResult)
    assert result.outputs.ok
    software = [finding for finding in result.findings if finding.code == "MSR006"]
    assert (envelope.verdict == "functional-only") == bool(software)
    assert any("no kernel for Shrink shrink" in note for note in result.notes)
    # Where the machine is too busy for a profile, that is said in its place.
    told = ("kernels per run on the GPU: B ", "kernels of B were not counted: ")
    assert any(note.startswith(told) for note in result.notes) == bool(software)


def baseline_in_a_page(folder: Path) -> Baseline:
    """Of the net, on WebAssembly."""
    plan = Plan(providers=(ProviderSpec(name="wasm"),))
    side = resolve(SideText(text=str(net(folder / "m.onnx"))), common=plan, scratch=folder)
    return Baseline(side, InputOptions(), folder, SessionLog(None, ""), print, Machine())


@pytest.mark.xdist_group("browser")
def test_tuning_in_a_browser_is_held_against_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-wasm")
    # Too little to confirm a plan, and on many machines to try every place.
    result = ortune.tune(
        net(tmp_path / "m.onnx"), target="web", budget=10, bundle=False, store=tmp_path / "st"
    ).result
    assert isinstance(result, TuneResult)
    assert result.default == Plan(providers=(ProviderSpec(name="wasm"),))
    assert all(c.plan.provider_names == ("wasm",) for c in result.candidates)
    assert result.default_figures is not None and (result.default_figures.peak_bytes or 0) > 100 << 20
    assert result.ort_web == VERSION
    # All that the browser offers, in one table: WebGL has no Shrink, and a GPU that is software is never raced.
    places = {place.target: place for place in result.places}
    assert list(places) == ["web-wasm", "web-webgl", "web-webgpu", "web-webnn"]
    assert not result.changes
    # Plans took turns with the default there only where the time left showed at least one of them.
    assert places["web-wasm"].state == ("raced" if result.budget.exploratory else "timed")
    # What the budget does not hold is not tried; what each place gives where it does is another test's.
    webgl, gpu = places["web-webgl"], places["web-webgpu"]
    assert webgl.state == "not-tried" or (webgl.state == "failed" and "Shrink" in webgl.why)
    assert gpu.state == "not-tried" or gpu.why or (gpu.outputs is not None and gpu.outputs.ok)
    assert places["web-webnn"].state != "absent" or "WebNN" in places["web-webnn"].why
    with pytest.raises(UsageError, match="only ortune tune accepts it"):
        ortune.compare(tmp_path / "m.onnx", target="web", store=tmp_path / "st")


@pytest.mark.xdist_group("browser")
def test_what_else_a_browser_offers_is_tried_as_long_as_there_is_time(tmp_path: Path) -> None:
    needs("web-wasm")
    needs("web-webgl")
    baseline = baseline_in_a_page(tmp_path)
    for time_s, told, races in ((0.0, "", False), (0.05, "no result in 0 s", True)):
        places = {place.target: place for place in in_browsers.places(baseline, time_s, races=races)}
        assert list(places) == ["web-wasm", "web-webgl", "web-webgpu", "web-webnn"]
        assert places["web-wasm"].state == ("raced" if races else "timed")
        assert (places["web-webgl"].state, places["web-webgl"].why) == ("not-tried", told)
        # Asked the browser is in any case; the model is run in none of them beyond its time.
        assert places["web-webgpu"].state == "not-tried" or "WebGPU" in places["web-webgpu"].why
        assert places["web-webnn"].state == "not-tried" or "WebNN" in places["web-webnn"].why


@pytest.mark.xdist_group("browser")
def test_where_there_is_time_every_place_tells_how_the_model_runs_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-wasm")
    needs("web-webgl")
    baseline = baseline_in_a_page(tmp_path)
    baseline.settle(600.0)
    baseline.pilot.run("latency", holds=lambda trial_ns: False)
    _, webgl, gpu, _ = in_browsers.places(baseline, 600.0, races=True)
    assert webgl.state == "failed" and "Shrink" in webgl.why
    if gpu.state == "absent":
        pytest.skip(f"NOT TESTED HERE: web-webgpu: {gpu.why}")
    assert gpu.outputs is not None and gpu.outputs.ok
    assert sum(part.n_nodes for part in gpu.placement) > 3
    assert gpu.state in ("functional-only", "raced")  # whether it is software


@pytest.mark.xdist_group("browser")
def test_a_page_is_warmed_up_however_small_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-wasm")
    baseline = baseline_in_a_page(tmp_path)
    baseline.settle(60.0)
    loaded = baseline.executor.last
    assert isinstance(loaded, Measured)
    # Later pages begin compiled, as the one after this: what it took is what they are taken to take.
    baseline.executor.last = msgspec.structs.replace(loaded, elapsed_ns=1_000_000)
    told: list[float] = []
    assert not baseline.pilot.run("latency", lambda: 0.0, lambda trial_ns: bool(told.append(trial_ns)))
    assert baseline.pilot.look_runs == 1 and baseline.pilot.first.done.cases[0].warmup_runs > 0
    assert 0 < told[0] < baseline.pilot.first.elapsed_ns / 2


@pytest.mark.xdist_group("browser")
def test_what_a_browser_compiled_serves_later_trials_of_the_same_build_in_groups(tmp_path: Path) -> None:
    needs("web-wasm")
    x = RNG.standard_normal((1, 8, 16, 16)).astype(np.float32)
    write_feeds(tmp_path / "feeds", {"x": x})
    model = net(tmp_path / "m.onnx")

    def task(name: str, warmup_runs: int = 1, **settings: Value) -> Task:
        (tmp_path / name).mkdir()
        request = TrialRequest(
            model=str(model),
            feeds=(FeedRef(name="all", path=str(tmp_path / "feeds")),),
            warmup_runs=warmup_runs,
        )
        plan = Plan(providers=(ProviderSpec(name="wasm"),), settings=settings)
        return Task(
            plan=plan,
            runtime=Runtime(python="", ort_version="1.30.0"),
            request=request,
            folder=tmp_path / name,
            scratch=tmp_path,
        )

    def seen(*tasks: Task, runs: int) -> list[tuple[bool, int]]:
        outcomes = run(
            tasks, Machine(browser=BrowserSetup(network_bps=4e6)), Turns(runs=runs, unmeasured=0, rounds=2)
        )
        assert outcomes is not None
        assert all(isinstance(outcome, Measured) for outcome in outcomes), outcomes
        done = [outcome.done for outcome in outcomes if isinstance(outcome, Measured)]
        assert done[0].page is not None and done[0].page.block_ns > 0
        pages = [each.page for each in done if each.page]
        for page, each in zip(pages, tasks, strict=True):
            assert page.download_ns == 2000 * page.download_bytes and page.import_ns
            # 28 MB of WebAssembly, or 14, fetched where nothing was kept.
            least = 13e6 if each.plan.settings.get("web_build") == "wasm" else 25e6
            assert (page.download_bytes > least) is not page.compiled
        return [(each.page.compiled, each.cases[0].first_ns) for each in done if each.page]

    ((first, first_ns),) = seen(task("alone"), runs=2000)
    (again, again_ns), (plan, _), (other, _) = seen(
        task("again"), task("plan", 0, web_threads=1), task("other", 0, web_build="wasm"), runs=1
    )
    assert (first, again, plan, other) == (False, True, True, False)
    assert again_ns < first_ns  # of code that need not be compiled once more


FETCH_S = 6.0
"""Many times what a load takes, beside other work too."""


@pytest.mark.xdist_group("browser")
def test_what_webassembly_took_to_fetch_is_no_part_of_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("web-wasm")
    usual = Request.file

    def slow(request: Request, path: Path, *, keeps: str = "no-store") -> bool:
        time.sleep(FETCH_S if path.suffix == ".wasm" else 0)
        return usual(request, path, keeps=keeps)

    monkeypatch.setattr(Request, "file", slow)
    write_feeds(tmp_path / "feeds", {"x": np.ones((1, 8, 16, 16), np.float32)})
    request = TrialRequest(
        model=str(net(tmp_path / "m.onnx")),
        feeds=(FeedRef(name="all", path=str(tmp_path / "feeds")),),
        warmup_runs=0,
    )
    plan = Plan(providers=(ProviderSpec(name="wasm"),))
    task = Task(plan=plan, runtime=Runtime(python=""), request=request, folder=tmp_path, scratch=tmp_path)
    (outcome,) = run([task], Machine(browser=BrowserSetup())) or ()
    assert isinstance(outcome, Measured) and outcome.done.page is not None, outcome
    assert 0 < outcome.done.load_ns < FETCH_S * 1e9 <= outcome.done.page.wasm_fetch_ns


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize(
    "build", ["jsep", *(pytest.param(native, marks=pytest.mark.long) for native in ("asyncify", "jspi"))]
)
def test_the_graph_that_ran_on_a_gpu_tells_whose_its_nodes_are(
    build: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-webgpu")
    result = ortune.profile(
        net(tmp_path / "m.onnx"), inputs=inputs(tmp_path), target="web-webgpu", set=[f"web_build={build}"],
        budget=20, store=tmp_path / "st",
    ).result  # fmt: skip
    assert isinstance(result, ProfileResult)
    run = result.gpu_run
    assert run is not None and run.input_bytes == run.output_bytes == 4 * 8 * 16 * 16 and run.n_runs >= 5
    assert run.device_ns > 0 and run.upload_ns + run.device_ns + run.read_back_ns == pytest.approx(
        run.whole_ns
    )
    assert ("functional only" in profile_words.gpu_run(run)) == run.software
    assert result.software == run.software == (result.stands_out[0].code == "MSR006")
    assert profile_words.headline(result).startswith("functional only") == run.software
    # What is nobody's time needs no second page beside, and is held against nothing.
    assert run.software == (result.slowdown_ratio is None)
    assert (tmp_path / "st" / peaks.FILE).exists() != run.software
    parts = result.page_parts
    assert parts is not None and parts.queued and 0 < parts.operators_ns + parts.outputs_ns < parts.whole_ns
    assert not result.unmapped and not [note for note in result.notes if "nodes come from" in note]
    copies = {node.op_type for node in result.nodes if node.purpose}
    assert copies == {"MemcpyToHost", "MemcpyFromHost"}
    found = {node.op_type: node.originals for node in result.nodes if not node.purpose}
    assert found == {"Mul": ("first",), "Relu": ("act",), "Shrink": ("shrink",), "Add": ("last",)}


@pytest.mark.long  # whose the nodes of a GPU are stands above, with nodes that are not fused
@pytest.mark.xdist_group("browser")
def test_fused_nodes_in_another_layout_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-webgpu")
    nodes, last = [], "x"
    for i in range(2):
        nodes.append(
            helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], name=f"conv{i}", kernel_shape=[3, 3])
        )
        nodes.append(helper.make_node("Relu", [f"c{i}"], [last := f"r{i}"], name=f"relu{i}"))
    weights = [RNG.standard_normal((8, 8, 3, 3)).astype(np.float32) for _ in range(2)]
    path = tmp_path / "m.onnx"
    onnx.save(
        assemble(
            nodes,
            "float[1,8,16,16] x",
            "float[1,8,12,12] r1",
            [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
            opset=13,
        ),
        path,
    )
    result = ortune.profile(
        path, inputs=inputs(tmp_path), target="web-webgpu", set=["web_build=asyncify"], budget=20, no_peak=True,
        store=tmp_path / "st",
    ).result  # fmt: skip
    assert isinstance(result, ProfileResult)
    found = sorted(node.originals for node in result.nodes if node.op_type == "Conv")
    assert found == [("conv0", "relu0"), ("conv1", "relu1")]


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize(
    ("target", "version", "told"),
    [
        ("web-wasm", "", True),
        *(
            pytest.param(target, "1.22.0", False, marks=pytest.mark.long)
            for target in ("web-wasm", "web-webgpu")
        ),
    ],
)
def test_what_of_a_run_is_outside_of_the_operators(
    target: str, version: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By onnxruntime-web's own marks; 1.22 prints none."""
    hardly_warm(monkeypatch)
    needs(target)
    result = ortune.profile(
        net(tmp_path / "m.onnx"), inputs=inputs(tmp_path), target=target, ort_web=version, budget=1, no_peak=True,
        store=tmp_path / "st",
    ).result  # fmt: skip
    assert isinstance(result, ProfileResult)
    parts = result.page_parts
    assert (parts is not None) == told
    if parts is not None:
        assert parts.n_runs == result.n_runs and not parts.queued
        assert 0 < parts.operators_ns < parts.whole_ns and min(parts.inputs_ns, parts.outputs_ns) >= 0
        assert "returning outputs" in profile_words.page_parts(parts)


def test_placement_and_reasons_are_read_off_the_log() -> None:
    place = "2026-11-23 [V:onnxruntime:, session_state.cc:%d VerifyEachNodeIsAssignedToAnEp] "
    console = [
        "[I:onnxruntime:, x.cc:6] webgpu kernel not found in registries for Op type: Shrink node name: s",
        "[I:onnxruntime:, x.cc:6] webgpu kernel not found in registries for Op type: FusedGemm node name: fused a/gemm",
        place % 1377 + "Node placements",
        place % 1383 + " Node(s) placed on [WebGpuExecutionProvider]. Number of nodes: 2",
        place % 1385 + "  Conv (c0_token_1)",
        place % 1385 + "  Conv (c1)",
        place % 1383 + " Node(s) placed on [CPUExecutionProvider]. Number of nodes: 1",
        place % 1385 + "  Shrink (s)",
        "something else",
    ]
    found = {p.provider: (p.n_nodes, p.operators) for p in placement_of(console)}
    assert found == {"WebGpuExecutionProvider": (2, {"Conv": 2}), "CPUExecutionProvider": (1, {"Shrink": 1})}
    assert fallbacks_of(console) == ("Shrink s", "FusedGemm fused a/gemm")
    alone = [place % 1260 + " All nodes placed on [WebGpuExecutionProvider]. Number of nodes: 157"]
    assert [(p.provider, p.n_nodes) for p in placement_of(alone)] == [("WebGpuExecutionProvider", 157)]
    assert placement_of(["no such line"]) == ()


def test_the_time_to_a_first_result_is_of_pages_at_a_speed_that_is_stated(tmp_path: Path) -> None:
    options = Options(a="m.onnx", target="web-wasm", network="4G")
    assert options.in_browser.network_bps == 10e6
    assert bits_a_second("1.5gbit", "--network") == 1.5e9 and bits_a_second("3g", "--network") == 1.6e6
    with pytest.raises(UsageError, match="'fast'"):
        bits_a_second("fast", "--network")
    with pytest.raises(UsageError, match="applies to web pages"):
        ortune.compare(
            net(tmp_path / "m.onnx"), b_set=["intra=1"], objective="first-result", store=tmp_path / "st"
        )


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("allow", [(), ("non-finite",)])
def test_a_page_whose_outputs_are_no_numbers_is_told_first_and_claims_nothing(
    allow: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-wasm")
    model = onnx.load(net(tmp_path / "m.onnx"))
    model.graph.node[2].CopyFrom(helper.make_node("Log", ["a"], ["c"], name="log"))  # of negative numbers too
    onnx.save(model, tmp_path / "m.onnx")
    envelope = ortune.compare(
        tmp_path / "m.onnx",
        inputs=inputs(tmp_path),
        target="web-wasm",
        b_set=["web_threads=1"],
        budget=60,
        allow=allow,
        store=tmp_path / "st",
    )
    assert [alert.code for alert in envelope.alerts] == ["MSR013"]
    assert (envelope.result.comparison is not None) == bool(allow)
