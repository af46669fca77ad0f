from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from conftest import ONNXRUNTIME_NODE, Bundle, matmul, one_node
from facts import facts
from ortune import platform
from ortune.records import Value

FEEDS = {"x": np.ones((2, 64), np.float32)}
SETTINGS: dict[str, Value] = {"intra_op_num_threads": 2}


@pytest.fixture(name="make_bundle")
def make_bundle_with_a_setting(make_bundle: Bundle) -> Bundle:
    """Makes bundles with a setting: without any, the code only opens the model."""

    def make(model: Path, feeds: object, settings: object = None, **changes: Any) -> Path:
        return make_bundle(model, feeds, SETTINGS if settings is None else settings, **changes)

    return make


def test_without_settings_it_only_opens_the_model(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path
) -> None:
    bundle = make_bundle(matmul(tmp_path / 'it\'s "mödel" ${x}.onnx'), FEEDS, {})
    assert len((bundle / "load.mjs").read_text("utf-8").splitlines()) < 20
    done = node(bundle / "load.mjs", bundle.parent, node_modules)
    assert done.returncode == 0, done.stderr
    facts(done.stdout, "loaded", "x")
    assert ask(bundle, node_modules, "(await load.load({ intraOpNumThreads: 1 })).outputNames") == ["y"]
    assert ask(bundle, node_modules, "typeof load.ort.Tensor") == "function"


def node(
    script: Path | str, folder: Path, modules: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a script (a file, or the text of a module) beside installed modules."""
    link = folder / "node_modules"
    if not link.exists():
        link.symlink_to(modules)
    arguments = [str(script)] if isinstance(script, Path) else ["--input-type=module", "-e", script]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "ORT_", "NODE_"))}
    return subprocess.run(
        ["node", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**kept, **variables},
        timeout=60,
        check=False,
    )


def check(bundle: Path, modules: Path) -> float:
    """The difference that ``node load.mjs`` prints."""
    done = node(bundle / "load.mjs", bundle.parent, modules)
    assert done.returncode == 0, done.stderr
    assert "a single observation" in done.stdout
    found = re.search(r"max difference from outputs/: (\S+)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return float(found.group(1))


def ask(bundle: Path, modules: Path, expression: str, **variables: str) -> object:
    """What an expression gives in a program that imported the bundle's module as ``load``."""
    url = json.dumps((bundle / "load.mjs").as_uri())
    script = f"const load = await import({url}); console.log(JSON.stringify({expression}))"
    done = node(script, bundle.parent, modules, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["net.onnx", 'it\'s "mödel" */ ${x}.onnx'])
def test_runs_beside_an_installed_runtime(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path, name: str
) -> None:
    model = matmul(tmp_path / name, "in 'put\" é")
    bundle = make_bundle(
        model, {"in 'put\" é": FEEDS["x"]}, {"intra_op_num_threads": 2, "allow_spinning": False}
    )
    assert check(bundle.rename(bundle.with_name("moved it.ortune")), node_modules) < 1e-4


def test_finds_the_runtime_of_the_working_folder(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    project = tmp_path / "project"
    project.mkdir()
    done = node(bundle / "load.mjs", project, node_modules)
    assert done.returncode == 0 and "max difference" in done.stdout


def test_without_the_runtime_it_says_what_to_install(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    empty = tmp_path / "empty"
    empty.mkdir()
    done = node(bundle / "load.mjs", tmp_path, empty)
    assert done.returncode != 0 and "npm install onnxruntime-node" in done.stderr


def test_settings_by_their_names_in_node(tmp_path: Path, make_bundle: Bundle, node_modules: Path) -> None:
    settings: dict[str, Value] = {
        "intra_op_num_threads": platform.host().effective_cpus + 3,
        "execution_mode": "parallel",
        "graph_optimization_level": "basic",
        "enable_cpu_mem_arena": False,
        "enable_mem_pattern": False,
        "allow_spinning": False,
        "dynamic_block_base": 4,
    }
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, settings)
    assert ask(bundle, node_modules, "load.sessionOptions()") == {
        "executionProviders": ["cpu"],
        "intraOpNumThreads": platform.host().effective_cpus + 3,
        "executionMode": "parallel",
        "graphOptimizationLevel": "basic",
        "enableCpuMemArena": False,
        "enableMemPattern": False,
        "extra": {"session": {"intra_op.allow_spinning": "0", "dynamic_block_base": "4"}},
    }
    assert check(bundle, node_modules) < 1e-4


def test_threads_fit_a_smaller_machine(tmp_path: Path, make_bundle: Bundle, node_modules: Path) -> None:
    here = platform.host().effective_cpus
    host = msgspec.structs.replace(platform.host(), effective_cpus=4096)
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"intra_op_num_threads": here + 3}, host=host)
    assert ask(bundle, node_modules, "load.sessionOptions().intraOpNumThreads") == here


def test_config_entries_reach_the_session(tmp_path: Path, make_bundle: Bundle, node_modules: Path) -> None:
    # A value that ONNX Runtime refuses shows that the entry arrived.
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"dynamic_block_base": 4})
    script = bundle / "load.mjs"
    script.write_text(
        script.read_text(encoding="utf-8").replace('"dynamic_block_base": "4"', '"dynamic_block_base": "x"')
    )
    assert node(script, bundle.parent, node_modules).returncode != 0


def test_what_node_cannot_set_is_printed(tmp_path: Path, make_bundle: Bundle, node_modules: Path) -> None:
    settings: dict[str, Value] = {
        "call_style": "io_binding",
        "global_thread_pool": 2,
        "process_affinity": "0",
    }
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, settings)
    done = node(bundle / "load.mjs", bundle.parent, node_modules)
    lines = [line for line in done.stdout.splitlines() if line.startswith("Node cannot set ")]
    assert [line.split()[3] for line in lines] == [
        "call_style=io_binding:", "global_thread_pool=min(2,", "process_affinity=0:",
    ]  # fmt: skip
    assert lines[2].endswith("start it with: taskset -c 0 PROGRAM")
    assert lines[2].removeprefix("Node cannot set ") in done.stderr
    assert "// process_affinity=0\n//     start it with: taskset" in (bundle / "load.mjs").read_text("utf-8")


def test_starts_again_with_the_environment(tmp_path: Path, make_bundle: Bundle, node_modules: Path) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"ort_intra_op_num_threads": 1})
    done = node(bundle / "load.mjs", bundle.parent, node_modules)
    assert "start with: ORT_INTRA_OP_NUM_THREADS=1 node load.mjs" in done.stdout
    assert done.stdout.count("CPUs") == 2 and done.returncode == 0


@pytest.mark.skipif(platform.allocator_library("mimalloc") is None, reason="mimalloc is not installed")
def test_a_preloaded_library_may_have_another_name(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"allocator": "mimalloc"})
    line = str(ask(bundle, node_modules, "load.startLine()"))
    assert line.startswith("LD_PRELOAD=")
    link = tmp_path / "libmimalloc.so"
    link.symlink_to(line.partition("=")[2])
    given = f"(process.env.LD_PRELOAD = {json.dumps(str(link))}, load.startLine())"
    assert ask(bundle, node_modules, given) == ""


def test_another_cpu_takes_the_plain_model(tmp_path: Path, make_bundle: Bundle, node_modules: Path) -> None:
    host = msgspec.structs.replace(platform.host(), cpu="Another CPU 9000")
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"graph_optimization_level": "disable"},
        rewritten=matmul(tmp_path / "cache" / "net.onnx"), hardware_bound=True, host=host,
    )  # fmt: skip
    (bundle / "net.onnx").unlink()
    done = node(bundle / "load.mjs", bundle.parent, node_modules)
    assert done.returncode == 0
    facts(done.stderr, "original model")
    assert ask(bundle, node_modules, "load.sessionOptions(false)") == {"executionProviders": ["cpu"]}


@pytest.mark.parametrize("bound", [True, False])
def test_a_bound_model_under_another_runtime_is_replaced_by_the_plain_one(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path, bound: bool
) -> None:
    host = msgspec.structs.replace(platform.host(), cpu="")  # any CPU
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"graph_optimization_level": "disable"},
        rewritten=matmul(tmp_path / "cache" / "net.onnx"), hardware_bound=bound, host=host,
    )  # fmt: skip
    script = bundle / "load.mjs"
    text = script.read_text(encoding="utf-8")
    for version, plain in ((ONNXRUNTIME_NODE, False), ("0.1.0", bound)):
        script.write_text(text.replace(json.dumps(ort.__version__), json.dumps(version)), encoding="utf-8")
        gone = bundle / ("net.onnx" if plain else "plain/net.onnx")
        gone.rename(bundle / "gone")
        done = node(script, bundle.parent, node_modules)
        (bundle / "gone").rename(gone)
        assert done.returncode == 0, done.stderr
        assert (f"{ONNXRUNTIME_NODE} here, tuned with 0.1.0" in done.stderr) == plain
    assert ("graphOptimizationLevel" in str(ask(bundle, node_modules, "load.sessionOptions(false)"))) != bound


@pytest.mark.skipif(platform.allocator_library("mimalloc") is None, reason="mimalloc is not installed")
def test_without_its_allocator_the_arena_stays_on(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path
) -> None:
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"allocator": "mimalloc", "enable_cpu_mem_arena": False}
    )
    asked = "[load.sessionOptions().enableCpuMemArena ?? null, load.withoutAllocator()]"
    lost = "allocator not loaded: mimalloc (Debian: apt install libmimalloc-dev); the arena stays on"
    assert ask(bundle, node_modules, asked) == [None, lost]
    library = str(platform.allocator_library("mimalloc"))
    assert ask(bundle, node_modules, asked, LD_PRELOAD=library) == [False, ""]


def test_a_mac_is_told_by_the_name_of_its_processor(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path
) -> None:
    model = matmul(tmp_path / "net.onnx")
    asked = "(await import('node:os')).cpus()[0].model.replace(/\\s+/g, ' ').trim()"
    name = str(ask(make_bundle(model, FEEDS), node_modules, asked))
    given = "(Object.defineProperty(process, 'platform', { value: 'darwin' }), load.otherHardware())"
    for cpu, said in ((name, ""), ("Apple M2", f"{name} here, tuned on Apple M2")):
        host = msgspec.structs.replace(platform.host(), cpu=cpu)
        assert ask(make_bundle(model, FEEDS, host=host), node_modules, given) == said


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TensorProto.FLOAT16, np.array([1.5, -2, 65504], np.float16)),
        (TensorProto.INT64, np.array([-(2**62), 3, 0])),
        (TensorProto.BOOL, np.array([True, False, True])),
        (TensorProto.STRING, np.array(["", "ü 'q\"", "a\nb"])),
    ],
)
def test_kinds_of_tensor(
    tmp_path: Path, make_bundle: Bundle, node_modules: Path, kind: int, values: np.ndarray
) -> None:
    model = one_node(
        tmp_path / "net.onnx", helper.make_node("Identity", ["x"], ["y"]),
        [helper.make_tensor_value_info("x", kind, ["n"])], [helper.make_tensor_value_info("y", kind, ["n"])],
    )  # fmt: skip
    assert check(make_bundle(model, {"x": values}), node_modules) == 0


def test_a_wrong_output_is_told(tmp_path: Path, make_bundle: Bundle, node_modules: Path) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    output = bundle / "outputs" / "output_0.pb"
    output.write_bytes(output.read_bytes()[:-4] + np.float32(1000).tobytes())
    assert check(bundle, node_modules) > 900


def test_a_sequence_is_loaded_and_not_fed(tmp_path: Path, make_bundle: Bundle, node_modules: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    length = helper.make_tensor_value_info("y", TensorProto.INT64, [])
    model = one_node(
        tmp_path / "net.onnx", helper.make_node("SequenceLength", ["s"], ["y"]), [sequence], [length]
    )
    bundle = make_bundle(model, {"s": [np.ones(2, np.float32)]})
    done = node(bundle / "load.mjs", bundle.parent, node_modules)
    assert done.returncode == 0
    facts(done.stdout, "Node", "cannot represent", '"s"')


def test_a_model_that_node_cannot_run_is_said_in_words(make_bundle: Bundle, node_modules: Path) -> None:
    model = Path(ort.__file__).parent / "datasets" / "logreg_iris.onnx"
    bundle = make_bundle(model, {"float_input": np.ones((3, 2), np.float32)})
    done = node(bundle / "load.mjs", bundle.parent, node_modules)
    assert done.returncode == 1
    facts(done.stderr, "onnxruntime-node", "cannot run")


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node")
def test_a_missing_runtime_is_one_line(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    done = subprocess.run(
        ["node", str(bundle / "load.mjs")],
        capture_output=True,
        text=True,
        cwd=bundle,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    facts(line, "onnxruntime-node is not installed", "npm install onnxruntime-node")
