from __future__ import annotations

import ast
import os
import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from conftest import Bundle, matmul, one_node, run_python
from facts import facts
from onnx_text import assemble
from ortune import platform
from ortune.records import ProviderSpec, Value

BASIC = {"graph_optimization_level": "basic"}
"""A setting; without any, the loader only opens the model."""
FEEDS = {"x": np.ones((2, 64), np.float32)}
MIMALLOC = platform.allocator_library("mimalloc")

LOOK = """
import sys
sys.path.insert(0, {folder!r})
import load, onnxruntime
session = load.load()
print(eval({question!r}))
"""


def ask(bundle: Path, question: str, **variables: str) -> str:
    """What an expression gives in a program that imported the bundle's ``load`` and made ``session``."""
    script = LOOK.format(folder=str(bundle), question=question)
    done = run_python("-W", "ignore", "-c", script, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def check(bundle: Path, **variables: str) -> str:
    """What ``python -I load.py`` prints, having found no difference."""
    done = run_python("-I", bundle / "load.py", **variables)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^latency [\d.]+ ms .*a single observation$", done.stdout, re.MULTILINE), done.stdout
    return done.stdout


def difference(printed: str) -> float:
    found = re.search(r"max difference from outputs/: (\S+)$", printed, re.MULTILINE)
    assert found, printed
    return float(found.group(1))


@pytest.mark.parametrize(
    "name", ["net.onnx", 'it\'s a "net".onnx', "mödel 模型.onnx", "a\\b$(x)`.onnx", "${x}@@MODEL@@.onnx"]
)
def test_runs_from_wherever_it_is_moved(tmp_path: Path, make_bundle: Bundle, name: str) -> None:
    model = matmul(tmp_path / "src" / name, "in 'put\" é\n#")
    bundle = make_bundle(model, {"in 'put\" é\n#": FEEDS["x"]}, {"intra_op_num_threads": 2})
    shutil.rmtree(tmp_path / "src")
    moved = bundle.rename(tmp_path / "else where.ortune")
    assert difference(check(moved)) < 1e-5


def test_needs_onnxruntime_alone(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, BASIC)
    question = "sorted({'ortune', 'onnx', 'msgspec', 'rich', 'typer', 'psutil'} & set(sys.modules))"
    assert ask(bundle, question) == "[]"
    ast.parse((bundle / "load.py").read_text(encoding="utf-8"), feature_version=(3, 8))


def test_every_channel_reaches_the_session(tmp_path: Path, make_bundle: Bundle) -> None:
    settings: dict[str, Value] = {
        "intra_op_num_threads": 1,
        "execution_mode": "parallel",
        "graph_optimization_level": "extended",
        "allow_spinning": False,
        "enable_mem_pattern": False,
        "arena_extend_strategy": "same_as_requested",
        "memory_arena_shrinkage": "cpu:0",
        "call_style": "io_binding",
    }
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, settings, providers=(ProviderSpec(name="CPUExecutionProvider"),)
    )
    o = "session.get_session_options()"
    question = (
        f"[{o}.intra_op_num_threads, {o}.execution_mode.name, {o}.graph_optimization_level.name, "
        f"{o}.enable_mem_pattern, {o}.get_session_config_entry('session.intra_op.allow_spinning'), "
        f"{o}.get_session_config_entry('session.use_env_allocators'), "
        "load.RUN_OPTIONS.get_run_config_entry('memory.enable_memory_arena_shrinkage'), load.CALL_STYLE]"
    )
    assert ast.literal_eval(ask(bundle, question)) == [
        1, "ORT_PARALLEL", "ORT_ENABLE_EXTENDED", False, "0", "1", "cpu:0", "io_binding",
    ]  # fmt: skip
    assert difference(check(bundle)) < 1e-5
    # A second session of the process: what is shared was given already.
    assert ask(bundle, "load.load() is not session") == "True"


def test_global_pool_reaches_the_session(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"global_thread_pool": 2})
    assert ask(bundle, "session.get_session_options().use_per_session_threads") == "False"
    assert difference(check(bundle)) < 1e-5


def test_threads_are_as_measured_and_on_fewer_cpus_at_most_those(tmp_path: Path, make_bundle: Bundle) -> None:
    here = platform.host()
    count = "session.get_session_options().intra_op_num_threads"
    for host, threads in (
        (here, here.effective_cpus + 3),
        (msgspec.structs.replace(here, effective_cpus=4096), here.effective_cpus),
    ):
        settings: dict[str, Value] = {"intra_op_num_threads": here.effective_cpus + 3}
        bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, settings, host=host, force=True)
        assert ask(bundle, count) == str(threads)


def test_environment_is_printed_and_the_script_starts_again_with_it(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"ort_intra_op_num_threads": 1})
    printed = check(bundle)
    assert "start with: ORT_INTRA_OP_NUM_THREADS=1 python load.py" in printed
    assert printed.count("tuned with") == 2
    assert check(bundle, ORT_INTRA_OP_NUM_THREADS="1").count("tuned with") == 1


@pytest.mark.skipif(MIMALLOC is None, reason="mimalloc is not installed")
def test_allocator_is_preloaded(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"allocator": "mimalloc"})
    printed = check(bundle)
    line = re.search(r"start with: LD_PRELOAD=(\S+) python load.py", printed)
    assert line and Path(line.group(1)).samefile(str(MIMALLOC))
    assert printed.count("tuned with") == 2
    mapped = "'libmimalloc' in open('/proc/self/maps').read()"
    assert ask(bundle, f"[load.start_line(), {mapped}]", LD_PRELOAD=line.group(1)) == "['', True]"
    assert ask(bundle, "load.start_line()").startswith("LD_PRELOAD=")
    # Under another name it is the same library, as in the image of deploy/Dockerfile.
    link = tmp_path / "libmimalloc.so"
    link.symlink_to(line.group(1))
    assert ask(bundle, f"[load.start_line(), {mapped}]", LD_PRELOAD=str(link)) == "['', True]"
    with_link = run_python(
        "-W", "error", "-c", f"import ortune; ortune.load({str(bundle)!r})", LD_PRELOAD=str(link)
    )
    assert with_link.returncode == 0, with_link.stderr


def test_process_settings_are_put_before_the_command(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"process_affinity": "0", "transparent_huge_pages": "never"}
    )
    if 0 not in os.sched_getaffinity(0):
        pytest.skip("CPU 0 is not ours")
    printed = check(bundle)
    assert ("start with: taskset -c 0 python load.py" in printed) == (platform.host().affinity > 1)
    after = "(load.set_process(), __import__('os').sched_getaffinity(0), load.start_line())[1:]"
    assert ask(bundle, after) == "({0}, '')"


STATUS = Path("/proc/self/status")
OFF = "'THP_enabled:\\t0' in __import__('pathlib').Path('/proc/self/status').read_text()"


@pytest.mark.skipif(
    not STATUS.exists() or "THP_enabled:\t1" not in STATUS.read_text(), reason="no huge pages to turn off"
)
def test_huge_pages_are_off_once_the_session_is_there(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    for value in ("never", "system"):
        bundle = make_bundle(model, FEEDS, {"transparent_huge_pages": value}, force=True)
        assert ask(bundle, OFF) == str(value == "never")
        done = run_python("-W", "error", "-c", f"import ortune; ortune.load({str(bundle)!r}); print({OFF})")
        assert (done.stdout.strip(), done.stderr) == (str(value == "never"), "")


def test_another_cpu_takes_the_plain_model_and_drops_what_belongs_to_this_one(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    plain = matmul(tmp_path / "net.onnx")
    rewritten = matmul(tmp_path / "cache" / "net-tuned.onnx")
    host = msgspec.structs.replace(platform.host(), cpu="Another CPU 9000")
    bundle = make_bundle(
        plain, FEEDS, {"graph_optimization_level": "disable", "process_affinity": "0"},
        rewritten=rewritten, hardware_bound=True, host=host,
    )  # fmt: skip
    done = run_python("-I", bundle / "load.py")
    assert done.returncode == 0
    facts(done.stderr, "tuned on another CPU", "original model")
    assert "taskset" not in done.stdout
    question = "session.get_session_options().graph_optimization_level.name"
    assert ask(bundle, question) == "ORT_ENABLE_ALL"
    (bundle / "net.onnx").unlink()  # so it is the plain one that is loaded
    assert difference(check(bundle)) < 1e-5


def test_a_wrong_output_is_told(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, BASIC)
    output = bundle / "outputs" / "output_0.pb"
    data = bytearray(output.read_bytes())
    data[-4:] = np.float32(1000).tobytes()
    output.write_bytes(data)
    assert difference(check(bundle)) > 900
    output.write_bytes(bytes(data).replace(b"\x08\x02\x08\x08", b"\x08\x04\x08\x04", 1))
    assert "shape or text" in check(bundle)


def test_without_outputs_it_says_so(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, BASIC, with_outputs=False)
    facts(check(bundle), "not compared", "no outputs")


def tensor(name: str, kind: int, shape: list[object]) -> object:
    return helper.make_tensor_value_info(name, kind, shape)


KINDS = {
    TensorProto.FLOAT16: np.array([1.5, -2, 65504], np.float16),
    TensorProto.DOUBLE: np.array([1e300, np.inf, np.nan]),
    TensorProto.INT64: np.array([-(2**62), 3, 0]),
    TensorProto.BOOL: np.array([True, False, True]),
    TensorProto.UINT8: np.array([0, 255, 7], np.uint8),
    TensorProto.STRING: np.array(["", "ü 'q\"", "a\nb"]),
}


def test_every_kind_of_tensor(tmp_path: Path, make_bundle: Bundle) -> None:
    nodes = [helper.make_node("Identity", [f"x{kind}"], [f"y{kind}"]) for kind in KINDS]
    inputs, outputs = ([tensor(f"{letter}{kind}", kind, ["n"]) for kind in KINDS] for letter in "xy")
    model = assemble(nodes, inputs, outputs, ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    bundle = make_bundle(tmp_path / "net.onnx", {f"x{kind}": values for kind, values in KINDS.items()}, BASIC)
    assert difference(check(bundle)) == 0


def test_scalars_and_empty_tensors(tmp_path: Path, make_bundle: Bundle) -> None:
    node = helper.make_node("Expand", ["x", "s"], ["y"])
    inputs = [tensor("x", TensorProto.FLOAT, []), tensor("s", TensorProto.INT64, [1])]
    model = one_node(tmp_path / "net.onnx", node, inputs, [tensor("y", TensorProto.FLOAT, ["n"])])
    feeds = {"x": np.array(3, np.float32), "s": np.array([0])}
    assert difference(check(make_bundle(model, feeds, BASIC))) == 0


def test_sequences(tmp_path: Path, make_bundle: Bundle) -> None:
    sequence = helper.make_tensor_sequence_value_info
    node = helper.make_node("SequenceInsert", ["s", "t"], ["y"])
    model = one_node(
        tmp_path / "net.onnx", node,
        [sequence("s", TensorProto.FLOAT, None), tensor("t", TensorProto.FLOAT, [2])],
        [sequence("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    feeds = {"s": [np.ones((3,), np.float32), np.zeros((2, 2), np.float32)], "t": np.ones(2, np.float32)}
    bundle = make_bundle(model, feeds, BASIC)
    assert difference(check(bundle)) == 0
    assert not (bundle / "feeds.npz").exists()


def test_maps(make_bundle: Bundle) -> None:
    model = Path(ort.__file__).parent / "datasets" / "logreg_iris.onnx"
    bundle = make_bundle(model, {"float_input": np.ones((3, 2), np.float32)}, BASIC)
    assert (bundle / "outputs" / "output_1.json").is_file()
    assert difference(check(bundle)) < 1e-6


def test_bfloat16(tmp_path: Path, make_bundle: Bundle) -> None:
    import ml_dtypes

    node = helper.make_node("Identity", ["x"], ["y"])
    kind = TensorProto.BFLOAT16
    model = one_node(tmp_path / "net.onnx", node, [tensor("x", kind, [3])], [tensor("y", kind, [3])])
    bundle = make_bundle(model, {"x": np.array([1, 2, 3], ml_dtypes.bfloat16)}, BASIC, with_outputs=False)
    shutil.copytree(bundle / "inputs", bundle / "outputs")
    (bundle / "outputs" / "input_0.pb").rename(bundle / "outputs" / "output_0.pb")
    assert difference(check(bundle)) == 0


ARENA = "session.get_session_options().enable_cpu_mem_arena"


@pytest.mark.skipif(MIMALLOC is None, reason="mimalloc is not installed")
def test_without_its_allocator_the_arena_stays_on(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"allocator": "mimalloc", "enable_cpu_mem_arena": False}
    )
    assert ask(bundle, ARENA) == "True"
    assert ask(bundle, ARENA, LD_PRELOAD=str(MIMALLOC)) == "False"
    done = run_python("-c", f"import sys; sys.path.insert(0, {str(bundle)!r}); import load; load.load()")
    assert "mimalloc (Debian: apt install libmimalloc-dev); skipped: enable_cpu_mem_arena=0" in done.stderr
    assert difference(check(bundle)) < 1e-5


def test_an_arena_that_is_off_by_itself_stays_off(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"enable_cpu_mem_arena": False})
    assert ask(bundle, ARENA) == "False"


def test_another_onnxruntime_takes_the_plain_model(tmp_path: Path, make_bundle: Bundle) -> None:
    rewritten = matmul(tmp_path / "cache" / "net.onnx")
    level = "session.get_session_options().graph_optimization_level.name"
    for bound, runs, text in (
        (True, "ORT_ENABLE_ALL", "another ONNX Runtime"),
        (False, "ORT_DISABLE_ALL", ""),
    ):
        bundle = make_bundle(
            matmul(tmp_path / "net.onnx"), FEEDS, {"graph_optimization_level": "disable"},
            rewritten=rewritten, hardware_bound=bound,
        )  # fmt: skip
        assert ask(bundle, level) == "ORT_DISABLE_ALL"
        script = bundle / "load.py"
        code = script.read_text(encoding="utf-8").replace(repr(ort.__version__), "'0.1.0'")
        script.write_text(code, encoding="utf-8")
        # What must not be read is taken away.
        (bundle / ("net.onnx" if bound else "plain/net.onnx")).unlink()
        done = run_python("-I", script)
        assert done.returncode == 0 and text in done.stderr
        assert ("original model" in done.stderr) == bound
        assert ask(bundle, level) == runs


def test_a_bundle_that_is_not_bound_runs_its_model_on_another_cpu(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    host = msgspec.structs.replace(platform.host(), cpu="Another CPU 9000")
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"graph_optimization_level": "basic"},
        rewritten=matmul(tmp_path / "cache" / "net.onnx"), host=host,
    )  # fmt: skip
    (bundle / "plain" / "net.onnx").unlink()
    assert ask(bundle, "session.get_session_options().graph_optimization_level.name") == "ORT_ENABLE_BASIC"
    assert difference(check(bundle)) < 1e-5


CALLS = """
import sys, threading
sys.path.insert(0, {folder!r})
import load, numpy as np
session = load.load()
made = []
session.io_binding = lambda make=session.io_binding: made.append(1) or make()
plain = lambda n, k: session.run(None, {{"x": np.full((n, 64), k, np.float32)}})[0]
bound = lambda n, k: load.run(session, {{"x": np.full((n, 64), k, np.float32)}})[0]
kept = [bound(*case) for case in {cases}]
assert all(np.array_equal(found, plain(*case)) for found, case in zip(kept, {cases}))
try:
    load.run(session, {{"x": np.ones((1, 3, 64), np.float32)}})
except Exception:
    pass
assert np.array_equal(bound({n}, 7), plain({n}, 7))
wrong = []
def caller(k):
    for _ in range(50):
        wrong.extend([] if np.array_equal(bound({n}, k), want[k]) else [k])
want = [plain({n}, k) for k in range(4)]
threads = [threading.Thread(target=caller, args=(k,)) for k in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
print(wrong, len(made), load.shapes_are_fixed(session))
"""


@pytest.mark.parametrize(
    ("fixed", "cases"), [(False, [(1, 1), (5, 2), (2, 3)]), (True, [(2, 1), (2, 2), (2, 3)])]
)
def test_one_binding_serves_every_call_of_a_thread(
    tmp_path: Path, make_bundle: Bundle, fixed: bool, cases: list[tuple[int, int]]
) -> None:
    model = matmul(tmp_path / "net.onnx")
    if fixed:
        made = onnx.load(model)
        for value in (made.graph.input[0], made.graph.output[0]):
            value.type.tensor_type.shape.dim[0].dim_value = 2
        onnx.save(made, model)
    bundle = make_bundle(model, FEEDS, {"call_style": "io_binding"})
    done = run_python("-c", CALLS.format(folder=str(bundle), cases=cases, n=2))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"[] 5 {fixed}"


def test_a_batch_is_split_and_put_together(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"rows_per_run": 2})
    ast.parse((bundle / "load.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    x = "__import__('numpy').arange(320, dtype='float32').reshape(5, 64)"
    same = f"bool((load.run(session, {{'x': {x}}})[0] == session.run(None, {{'x': {x}}})[0]).all())"
    assert ask(bundle, f"{same}, load._in_rows[session].split") == "(True, True)"


def test_without_settings_the_loader_only_opens_the_model(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    text = (bundle / "load.py").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 8))
    assert len([line for line in text.splitlines() if line.strip()]) <= 15
    assert (
        ask(bundle, "len(load.run(session, {'x': __import__('numpy').ones((2, 64), 'float32')})[0])") == "2"
    )
    done = run_python("-I", bundle / "load.py")
    assert done.returncode == 0 and "loaded" in done.stdout and "'x'" in done.stdout


def test_what_needs_more_than_the_model_has_the_whole_loader(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    other = matmul(tmp_path / "cache" / "net.onnx")
    for changes in ({"settings": {"intra_op_num_threads": 1}}, {"rewritten": other, "hardware_bound": True}):
        bundle = make_bundle(model, FEEDS, force=True, **changes)
        assert "def once_a_process" in (bundle / "load.py").read_text(encoding="utf-8")
