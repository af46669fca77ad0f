"""A bundle whose winner runs on another ONNX Runtime than the user's: what it says, and what it does without it."""

from __future__ import annotations

import ast
import os
import platform
from pathlib import Path

import numpy as np
import pytest

import made_runtimes
import ortune
from conftest import Bundle, matmul, run_python
from facts import facts
from ortune import targets
from ortune.bundle import format as bundle_format
from ortune.errors import UsageError
from ortune.records import ProviderSpec
from ortune.runtimes import made
from ortune.runtimes.local_support import SOFTWARE_GPU
from targets_here import usable

PROVIDERS = (ProviderSpec(name="OpenVINOExecutionProvider"),)
CPU = "CPUExecutionProvider"
BUILD = "onnxruntime-openvino==1.24.1"
"""A whole build, on every machine: as ``openvino`` Intel's have a plug-in."""
COMMAND = f"pip install {BUILD}"
SOURCE = str(Path(ortune.__file__).parents[1])


def test_it_says_what_it_needs_and_runs_there(tmp_path: Path, make_bundle: Bundle) -> None:
    found = made_runtimes.require(BUILD)
    own = ortune.runtime().result.runtimes  # the user's is the one that the test runs under
    assert found in own
    adoption = made.adoption(found.runtime, made.find(None, print))
    assert adoption is not None
    assert 200e6 < adoption.size_bytes < 400e6
    assert (adoption.instead_of, adoption.licenses) == ("onnxruntime", ("MIT License",))
    model = matmul(tmp_path / "m.onnx")
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)}
    bundle = make_bundle(
        model, feeds, {"openvino_threads": 1}, providers=PROVIDERS, runtime=found.runtime, adoption=adoption
    )
    info = bundle_format.read(bundle)
    assert info.requirements == adoption.requirements
    assert info.ort_version == found.runtime.ort_version
    assert COMMAND in (bundle / "load.py").read_text()
    assert (
        "RUN pip install --no-cache-dir onnxruntime-openvino==1.24.1"
        in (bundle / "deploy" / "Dockerfile").read_text()
    )
    assert "needs ONNX Runtime 1.24.1 built with it" in (bundle / "load.cpp").read_text()
    there = run_python(bundle / "load.py", python=found.runtime.python)
    assert there.returncode == 0, there.stderr
    assert "with OpenVINOExecutionProvider" in there.stdout
    # A verb that runs the bundle takes a runtime with its packages, among all that ortune has made. On processors that
    # are not Intel's there are two, since `openvino` is the same wheel there.
    ran = ortune.bench(bundle, processes=3, runs=3, store=tmp_path / "store").result
    equal = [one.runtime for one in made.installed() if made.pinned(one) == info.requirements]
    assert found.runtime in equal
    assert ran.side.runtime in equal
    assert ran.side.plan.provider_names == ("OpenVINOExecutionProvider",)
    # The user's own build lacks the provider: an error, unless a fallback is asked for.
    here = run_python(bundle / "load.py")
    assert here.returncode == 1
    facts(here.stderr, "OpenVINOExecutionProvider", "not available", COMMAND, "load(fallback=True)")
    with pytest.raises(UsageError) as refusal:
        ortune.load(bundle)
    assert COMMAND in (refusal.value.do or "")
    runs_on_the_cpu_when_asked(bundle)


def runs_on_the_cpu_when_asked(bundle: Path) -> None:
    """The fallback is the untouched model on the CPU, by the bundle's own code and by ``ortune.load``."""
    here = run_python(bundle / "load.py", "--fallback")
    assert here.returncode == 0, here.stderr
    assert f"with {CPU}" in here.stdout
    facts(here.stderr, "original model", "CPU")
    with pytest.warns(UserWarning, match="the original model runs on the CPU"):
        session = ortune.load(bundle, fallback=True)
    assert session.get_providers() == [CPU]


@pytest.mark.parametrize("name", [BUILD, "openvino"])
def test_compiled_models_are_stored_where_the_program_says(
    name: str, tmp_path: Path, make_bundle: Bundle
) -> None:
    runtime = made_runtimes.require(name).runtime
    feeds = {"x": np.ones((4, 64), np.float32)}
    model = matmul(tmp_path / "m.onnx")
    bundle = make_bundle(model, feeds, {"openvino_cache": "1"}, providers=PROVIDERS, runtime=runtime)
    program, cache = tmp_path / "program", tmp_path / 'a "cache"'
    program.mkdir()

    def loads(call: str) -> list[str]:
        """What is stored after a program in its own folder loaded the bundle."""
        script = (
            f"import os, sys; os.chdir({str(program)!r}); sys.path[:0] = [{str(bundle)!r}, {SOURCE!r}]; "
            f"import load, ortune; bundle, cache = {str(bundle)!r}, {str(cache)!r}; "
            f"print({call}.get_providers()[0])"
        )
        done = run_python("-W", "ignore", "-c", script, python=runtime.python)
        assert done.stdout.strip() == PROVIDERS[0].name, done.stderr
        return sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.blob"))

    first = loads("load.load(cache=load.Path(cache))")
    assert [name.split("/")[0] for name in first] == [cache.name]
    # It is the same model whichever way it is loaded.
    assert loads("ortune.load(bundle, cache=cache)") == first
    assert list(program.iterdir()) == []
    assert {name.rpartition("/")[0] for name in loads("load.load()")} == {
        cache.name,
        "program/openvino-cache",
    }


@pytest.mark.parametrize("name", ["qnn", "webgpu"])
def test_a_provider_of_a_wheel_of_its_own_is_registered_by_the_bundle(
    name: str, tmp_path: Path, make_bundle: Bundle
) -> None:
    target = targets.find(name)
    usable(target)
    found = made_runtimes.require(name)
    assert name != "qnn" or found.emulated == (platform.machine() == "x86_64")
    software = {key: value for key, value in os.environ.items() if key == SOFTWARE_GPU}
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)}
    adoption = made.adoption(found.runtime, made.find(None, print))
    bundle = make_bundle(
        matmul(tmp_path / "m.onnx"),
        feeds,
        providers=target.providers,
        runtime=found.runtime,
        adoption=adoption,
    )
    ast.parse((bundle / "load.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    there = run_python(bundle / "load.py", python=found.runtime.python, **software)
    assert there.returncode == 0, there.stderr
    assert f"with {target.provider.name}" in there.stdout
    script = f"import ortune; print(ortune.load({str(bundle)!r}).get_providers())"
    loaded = run_python("-c", script, python=found.runtime.python, PYTHONPATH=SOURCE, **software)
    assert loaded.stdout.strip().endswith(f"['{target.provider.name}', '{CPU}']"), loaded.stderr
    here = run_python(bundle / "load.py")
    assert here.returncode == 1
    facts(here.stderr, target.provider.name, "not available")
    runs_on_the_cpu_when_asked(bundle)
