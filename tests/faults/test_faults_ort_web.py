"""Builds of onnxruntime-web that are missing, damaged or others, and models that a page cannot run."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from browser_trials import WEB, failure, trial
from onnx import TensorProto

from facts import facts
from onnx_text import model_of
from ortune.catalogue.computed.web_build import default_of
from ortune.records import Failed, Measured, Value
from ortune.targets.browser import setup
from ortune.targets.browser.page import _TOKEN
from ortune.targets.browser.page_job import FILES
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.browser.site import Request

PAGE_JS = Path(setup.__file__).with_name("page.js")


def dist(folder: Path, *, without: str) -> BrowserSetup:
    """A copy of onnxruntime-web's builds, but for some of their files; links that lead out of it are not served."""
    place = folder / "onnxruntime-web" / "dist"
    place.mkdir(parents=True)
    for file in WEB.dist.iterdir():
        if not file.match(without):
            shutil.copyfile(file, place / file.name)
    return BrowserSetup(ort_web=str(place.parent))


def test_a_webassembly_file_that_is_missing(folder: Path) -> None:
    failed = failure("load-error", folder, browser=dist(folder, without="*.wasm"))
    facts(failed.what, "no file ort-wasm-simd-threaded")


def test_a_webassembly_file_that_is_damaged(folder: Path) -> None:
    browser = dist(folder, without="*.wasm")
    for file in WEB.dist.glob("*.wasm"):
        with file.open("rb") as whole:
            (Path(browser.ort_web) / "dist" / file.name).write_bytes(whole.read(100_000))
    failure("load-error", folder, browser=browser)


def test_a_build_that_is_missing(folder: Path) -> None:
    name = FILES[default_of("wasm")]
    failed = failure("load-error", folder, browser=dist(folder, without=name))
    assert name in failed.what
    # What Chromium says of it names the whole address.
    assert f"/…/ort/{name}" in failed.what and _TOKEN not in str(msgspec.json.encode(failed))


def test_the_build_is_named_by_the_file_that_was_loaded(folder: Path) -> None:
    outcome = trial(folder, settings={"web_build": "asyncify"})
    assert isinstance(outcome, Measured), outcome
    (found,) = outcome.done.read_back
    assert (found.level, found.ok, found.seen) == ("effect", True, "ort-wasm-simd-threaded.asyncify.wasm")


def test_a_build_that_is_another_one_by_that_name(folder: Path) -> None:
    """As in 1.22, where JSEP is what a page imports as onnxruntime-web/webgpu."""
    browser = dist(folder, without=FILES["asyncify"])
    shutil.copyfile(WEB.dist / FILES["jsep"], Path(browser.ort_web) / "dist" / FILES["asyncify"])
    failed = failure("not-applied", folder, browser=browser, settings={"web_build": "asyncify"})
    assert {"web_build", "ort-wasm-simd-threaded.jsep.wasm"} <= {*failed.what.replace(":", "").split()}
    for path in (Path(browser.ort_web) / "dist").glob("*.asyncify.wasm"):
        path.unlink()
    failed = failure("unsupported", folder, browser=browser, settings={"web_build": "asyncify"})
    facts(failed.what, "no asyncify build")


def first(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Has the page run something before all else."""
    usual = Request.own

    def own(request: Request, name: str) -> None:
        if name != "page.js":
            usual(request, name)
            return
        request.answer(200, (script + PAGE_JS.read_text(encoding="utf-8")).encode(), "text/javascript")

    monkeypatch.setattr(Request, "own", own)


def test_the_gpu_that_is_told_is_the_one_that_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first(
        monkeypatch,
        "GPU.prototype.requestAdapter = async (asked) => { throw new Error(JSON.stringify(asked ?? {})); };",
    )
    settings: dict[str, Value] = {"web_power_preference": "high-performance"}
    failed = failure("load-error", folder, provider="webgpu", settings=settings)
    assert failed.what == '{"powerPreference":"high-performance"}'


@pytest.mark.parametrize("location", ["cpu", "gpu-buffer"])
def test_the_queue_is_waited_for_where_outputs_stay_on_the_gpu(
    location: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first(
        monkeypatch,
        "GPUQueue.prototype.onSubmittedWorkDone = async () => { throw new Error('the queue was waited for'); };",
    )
    settings: dict[str, Value] = {"web_build": "jsep", "web_output_location": location}
    outcome = trial(folder, provider="webgpu", settings=settings)
    if isinstance(outcome, Failed) and "adapter" in outcome.what:
        pytest.skip(outcome.what)
    waited = isinstance(outcome, Failed) and "the queue was waited for" in outcome.what
    assert waited == (location == "gpu-buffer"), outcome


@pytest.mark.parametrize("elements", [1_073_000_000, 1_200_000_000], ids=["no memory left", "beyond 32 bits"])
def test_more_than_webassembly_can_hold(folder: Path, elements: int) -> None:
    text = "g (int64[1] n) => (float y) { big = ConstantOfShape (n) y = ReduceMax <keepdims = 0> (big) }"
    onnx.save(model_of(text, 13, ir_version=7), folder / "m.onnx")
    failure("out-of-memory", folder, feeds={"n": np.array([elements])})


def test_weights_beyond_what_a_page_can_fetch(folder: Path) -> None:
    weight = TensorProto(
        name="w", data_type=TensorProto.UINT8, dims=[2 << 30], data_location=TensorProto.EXTERNAL
    )
    weight.external_data.add(key="location", value="w.bin")
    model = model_of("g (int64[1] i) => (uint8[1] y) { y = Gather (w, i) }", 13, ir_version=7)
    model.graph.initializer.append(weight)
    onnx.save(model, folder / "m.onnx")
    with (folder / "w.bin").open("wb") as file:
        file.truncate(2 << 30)
    failed = failure("unsupported", folder, feeds={"i": np.array([0])})
    assert "w.bin is 2.0 GiB" in failed.what and "quantize the weights" in failed.what


def test_a_model_that_is_none(folder: Path) -> None:
    (folder / "m.onnx").write_bytes(b"\0" * 100)
    failure("load-error", folder)
