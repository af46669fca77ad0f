"""What a plan file, a lock or a workload of a stranger names is never loaded, started or written to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import ortune
from facts import facts
from hostile import commands
from onnx_text import model_of, saved
from ortune.errors import InputError, UsageError
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.inputs.feeds import MOST_CASES
from ortune.measuring.plans import read_plan
from ortune.records import Case, Workload


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(tmp_path / "m.onnx", model_of("g (float[8] x) => (float[8] y) { y = Relu (x) }"))


@pytest.mark.parametrize(("name", "options"), commands.LIBRARY_OPTIONS)
def test_a_plan_file_names_no_library(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"providers": [{"name": name, "options": options}]}))
    with pytest.raises(UsageError, match=f"{next(iter(options))}=.* of {name} cannot be set by a plan"):
        read_plan(plan)


def test_an_option_that_the_provider_does_not_have_is_one_clear_error(tmp_path: Path, model: Path) -> None:
    plan = tmp_path / "plan.json"
    provider = {"name": "OpenVINOExecutionProvider", "options": {"no_such_option": "1"}}
    plan.write_text(json.dumps({"providers": [provider]}))
    with pytest.raises(UsageError) as refused:
        ortune.bench(model, plan=plan, budget="1s")
    error = refused.value
    facts(error.what, "no_such_option='1'", "OpenVINOExecutionProvider", "cannot be set")
    facts(error.do, "omit it", "a plan can set:", "device_type")


def test_a_plan_file_sets_the_options_that_are_numbers_and_words(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    options = {"device_id": "1", "cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}
    plan.write_text(json.dumps({"providers": [{"name": "CUDAExecutionProvider", "options": options}]}))
    assert read_plan(plan).providers[0].options == options


@pytest.mark.parametrize(
    ("name", "options", "allowed"),
    [
        ("QNNExecutionProvider", {"htp_performance_mode": "fast"}, "sustained_high_performance"),
        ("WebGpuExecutionProvider", {"preferredLayout": "NHCW"}, "NCHW, NHWC"),
        ("TensorrtExecutionProvider", {"trt_builder_optimization_level": "9"}, "0 to 5"),
        ("CUDAExecutionProvider", {"device_id": "first"}, "an integer"),
        ("OpenVINOExecutionProvider", {"model_priority": "MOST"}, "LOW, MEDIUM, HIGH, DEFAULT"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused_with_what_it_can(
    tmp_path: Path, name: str, options: dict[str, str], allowed: str
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"providers": [{"name": name, "options": options}]}))
    with pytest.raises(UsageError) as refused:
        read_plan(plan)
    facts(refused.value.what, name, "=".join(*options.items()))
    facts(refused.value.do, allowed)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("OpenVINOExecutionProvider", {"device_type": "GPU.0"}),
        ("CUDAExecutionProvider", {"use_tf32": "True", "gpu_mem_limit": "18446744073709551615"}),
        ("QNNExecutionProvider", {"backend_type": "htp", "htp_performance_mode": "burst"}),
    ],
)
def test_values_that_a_setting_does_not_list_and_the_provider_takes_are_kept(
    tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"providers": [{"name": name, "options": options}]}))
    assert read_plan(plan).providers[0].options == options


def test_a_lock_names_no_library(model: Path) -> None:
    ortune.lock(model)
    lock = model.with_name("m.onnx.lock.json")
    read = json.loads(lock.read_text())
    read["run"]["plan"]["providers"] = [
        {"name": "QNNExecutionProvider", "options": {"backend_path": "/tmp/e.so"}}
    ]
    lock.write_text(json.dumps(read))
    with pytest.raises(UsageError, match=r"backend_path=.* cannot be set by a plan"):
        ortune.lock(model, check=True)


def test_a_workload_loads_no_library_that_is_not_named(model: Path, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    mark = tmp_path / "mark"
    library = commands.native_library(tmp_path / "libmine.so", mark)
    file = tmp_path / "workload.json"
    ortune.look(model, save_workload=file, budget="1s")
    saved = workload.load(file)
    workload.save(file, Workload(cases=saved.cases, custom_ops=(str(library), "libmine.so")))
    error = ortune.look(model, workload=file).error
    assert not mark.exists()
    assert error is not None
    facts(error.what, "only when named")
    assert error.do.endswith(f"--custom-ops {library} --custom-ops {library}")
    told = ortune.look(model, workload=file, custom_ops=[library], budget="1s")
    assert told.workload.custom_ops == (str(library),)
    assert mark.exists()


def test_a_file_that_a_workload_names_is_not_shown(model: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2 is the password")
    named = Workload(cases=(Case(name="only", inputs=()),), inputs_path="secret")
    workload.save(tmp_path / "w.json", named)
    loaded = workload.load(tmp_path / "w.json")
    with pytest.raises(InputError, match=r"it is not an \.npy file") as error:
        workload.feeds(open_model(model).ir, loaded)
    assert "hunt" not in str(error.value)


def test_a_workload_with_more_cases_than_are_run_is_refused(model: Path, tmp_path: Path) -> None:
    """Each case has a folder of inputs: a small file would fill a disk."""
    case = Case(name="only", inputs=())
    workload.save(tmp_path / "w.json", Workload(cases=(case,) * (MOST_CASES + 1)))
    with pytest.raises(InputError, match="4,097 cases, and at most 4,096"):
        workload.feeds(open_model(model).ir, workload.load(tmp_path / "w.json"))
