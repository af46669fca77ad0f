"""Environments that ortune makes: what may be named, what counts as made, and what one holds."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path

import msgspec
import onnx
import onnxruntime
import pytest
from onnx import parser
from onnxruntime import datasets

import made_runtimes
import ortune
from facts import facts
from ortune.errors import MeasurementError, RuntimeNotFound, UsageError
from ortune.platform import cpu_vendor, cuda_driver, host
from ortune.records import Envelope, MadeRuntime, Runtime
from ortune.runtimes import installing, made
from ortune.runtimes.converters import CONVERTERS
from ortune.runtimes.packages import (
    RELEASES,
    addable,
    builds,
    recipes,
    require_recipes,
    usable,
    wheels,
    whole,
)
from ortune.runtimes.packed import packed
from ortune.runtimes.runtimes import describe, find_runtime, probe
from ortune.show.document import Line
from ortune.targets import find as find_target
from ortune.verbs.runtime import words as runtime_words
from ortune.verbs.runtime.result import RuntimeResult

OLD = "onnxruntime==1.22.1"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ortune" / "runtimes"


@pytest.mark.parametrize(
    "name",
    [
        "https://index.example/simple", "onnxruntime", "onnxruntime==1.2", "onnxruntime>=1.22.1", "numpy==2.0.0",
        "onnxruntime==1.22.1 --index-url=http://x", "../onnxruntime==1.22.1", "onnxruntime==1.22.1\n", "-r x", "",
    ],
)  # fmt: skip
def test_only_known_packages_with_a_version_are_names(name: str, cache: Path) -> None:
    assert recipes(name) == ()
    with pytest.raises(
        UsageError, match=r"no such file" if name.startswith("../") else "no runtime is called"
    ):
        ortune.runtime("add", name)
    assert not cache.exists()


def test_what_is_installed_is_pinned() -> None:
    (plain,) = require_recipes("onnxruntime==1.18.1")
    assert plain.requirements == ("onnxruntime==1.18.1", "numpy<2")
    plugin, whole = require_recipes("openvino")
    assert plugin.requirements[:2] == ("onnxruntime==1.32.0", "onnxruntime-ep-openvino==1.8.1")
    assert (plugin.version, whole.version) == ("1.32.0", "1.24.1")
    # The package's own name is a build, without a wish for its provider.
    assert require_recipes("onnxruntime-openvino==1.24.1")[0].provider is None
    assert all(recipes(each.name) and each.name in each.command for each in addable())
    assert all(recipes(f"onnxruntime=={release}") for release in RELEASES)


def test_what_each_wheel_weighs_and_its_licence_are_known_before_it_is_fetched() -> None:
    for provider, _ in builds():
        for recipe in recipes(provider.target):
            assert set(recipe.requirements) <= set(wheels()), "run: make wheels"
            total = sum(wheels()[wheel][0] for wheel in recipe.requirements)
            assert recipe.cost.endswith(f"; {total / 1e6:.0f} MB to download")
    (release,) = recipes("onnxruntime==1.24.4")  # whose size is in no list
    assert release.cost.startswith("onnxruntime==1.24.4, numpy<3 (") and "; more than " in release.cost
    for converter in CONVERTERS:
        for recipe in recipes(converter):
            assert {*recipe.requirements, whole(recipe.requirements)} <= set(wheels()), "run: make wheels"
            assert "MB on disk" in recipe.cost and recipe.download_bytes > 50_000_000
    together = {name for name in wheels() if name.endswith("dependencies")}
    assert all(size > 5_000 and (license or name in together) for name, (size, license) in wheels().items())


@pytest.mark.skipif(sys.platform != "linux", reason="what is not for Linux")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("directml", "Windows only"), ("tensorrt", "tensorrt-cu13<11"), ("cpu", "every onnxruntime"),
        ("coreml", "no package can be installed for coreml"), ("web-wasm", "onnxruntime-web"),
    ],
)  # fmt: skip
def test_what_cannot_work_here_is_refused_before_anything_is_fetched(
    name: str, why: str, cache: Path
) -> None:
    with pytest.raises((RuntimeNotFound, UsageError), match=why):
        ortune.runtime("add", name)
    assert not cache.exists()


@pytest.mark.skipif(cuda_driver() is not None, reason="a driver of NVIDIA is here")
@pytest.mark.parametrize("name", ["cuda", "tensorrt-rtx"])
def test_cuda_without_a_driver_is_refused_before_anything_is_fetched(name: str, cache: Path) -> None:
    with pytest.raises(RuntimeNotFound, match=r"libcuda\.so\.1 is missing"):
        ortune.runtime("add", name)
    assert not cache.exists()
    assert name not in [each.name for each in addable()]


def test_the_newest_build_that_takes_this_hardware_is_installed() -> None:
    fit, why = usable("openvino")
    intel = "Intel" in cpu_vendor() or any("Intel" in gpu for gpu in host().gpus)
    assert fit[0].package == ("onnxruntime-ep-openvino" if intel else "onnxruntime-openvino")
    assert [text.partition(" ")[0] for text in why] == ([] if intel else ["onnxruntime-ep-openvino"])


def test_a_release_is_offered_only_if_it_is_newer_than_all_that_are_there() -> None:
    def releases(*there: str) -> list[str]:
        return [runtime.name for runtime in addable(there) if runtime.name.startswith("onnxruntime==")]

    newest = [f"onnxruntime=={RELEASES[0]}"]
    assert releases("1.18.0") == releases(RELEASES[1]) == newest
    assert releases(RELEASES[0]) == releases(RELEASES[0], RELEASES[2]) == []
    own = f"onnxruntime=={find_runtime().ort_version}"
    assert own not in [each.name for each in ortune.runtime("list").result.addable]


def test_what_was_begun_and_not_ended_does_not_count(cache: Path) -> None:
    whole = MadeRuntime(name=OLD, requirements=(), runtime=Runtime(python="/elsewhere/bin/python"))
    for name in (".part-0-x", ".gone-0-x", "no-interpreter", "no-record"):
        (cache / name / "bin").mkdir(parents=True)
    for name in (".part-0-x", ".gone-0-x", "no-interpreter"):
        (cache / name / made.ABOUT).write_bytes(msgspec.json.encode(whole))
    for name in (".part-0-x", "no-record"):
        (cache / name / "bin" / "python").symlink_to(sys.executable)
    assert made.installed() == []
    # An environment that was copied here starts its own interpreter, not the one that its record names.
    (cache / "copied" / "bin").mkdir(parents=True)
    (cache / "copied" / made.ABOUT).write_bytes(msgspec.json.encode(whole))
    (cache / "copied" / "bin" / "python").symlink_to(sys.executable)
    assert [each.runtime.python for each in made.installed()] == [str(cache / "copied" / "bin" / "python")]


def test_an_index_that_never_answers_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(installing, "_SILENCE_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections, and says nothing
        for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        with pytest.raises(RuntimeNotFound, match="package index is unreachable"):
            made.require_installed(OLD, lambda text: None)


def test_without_a_network_one_sentence_says_so_and_nothing_is_left(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*os.environ]:
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")
    (cache / ".part-0-of-another").mkdir(parents=True)
    told: list[str] = []
    with pytest.raises(RuntimeNotFound, match="the package index is unreachable") as caught:
        made.require_installed(OLD, told.append)
    assert f"ortune runtime add {OLD}" in caught.value.do
    assert len(told) == 1 and OLD in told[0]
    assert list(cache.iterdir()) == []


def test_a_made_runtime_is_that_version_with_sizes_and_licences() -> None:
    found = made_runtimes.require(OLD)
    runtime = found.runtime
    assert (runtime.ort_version, runtime.name, runtime.error) == ("1.22.1", OLD, "")
    packages = {each.name: each for each in found.packages}
    assert packages["onnxruntime"].license == "MIT License"
    assert 30e6 < packages["onnxruntime"].size_bytes < found.size_bytes
    assert set(packages) == {"onnxruntime", "numpy"}
    assert describe(runtime) == "onnxruntime 1.22.1"
    assert made.find(OLD, print) == runtime
    assert found in ortune.runtime().result.runtimes


def test_an_environment_that_another_ortune_finished_meanwhile_stays(cache: Path) -> None:
    """It may be in use: a process that has it open would lose the modules that it has not imported yet."""
    kept = made_runtimes.require(OLD)
    home = Path(kept.runtime.python).parents[1]
    os.environ["XDG_CACHE_HOME"] = str(cache.parents[1])
    theirs = cache / home.name
    told: list[str] = []

    def another_is_first(text: str) -> None:
        told.append(text)
        (theirs / "bin").mkdir(parents=True)
        (theirs / made.ABOUT).write_bytes((home / made.ABOUT).read_bytes())
        (theirs / "bin" / "python").symlink_to(sys.executable)

    runtime = made.require_installed(OLD, another_is_first).runtime
    assert len(told) == 1 and "installing" in told[0]
    assert runtime.python == str(theirs / "bin" / "python")
    assert sorted(each.name for each in theirs.iterdir()) == ["bin", made.ABOUT]
    assert [each.name for each in cache.iterdir()] == [theirs.name]


def test_removing_renames_first(cache: Path) -> None:
    kept = made_runtimes.require(OLD)
    home = Path(kept.runtime.python).parents[1]
    os.environ["XDG_CACHE_HOME"] = str(cache.parents[1])
    copied = cache / home.name
    (copied / "bin").mkdir(parents=True)
    (copied / made.ABOUT).write_bytes((home / made.ABOUT).read_bytes())
    (copied / "bin" / "python").symlink_to(sys.executable)
    assert [each.name for each in made.installed()] == [OLD]
    assert ortune.runtime("remove", OLD).result.changed == (OLD,)
    assert list(cache.iterdir()) == []
    assert ortune.runtime("remove", OLD).result.changed == ()


def test_what_is_emulated_is_compared_and_never_timed(tmp_path: Path) -> None:
    made_runtimes.require("qnn")
    model = tmp_path / "m.onnx"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[8, 4] x) => (float[8, 4] y) { y = Relu(x) }'
    onnx.save(parser.parse_model(text), model)
    envelope = ortune.compare(model, b_runtime="qnn", budget="30s", store=tmp_path / "store")
    if platform.machine() == "x86_64":
        assert envelope.verdict == "functional-only"
        assert any("emulate" in f.what and "QNN" in f.what for f in envelope.result.findings)


def test_a_plug_in_for_a_later_onnxruntime_is_a_failure_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plug-in's wheel, laid beside a release that is older than it takes."""
    newer = made_runtimes.require("qnn").runtime
    older = made_runtimes.require(OLD).runtime
    site = next(Path(newer.python).parents[1].glob("lib/python*/site-packages"))
    for part in site.glob("onnxruntime_qnn*"):
        (tmp_path / part.name).symlink_to(part)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = find_target("qnn").discover(probe(older.python))
    assert not report.usable
    facts(report.why, "onnxruntime 1.22.1", "cannot register", "onnxruntime-qnn 2.7.0")


def test_a_wheel_of_the_users_own_is_adopted(cache: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "onnxruntime_openvino-1.24.1-cp311-cp311-linux_x86_64.whl"
    assert recipes(str(wheel)) == ()
    with pytest.raises(UsageError, match="not a readable ONNX Runtime wheel"):
        ortune.runtime("add", str(wheel))
    wheel.write_bytes(b"no wheel")
    (recipe,) = require_recipes(str(wheel))
    assert recipe.name == "onnxruntime-openvino==1.24.1+local"
    assert recipe.requirements[0] == str(wheel) and recipe.version == "1.24.1"
    # By its name it is found again, and no index is asked for the release in its place.
    assert require_recipes(recipe.name)[0].requirements[0] == recipe.name
    with pytest.raises(RuntimeNotFound, match="installation failed"):
        ortune.runtime("add", str(wheel))
    assert not any(file.name.endswith("+local-py3.11") for file in cache.iterdir())
    other = tmp_path / "numpy-2.0.0-cp311-cp311-linux_x86_64.whl"
    other.write_bytes(b"")
    assert recipes(str(other)) == ()


def test_a_folder_of_libraries_is_the_released_wheel_of_the_same_release(cache: Path, tmp_path: Path) -> None:
    for number, (release, libraries) in enumerate(
        {
            "onnxruntime==1.24.4": ("lib/libonnxruntime.so.1.24.4", "lib/libonnxruntime_providers_shared.so"),
            "onnxruntime-gpu==1.24.4": ("libonnxruntime.so.1.24.4", "libonnxruntime_providers_cuda.so"),
            "onnxruntime==1.27.1": ("libonnxruntime.1.27.1.dylib",),
        }.items()
    ):
        folder = tmp_path / str(number)
        for library in libraries:
            (folder / library).parent.mkdir(parents=True, exist_ok=True)
            (folder / library).touch()
        (recipe,) = require_recipes(str(folder))
        assert recipe.name == recipe.requirements[0] == release
        facts(recipe.note, str(folder), "no Python package", release)
    (tmp_path / "0" / "lib" / "libonnxruntime_providers_imaginary.so").touch()
    with pytest.raises(UsageError, match="no released wheel has imaginary"):
        ortune.runtime("add", str(tmp_path / "0"))
    # A plug-in is not in the wheel, and has a name of its own.
    (tmp_path / "2" / "onnxruntime_providers_webgpu.dll").touch()
    facts(require_recipes(str(tmp_path / "2"))[0].note, "plug-ins", "webgpu")
    # As the wheels of these plug-ins call their libraries.
    (tmp_path / "0" / "lib" / "libonnxruntime_providers_imaginary.so").unlink()
    (tmp_path / "0" / "lib" / "libonnxruntime_providers_openvino_plugin.so.1.8.1").touch()
    (tmp_path / "0" / "lib" / "libonnxruntime_providers_nv_tensorrt_rtx.so").touch()
    facts(require_recipes(str(tmp_path / "0"))[0].note, "plug-ins", "openvino", "tensorrt-rtx")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no Python interpreter and no ONNX Runtime library"):
        ortune.runtime("add", str(tmp_path / "empty"))
    assert not cache.exists() and ortune.runtime("remove", str(tmp_path / "2")).result.changed == ()


@pytest.mark.skipif(
    sys.platform != "linux", reason="only libraries of Linux name the release that they export"
)
def test_the_release_of_a_library_is_read_from_what_it_exports(tmp_path: Path) -> None:
    library = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"), None)
    if library is None:
        pytest.skip("this wheel has no separate library")
    (tmp_path / "libonnxruntime.so").symlink_to(library)
    assert [one.version for one in recipes(str(tmp_path))] == [onnxruntime.__version__]


def test_an_environment_is_used_as_it_is(cache: Path) -> None:
    with pytest.raises(UsageError, match="used as it is") as caught:
        ortune.runtime("add", sys.prefix)
    assert f"--runtime {sys.prefix}" in (caught.value.do or "")
    assert not cache.exists()


def test_a_provider_that_another_runtime_has_is_said_to_be_there() -> None:
    made_runtimes.require("openvino")
    report = find_target("openvino").discover(probe(sys.executable))
    assert not report.usable
    facts(report.why, "not in this build", "runtime openvino")
    assert report.do == "add --runtime openvino"


def test_who_lacks_a_provider_is_told_of_the_runtime_that_has_it() -> None:
    made_runtimes.require("qnn")
    with pytest.raises(MeasurementError, match="fell back to CPUExecutionProvider") as caught:
        ortune.bench(datasets.get_example("sigmoid.onnx"), target="qnn", runtime=sys.executable, budget="5s")
    assert "add runtime qnn" in caught.value.do


def test_a_target_that_another_runtime_has_takes_that_runtime() -> None:
    made_runtimes.require("openvino")
    found = ortune.look(datasets.get_example("sigmoid.onnx"), target="openvino", budget="10s")
    assert found.result is not None and found.result.runtime is not None
    assert "openvino" in found.result.runtime.package or "openvino" in found.result.runtime.python


@pytest.mark.parametrize("name", ["../..", "/", ".", "unheard-of"])
def test_what_ortune_did_not_add_is_not_removed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="not a runtime that ortune added"):
        ortune.runtime("remove", name)


def test_adding_and_removing_end_in_one_line() -> None:
    about = MadeRuntime(
        name="openvino",
        requirements=(),
        runtime=Runtime(python="/made/bin/python", ort_version="1.24.1"),
        size_bytes=3 << 30,
    )
    for action, line in (
        ("add", "made openvino (3.00 GiB); use it with --runtime openvino"),
        ("remove", "removed openvino"),
    ):
        result = RuntimeResult(action=action, folder="/made", runtimes=(about,), changed=("openvino",))
        document = runtime_words.document(
            Envelope(schema="ortune/runtime/1", ortune="", status="ok", result=result)
        )
        assert [block.text for block in document.blocks if isinstance(block, Line)] == [line]
        assert len(document.blocks) == 1


def test_archives_for_other_machines_are_removed_with_their_runtime(cache: Path) -> None:
    end, digest = "-py3.11-linux-x86_64.zip", 16 * "a"
    archives = {f"{OLD}{end}": OLD, f"{OLD}+local-{digest}{end}": f"{OLD}+local", f"{OLD}0{end}": f"{OLD}0"}
    made.packed_folder().mkdir(parents=True)
    for name in archives:
        (made.packed_folder() / name).touch()
    assert made.remove(OLD) and not made.remove(OLD)
    assert {file.name for file in made.packed_folder().iterdir()} == {*archives} - {f"{OLD}{end}"}


def test_unfinished_archives_of_ended_processes_are_removed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UV_OFFLINE", "UV_NO_INDEX", "UV_NO_CACHE", "PIP_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    for pid in (os.getpid(), 99_999_999):
        (made.packed_folder() / f"{installing.PART}{pid}-{OLD}-py3.11-linux-x86_64" / "packages").mkdir(
            parents=True
        )
    there = Runtime(
        python="./on-board",
        python_version="3.11.4",
        host=msgspec.structs.replace(host(), system="Linux", machine="x86_64"),
    )
    with pytest.raises(RuntimeNotFound):
        packed(OLD, there, print)
    assert not list(made.packed_folder().iterdir())
