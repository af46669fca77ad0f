"""Verbs with a browser: real Chromium, real onnxruntime-web; outputs, placement, and what is never claimed."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper

import ortune
from chromium import hardly_warm
from ortune.errors import UsageError
from ortune.inputs.feed_files import write_feeds
from ortune.measuring.budget import Budget
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import SideText, resolve
from ortune.records import FeedRef, Measured, Plan, ProviderSpec, Runtime, TrialRequest, Value
from ortune.store.db import SessionLog
from ortune.targets.browser.setup import VERSION, BrowserSetup
from ortune.targets.browser.site import Request
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import TrialTask
from ortune.targets.turns import Turns
from ortune.verbs._shared.quantities import bits_a_second
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.compare.run import Options
from ortune.verbs.tune import in_browsers
from ortune.verbs.tune.result import TuneResult
from web_models import RNG, needs, web_inputs, web_net


@pytest.mark.xdist_group("browser")
def test_a_page_is_held_against_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hardly_warm(monkeypatch)
    needs("web-wasm")
    envelope = ortune.compare(
        web_net(tmp_path / "m.onnx"),
        inputs=web_inputs(tmp_path),
        b_target="web-wasm",
        b_set=["web_threads=1"],
        budget=60,
        max_blocks=1,
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
        web_net(tmp_path / "m.onnx"),
        inputs=web_inputs(tmp_path),
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


def baseline_in_a_page(folder: Path) -> Measuring:
    """Of the net, on WebAssembly."""
    plan = Plan(providers=(ProviderSpec(name="wasm"),))
    side = resolve(SideText(text=str(web_net(folder / "m.onnx"))), common=plan, scratch=folder)
    return Measuring(side, InputOptions(), folder, SessionLog(None, ""), print, Machine())


@pytest.mark.xdist_group("browser")
def test_tuning_in_a_browser_is_held_against_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-wasm")
    # Too little to confirm a plan, and on many machines to try every place.
    result = ortune.tune(
        web_net(tmp_path / "m.onnx"), target="web", budget=10, bundle=False, store=tmp_path / "st"
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
    baseline.find_inputs(600.0)
    run_pilot(baseline, "latency", holds=lambda trial_ns: False)
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
    baseline.find_inputs(60.0)
    loaded = baseline.executor.last
    assert isinstance(loaded, Measured)
    # Later pages begin compiled, as the one after this: what it took is what they are taken to take.
    baseline.executor.last = msgspec.structs.replace(loaded, elapsed_ns=1_000_000)
    told: list[float] = []
    assert not run_pilot(
        baseline, "latency", Budget(total_s=0.0), lambda trial_ns: bool(told.append(trial_ns))
    )
    assert baseline.pilot.look_runs == 1 and baseline.pilot.first.done.cases[0].warmup_runs > 0
    assert 0 < told[0] < baseline.pilot.first.elapsed_ns / 2


@pytest.mark.usefixtures("compiled_for_speed")
@pytest.mark.xdist_group("browser")
def test_what_a_browser_compiled_serves_later_trials_of_the_same_build_in_groups(tmp_path: Path) -> None:
    needs("web-wasm")
    x = RNG.standard_normal((1, 8, 16, 16)).astype(np.float32)
    write_feeds(tmp_path / "feeds", {"x": x})
    model = web_net(tmp_path / "m.onnx")

    def task(name: str, warmup_runs: int = 1, **settings: Value) -> TrialTask:
        (tmp_path / name).mkdir()
        request = TrialRequest(
            model=str(model),
            feeds=(FeedRef(name="all", path=str(tmp_path / "feeds")),),
            warmup_runs=warmup_runs,
        )
        plan = Plan(providers=(ProviderSpec(name="wasm"),), settings=settings)
        return TrialTask(
            plan=plan,
            runtime=Runtime(python="", ort_version="1.30.0"),
            request=request,
            folder=tmp_path / name,
            scratch=tmp_path,
        )

    def seen(*tasks: TrialTask, runs: int) -> list[tuple[bool, int]]:
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


FETCH_S = 2.0


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
        model=str(web_net(tmp_path / "m.onnx")),
        feeds=(FeedRef(name="all", path=str(tmp_path / "feeds")),),
        warmup_runs=0,
    )
    plan = Plan(providers=(ProviderSpec(name="wasm"),))
    task = TrialTask(
        plan=plan, runtime=Runtime(python=""), request=request, folder=tmp_path, scratch=tmp_path
    )
    (outcome,) = run([task], Machine(browser=BrowserSetup())) or ()
    assert isinstance(outcome, Measured) and outcome.done.page is not None, outcome
    fetch_ns = outcome.done.page.wasm_fetch_ns
    assert fetch_ns >= FETCH_S * 1e9 and outcome.done.load_ns > 0
    # A load that contained the fetch would count it twice.
    assert outcome.done.load_ns + fetch_ns < outcome.elapsed_ns


def test_the_time_to_a_first_result_is_of_pages_at_a_speed_that_is_stated(tmp_path: Path) -> None:
    options = Options(a="m.onnx", target="web-wasm", network="4G")
    assert options.in_browser.network_bps == 10e6
    assert bits_a_second("1.5gbit", "--network") == 1.5e9 and bits_a_second("3g", "--network") == 1.6e6
    with pytest.raises(UsageError, match="'fast'"):
        bits_a_second("fast", "--network")
    with pytest.raises(UsageError, match="applies to web pages"):
        ortune.compare(
            web_net(tmp_path / "m.onnx"), b_set=["intra=1"], objective="first-result", store=tmp_path / "st"
        )


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("allow", [(), ("non-finite",)])
def test_a_page_whose_outputs_are_no_numbers_is_told_first_and_claims_nothing(
    allow: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-wasm")
    model = onnx.load(web_net(tmp_path / "m.onnx"))
    model.graph.node[2].CopyFrom(helper.make_node("Log", ["a"], ["c"], name="log"))  # of negative numbers too
    onnx.save(model, tmp_path / "m.onnx")
    envelope = ortune.compare(
        tmp_path / "m.onnx",
        inputs=web_inputs(tmp_path),
        target="web-wasm",
        b_set=["web_threads=1"],
        budget=60,
        max_blocks=1,
        allow=allow,
        store=tmp_path / "st",
    )
    assert [alert.code for alert in envelope.alerts] == ["MSR013"]
    assert (envelope.result.comparison is not None) == bool(allow)
