"""What a side of a comparison is: bundles above all."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import onnx
import pytest

from onnx_text import model_of, saved
from ortune import platform, targets
from ortune.bundle import digests
from ortune.errors import MeasurementError, RuntimeNotFound, UsageError
from ortune.measuring.plans import bundle_plan
from ortune.measuring.sides import SideText, require_unchanged, resolve
from ortune.records import BundleInfo, Plan, RewriteSpec
from ortune.runtimes import runtimes
from ortune.targets.browser import setup
from ortune.targets.browser.setup import BrowserSetup


def model(path: Path, op: str) -> Path:
    return saved(path, model_of(f"g (float[4] x) => (float[4] y) {{ y = {op} (x) }}"))


def ort_web(folder: Path, version: str) -> Path:
    """What of an onnxruntime-web tells one from another."""
    (folder / "dist").mkdir(parents=True)
    (folder / "dist" / "ort.bundle.min.mjs").touch()
    (folder / "package.json").write_text(f'{{"version": "{version}"}}')
    return folder


def test_a_side_in_pages_has_an_onnxruntime_web_of_its_own(tmp_path: Path) -> None:
    path = str(model(tmp_path / "m.onnx", "Abs"))
    all_of_them = BrowserSetup(ort_web=str(ort_web(tmp_path / "new", "1.30.0")))
    given = {"common": Plan(), "scratch": tmp_path, "browser": all_of_them}
    a = resolve(SideText(text=path, target="web-wasm"), **given)
    old = str(ort_web(tmp_path / "old", "1.22.0"))
    b = resolve(SideText(text=path, target="web-wasm", ort_web=old), **given)
    assert (a.runtime.build, b.runtime.build) == ("onnxruntime-web 1.30.0", "onnxruntime-web 1.22.0")
    assert runtimes.describe(b.runtime).startswith("onnxruntime-web 1.22.0, beside it ")
    assert setup.of_runtime(b.runtime) == setup.ort_web(BrowserSetup(ort_web=old))
    native = resolve(SideText(text=path), **given)
    assert native.runtime.build.startswith("onnxruntime 1.") and setup.of_runtime(native.runtime) is None
    # Where no page is to be opened none is looked for, and none fetched.
    listed = resolve(SideText(text=path, target="web-wasm"), common=Plan(), scratch=tmp_path)
    assert setup.of_runtime(listed.runtime) is None
    with pytest.raises(UsageError, match="runs in a browser"):
        resolve(SideText(text=path, ort_web=old), **given)
    with pytest.raises(RuntimeNotFound, match="contains no onnxruntime-web"):
        resolve(SideText(text=path, target="web-wasm", ort_web=str(tmp_path)), **given)


def bundle(folder: Path, cpu: str, *, bound: bool = True, ort_version: str = "") -> Path:
    """A bundle with a rewritten model, bound to a CPU of that name unless it says otherwise."""
    path = folder / "m.ortune"
    path.mkdir()
    host = msgspec.structs.replace(platform.host(), cpu=cpu)
    info = BundleInfo(
        schema="ortune/bundle/1",
        model=model(path / "bound.onnx", "Relu").name,
        plain_model=model(path / "m.onnx", "Abs").name,
        sha256="",
        plan=Plan(
            rewrites=(RewriteSpec(name="ort-optimized"),),
            settings={"intra_op_num_threads": 1, "graph_optimization_level": "disable"},
        ),
        hardware_bound=bound,
        model_settings=("graph_optimization_level",) if bound else (),
        ort_version=ort_version,
        host=host,
    )
    (path / "ortune.json").write_bytes(msgspec.json.encode(info))
    digests.write(path)
    return path


@pytest.mark.parametrize(
    ("cpu", "runs"), [(platform.host().cpu, "bound.onnx"), ("Another CPU 9000", "m.onnx")]
)
def test_a_model_bound_to_other_hardware_is_not_taken(tmp_path: Path, cpu: str, runs: str) -> None:
    side = resolve(SideText(text=str(bundle(tmp_path, cpu))), common=Plan(), scratch=tmp_path)
    assert side.runs.name == runs
    level = {} if runs == "m.onnx" else {"graph_optimization_level": "disable"}
    assert side.plan.settings == {"intra_op_num_threads": 1, **level}
    assert bool(side.plan.rewrites) == (runs != "m.onnx")
    assert ("other hardware" in side.label) == (runs == "m.onnx")


def test_a_rewrite_is_made_for_a_side_of_another_target(tmp_path: Path) -> None:
    text = "g (float[4] x, float[4] w = {1, 2, 3, 4}) => (float[4] y) { y = Mul (x, w) }"
    path = saved(tmp_path / "m.onnx", model_of(text))
    cuda = targets.find("cuda")
    name = "initializers-out-of-inputs"
    plan = tmp_path / "plan.json"
    plan.write_bytes(msgspec.json.encode(Plan(settings={"intra_op_num_threads": 1})))
    base = resolve(SideText(text=str(path)), common=Plan(), scratch=tmp_path)
    side = resolve(
        SideText(text=str(plan), rewrites=[name]),
        common=Plan(providers=cuda.providers), base_model=base.model, scratch=tmp_path,
    )  # fmt: skip
    assert (base.plan, base.runs) == (Plan(), path)
    assert side.plan.providers == cuda.providers
    assert side.plan.settings == {"intra_op_num_threads": 1}
    assert side.plan.rewrites == (RewriteSpec(name=name),)
    assert [each.name for each in onnx.load(side.runs).graph.input] == ["x"]
    assert targets.target_of(side.plan) is cuda


def test_a_model_bound_to_another_build_is_not_taken(tmp_path: Path) -> None:
    path = bundle(tmp_path, platform.host().cpu, ort_version="0.1.0")
    side = resolve(SideText(text=str(path)), common=Plan(), scratch=tmp_path)
    assert side.runs.name == "m.onnx"
    assert side.plan == Plan(settings={"intra_op_num_threads": 1})
    assert side.label.endswith("here, tuned with 0.1.0)")


def test_a_bundle_that_is_not_bound_is_the_same_everywhere(tmp_path: Path) -> None:
    path = bundle(tmp_path, "Another CPU 9000", bound=False, ort_version="0.1.0")
    side = resolve(SideText(text=str(path)), common=Plan(), scratch=tmp_path)
    assert (side.runs.name, side.label) == ("bound.onnx", "m.ortune")
    assert side.plan.settings == {"intra_op_num_threads": 1, "graph_optimization_level": "disable"}


def test_a_model_that_changed_is_noticed(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", "Relu")
    side = resolve(SideText(text=str(path)), common=Plan(), scratch=tmp_path)
    require_unchanged(side)
    shutil.copy(model(tmp_path / "other.onnx", "Sigmoid"), path)
    with pytest.raises(MeasurementError, match="changed during"):
        require_unchanged(side)


@pytest.mark.parametrize("fewer", [False, True])
def test_a_bundles_threads_are_as_measured_unless_there_are_fewer_cpus(tmp_path: Path, fewer: bool) -> None:
    here = platform.host().effective_cpus
    path = bundle(tmp_path, platform.host().cpu)
    info = msgspec.json.decode((path / "ortune.json").read_bytes(), type=BundleInfo)
    host = msgspec.structs.replace(platform.host(), effective_cpus=here + 1 if fewer else here)
    plan = Plan(settings={"intra_op_num_threads": f"min({here + 2}, cpus)"})
    assert bundle_plan(msgspec.structs.replace(info, plan=plan, host=host)) == Plan(
        settings={"intra_op_num_threads": here if fewer else here + 2}
    )
