from __future__ import annotations

import json
import warnings
from pathlib import Path

import msgspec
import numpy as np
import onnxruntime as ort
import pytest

import ortune
from conftest import Bundle, matmul, run_python
from facts import facts
from ortune import loader, platform
from ortune.bundle import digests
from ortune.errors import UsageError
from ortune.records import ProviderSpec, Value, Workload

FEEDS = {"x": np.ones((2, 64), np.float32)}
HEAVY = "{'msgspec', 'onnx', 'onnx_ir', 'rich', 'typer', 'psutil', 'jinja2', 'ortune.records'}"


def run(code: str, **variables: str) -> str:
    done = run_python("-c", code, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_loads_without_the_tuners_dependencies(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"allow_spinning": False})
    code = f"""
import sys
from ortune import load
print(sorted(({HEAVY} | {{'numpy', 'onnxruntime'}}) & set(sys.modules)))
session = load({str(bundle)!r})
entry = session.get_session_options().get_session_config_entry('session.intra_op.allow_spinning')
print(sorted({HEAVY} & set(sys.modules)), entry)
"""
    assert run(code).splitlines() == ["[]", "[] 0"]


def test_the_package_stays_whole() -> None:
    code = "import ortune; print([callable(f) for f in (ortune.load, ortune.compare, ortune.doctor, ortune.load)])"
    assert run(code) == "[True, True, True, True]"
    assert {"compare", "doctor", "load"} <= set(dir(ortune))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ortune.nothing


def test_gives_the_session_that_load_py_gives(tmp_path: Path, make_bundle: Bundle) -> None:
    settings: dict[str, Value] = {
        "intra_op_num_threads": platform.host().effective_cpus + 3,
        "graph_optimization_level": "extended",
        "execution_mode": "parallel",
        "enable_cpu_mem_arena": False,
        "allow_spinning": False,
        "set_denormal_as_zero": True,
    }
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, settings)
    code = f"""
import sys
sys.path.insert(0, {str(bundle)!r})
import load as own, ortune
for session in (own.load(), ortune.load({str(bundle)!r})):
    o = session.get_session_options()
    print(o.intra_op_num_threads, o.graph_optimization_level, o.execution_mode, o.enable_cpu_mem_arena,
          [o.get_session_config_entry(k) for k in ('session.intra_op.allow_spinning', 'session.set_denormal_as_zero')],
          session.get_providers())
"""
    mine, ours = run(code).splitlines()
    assert mine == ours
    assert mine.startswith(f"{platform.host().effective_cpus + 3} GraphOptimizationLevel.ORT_ENABLE_EXTENDED")


def test_what_a_process_shares_is_given_once(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    bundle = make_bundle(
        model, FEEDS, {"global_thread_pool": 2, "arena_extend_strategy": "same_as_requested"}
    )
    code = f"""
import numpy, ortune
for _ in range(2):
    session = ortune.load({str(bundle)!r})
    options = session.get_session_options()
    print(options.use_per_session_threads, options.get_session_config_entry('session.use_env_allocators'),
          session.run(None, {{'x': numpy.ones((2, 64), numpy.float32)}})[0].shape)
"""
    assert run(code).splitlines() == ["False 1 (2, 8)"] * 2


def test_own_providers_win(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    session = ortune.load(bundle, providers=[("CPUExecutionProvider", {})])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_is_silent_where_all_is_as_it_was(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"intra_op_num_threads": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ortune.load(bundle)


def test_says_where_huge_pages_stay_on(
    tmp_path: Path, make_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"transparent_huge_pages": "never"})
    monkeypatch.setattr(loader, "forbid_huge_pages", lambda: "not set: huge pages")
    with pytest.warns(UserWarning, match="not set: huge pages") as caught:
        ortune.load(bundle)
    assert caught[0].filename == __file__


def test_threads_fit_a_smaller_machine(tmp_path: Path, make_bundle: Bundle) -> None:
    here = platform.host().effective_cpus
    host = msgspec.structs.replace(platform.host(), effective_cpus=4096)
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"intra_op_num_threads": here + 3}, host=host)
    assert ortune.load(bundle).get_session_options().intra_op_num_threads == here


def test_warns_on_another_cpu_and_takes_the_plain_model(tmp_path: Path, make_bundle: Bundle) -> None:
    host = platform.host()
    other = msgspec.structs.replace(host, features=(*host.features, "avx2048"))
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"graph_optimization_level": "disable"},
        rewritten=matmul(tmp_path / "cache" / "net.onnx"), hardware_bound=True, host=other,
    )  # fmt: skip
    (bundle / "net.onnx").write_bytes(b"must not be read")
    digests.write(bundle)
    with pytest.warns(UserWarning, match="no avx2048 here.*the original model is used") as caught:
        session = ortune.load(bundle)
    assert caught[0].filename == __file__
    level = session.get_session_options().graph_optimization_level
    assert level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL


def test_warns_where_the_processor_lacks_the_number_type(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"allow_spinning": False})
    index = bundle / "ortune.json"
    read = json.loads(index.read_text())
    assert read["instructions"] == {}
    read["instructions"] = {"allow_spinning=0": ["avx2048"]}
    index.write_text(json.dumps(read))
    digests.write(bundle)
    with pytest.warns(UserWarning, match="allow_spinning=0 needs avx2048, which this processor lacks"):
        ortune.load(bundle)


def test_the_number_type_of_a_provider_names_its_instruction_sets(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"openvino_precision": "bf16"},
        providers=(ProviderSpec(name="OpenVINOExecutionProvider"),),
    )  # fmt: skip
    sets = ["avx512_bf16", "amx_bf16", "bf16"]
    assert json.loads((bundle / "ortune.json").read_text())["instructions"] == {
        "openvino_precision=bf16": sets
    }
    # The warning of load.py, without the execution provider that its session needs.
    code = f"""
import sys
sys.path.insert(0, {str(bundle)!r})
import load
print(load.INSTRUCTIONS)
load.without_instructions = lambda needed: ", ".join(needed)
load.load(providers=["CPUExecutionProvider"])
"""
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str({"openvino_precision=bf16": sets})
    assert "openvino_precision=bf16, which this processor lacks: other number types" in done.stderr


def test_warns_when_started_without_the_environment(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"ort_intra_op_num_threads": 1})
    with pytest.warns(UserWarning, match="start the process with: ORT_INTRA_OP_NUM_THREADS=1$"):
        ortune.load(bundle)


def test_native_code_of_a_bundle_is_loaded_only_when_named(tmp_path: Path, make_bundle: Bundle) -> None:
    library = tmp_path / "libops.so"
    library.write_bytes(b"no library")
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, workload=Workload(cases=(), custom_ops=(str(library),))
    )
    with pytest.raises(UsageError, match="only if you name them") as caught:
        ortune.load(bundle)
    assert "0-libops.so" in caught.value.do


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "not a bundle"),
        ("", "cannot be read"),
        ('{"schema": "ortune/bu', "cannot be read"),
        ("\xff\xfe", "cannot be read"),
        ("[]", "schema None"),
        ('{"schema": "ortune/bundle/99"}', "schema 'ortune/bundle/99'"),
        ('{"schema": "ortune/bundle/1"}', "the model name"),
        ('{"schema": "ortune/bundle/1", "model": 3, "plan": {"settings": {}}}', "the model name"),
        (
            '{"schema": "ortune/bundle/1", "model": "../net.onnx", "plan": {"settings": {}}}',
            "outside the bundle",
        ),
        (
            '{"schema": "ortune/bundle/1", "model": "gone.onnx", "plan": {"settings": {}}}',
            "gone.onnx is missing",
        ),
        (
            '{"schema": "ortune/bundle/1", "model": "net.onnx", "plan": {"settings": [1]}}',
            "the model name",
        ),
        ('{"schema": "ortune/bundle/1", "model": "net.onnx", "plan": {"settings": {}}}', "cannot be applied"),
    ],
)
def test_a_damaged_index_is_one_clear_error(
    tmp_path: Path, make_bundle: Bundle, text: str | None, said: str
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    index = bundle / "ortune.json"
    if text is None:
        index.unlink()
    else:
        index.write_bytes(text.encode("latin-1"))
        digests.write(bundle)
    with pytest.raises(UsageError, match=said):
        ortune.load(bundle)


def test_a_setting_this_version_lacks_is_named(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"enable_cpu_mem_arena": False})
    index = bundle / "ortune.json"
    read = json.loads(index.read_text())
    read["plan"]["settings"]["no_such_option"] = 1
    index.write_text(json.dumps(read))
    digests.write(bundle)
    with pytest.raises(UsageError, match="no_such_option") as caught:
        ortune.load(bundle)
    assert ort.__version__ in caught.value.what


def test_another_onnxruntime_takes_the_plain_model(tmp_path: Path, make_bundle: Bundle) -> None:
    for bound, level in ((True, "ORT_ENABLE_ALL"), (False, "ORT_DISABLE_ALL")):
        bundle = make_bundle(
            matmul(tmp_path / "net.onnx"), FEEDS, {"graph_optimization_level": "disable"},
            rewritten=matmul(tmp_path / "cache" / "net.onnx"), hardware_bound=bound,
        )  # fmt: skip
        index = bundle / "ortune.json"
        index.write_text(json.dumps({**json.loads(index.read_text()), "ort_version": "0.1.0"}))
        (bundle / ("net.onnx" if bound else "plain/net.onnx")).write_bytes(b"must not be read")
        digests.write(bundle)
        with warnings.catch_warnings(record=True) as caught:
            session = ortune.load(bundle)
        said = [str(w.message) for w in caught]
        assert len(said) == bound
        for text in said:
            facts(
                text,
                f"onnxruntime {ort.__version__} here",
                "tuned with 0.1.0",
                "original model",
                "ortune tune",
            )
        assert session.get_session_options().graph_optimization_level.name == level


def test_a_bundle_that_is_not_bound_is_as_it_is_on_another_cpu(tmp_path: Path, make_bundle: Bundle) -> None:
    host = msgspec.structs.replace(platform.host(), cpu="Another CPU 9000")
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"graph_optimization_level": "basic"},
        rewritten=matmul(tmp_path / "cache" / "net.onnx"), host=host,
    )  # fmt: skip
    (bundle / "plain" / "net.onnx").write_bytes(b"must not be read")
    digests.write(bundle)
    with pytest.warns(UserWarning, match="other settings may be faster here"):
        session = ortune.load(bundle)
    assert session.get_session_options().graph_optimization_level.name == "ORT_ENABLE_BASIC"


def test_what_belongs_to_the_call_is_named(tmp_path: Path, make_bundle: Bundle) -> None:
    settings: dict[str, Value] = {"call_style": "io_binding", "memory_arena_shrinkage": "cpu:0"}
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, settings)
    said = r"not applied: call_style=io_binding, memory_arena_shrinkage=cpu:0; .* run\(\) of .* load.py"
    with pytest.warns(UserWarning, match=said) as caught:
        ortune.load(bundle)
    assert caught[0].filename == __file__


@pytest.mark.skipif(platform.allocator_library("mimalloc") is None, reason="mimalloc is not installed")
def test_without_its_allocator_the_arena_stays_on(tmp_path: Path, make_bundle: Bundle) -> None:
    settings: dict[str, Value] = {"allocator": "mimalloc", "enable_cpu_mem_arena": False}
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, settings)
    code = f"""
import ortune, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(ortune.load({str(bundle)!r}).get_session_options().enable_cpu_mem_arena)
print([str(w.message) for w in caught if "Debian" in str(w.message)])
"""
    lost = "allocator not loaded: mimalloc (Debian: apt install libmimalloc-dev); the arena stays on"
    assert run(code).splitlines() == ["True", repr([lost])]
    preloaded = run(code, LD_PRELOAD=str(platform.allocator_library("mimalloc")))
    assert preloaded.splitlines() == ["False", "[]"]
