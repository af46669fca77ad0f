"""What a bundle changes in a program: settings, shared sessions, other models; and what is left alone."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from many_ways import RELEASES, SEMANTICS, environment
from onnxruntime import datasets
from programs import HEAD, applied, change, written

from onnx_text import model_of
from ortune.records import AppliedRun, SessionChange

SIGMOID = Path(datasets.get_example("sigmoid.onnx"))


def run(
    folder: Path, body: str, *changes: SessionChange, head: str = HEAD, words: tuple[str, ...] = ()
) -> tuple[AppliedRun, list[str]]:
    """Run a program that ends well, and return its lines."""
    done, printed, errors = applied(
        [sys.executable, written(folder, body, head=head), *words], *changes, folder=folder
    )
    assert errors == ""
    assert done.stopped == ()
    return done, printed.splitlines()


def same_program(python: str, folder: Path) -> None:
    """A program of many ways to use ONNX Runtime behaves with shared and set sessions as it does without."""
    app = written(folder, SEMANTICS, head=HEAD)
    command = [python, str(app)]
    without = subprocess.run(command, capture_output=True, text=True)
    assert without.returncode == 0, without.stderr
    where = "import onnxruntime.datasets as d; print(d.get_example('sigmoid.onnx'))"
    found = subprocess.run([python, "-c", where], capture_output=True, text=True).stdout.strip()
    setting = {"entries": {"session.intra_op.allow_spinning": "0"}, "options": {"intra_op_num_threads": 1}}
    changed = change(Path(found), share=True, keep_s=60.0, **setting)
    done, printed, errors = applied(command, changed, folder=folder)
    assert printed == without.stdout
    assert errors == without.stderr
    assert (done.code, done.stopped) == (0, ())
    (model,) = done.models
    assert model.created >= 1
    assert model.shared >= 3
    assert model.failed == 0
    assert {"not shared: IO binding", "not shared: set_providers"} <= model.kept.keys()


def test_the_program_is_the_same_with_changes(tmp_path: Path) -> None:
    same_program(sys.executable, tmp_path)


@pytest.mark.long  # installs each
@pytest.mark.parametrize(("release", "python", "numpy"), RELEASES, ids=[each[0] for each in RELEASES])
def test_it_is_the_same_with_changes_and_other_releases(
    release: str, python: str, numpy: str, tmp_path: Path
) -> None:
    same_program(environment(release, python, numpy), tmp_path)


def test_equal_requests_share_a_session_and_others_do_not(tmp_path: Path) -> None:
    done, lines = run(
        tmp_path,
        """
        def made(**named):
            options = ort.SessionOptions()
            for name, value in named.items(): setattr(options, name, value)
            return InferenceSession(MODEL, options)
        def entry(key, value):
            options = ort.SessionOptions(); options.add_session_config_entry(key, value)
            return InferenceSession(MODEL, options)
        def other(name, *words):
            options = ort.SessionOptions(); getattr(options, name)(*words)
            return InferenceSession(MODEL, options)
        first = InferenceSession(MODEL)
        equal = [InferenceSession(MODEL), made(), InferenceSession(open(MODEL, "rb").read()),
                 InferenceSession(MODEL, None, None)]
        others = [made(intra_op_num_threads=2), made(graph_optimization_level=ort.GraphOptimizationLevel(0)),
                  made(logid="mine"), entry("session.set_denormal_as_zero", "1"),
                  other("add_free_dimension_override_by_name", "batch", 3),
                  InferenceSession(MODEL, providers=["CPUExecutionProvider"]),
                  InferenceSession(MODEL, first.get_session_options())]
        print([s._sess is first._sess for s in equal])
        print([s._sess is first._sess for s in others])
        print([entry("session.set_denormal_as_zero", "1")._sess is others[3]._sess,
               other("add_free_dimension_override_by_name", "batch", 3)._sess is others[4]._sess,
               other("add_free_dimension_override_by_name", "batch", 4)._sess is others[4]._sess])
        print({tuple(s.run(None, X)[0].shape) for s in [first, *equal, *others]})
        profiled = made(enable_profiling=True, profile_file_prefix="/tmp/none"); os.remove(profiled.end_profiling())
        """,
        change(SIGMOID, share=True),
    )
    assert lines == [str([True] * 4), str([False] * 7), "[True, True, False]", "{(3, 4, 5)}"]
    (model,) = done.models
    assert (model.created, model.shared) == (10, 6)
    assert model.kept == {
        "not shared: profiling": 1,
        "not shared: its options are those of another session": 1,
    }


def test_a_shared_session_is_kept_for_its_time(tmp_path: Path) -> None:
    body = """
    import gc, time, weakref
    session = InferenceSession(MODEL); gone = weakref.ref(session._sess); session = None
    limit = time.monotonic() + (20 if "wait" in sys.argv else 0)
    while gone() is not None and time.monotonic() < limit: time.sleep(0.01)
    print(gone() is None, InferenceSession(MODEL)._sess is gone())
    """
    for keep_s, words, line in ((0.0, (), "True"), (300.0, (), "False True"), (0.2, ("wait",), "True")):
        _, lines = run(tmp_path, body, change(SIGMOID, share=True, keep_s=keep_s), words=words)
        assert lines[0].startswith(line)


def test_the_programs_options_are_not_touched_and_what_it_set_is_kept(tmp_path: Path) -> None:
    done, lines = run(
        tmp_path,
        """
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1; options.enable_mem_pattern = False
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        before = len(os.listdir("/proc/self/task"))
        session = InferenceSession(MODEL, sess_options=options)
        print(len(os.listdir("/proc/self/task")) - before)
        used = session.get_session_options()
        print(used.intra_op_num_threads, used.enable_mem_pattern, used.execution_mode,
              used.get_session_config_entry("session.set_denormal_as_zero"),
              used.get_session_config_entry("session.intra_op.allow_spinning"))
        print(options.intra_op_num_threads, options.get_session_config_entry("session.intra_op.allow_spinning"))
        print(session.run(None, X)[0].shape)
        """,
        change(
            SIGMOID,
            options={"intra_op_num_threads": 3, "execution_mode": "ORT_SEQUENTIAL"},
            entries={"session.intra_op.allow_spinning": "0"},
            what=["intra_op_num_threads=3"],
        ),
    )
    assert lines == ["2", "3 False ExecutionMode.ORT_SEQUENTIAL 1 0", "1 1", "(3, 4, 5)"]
    assert done.models[0].what == ("intra_op_num_threads=3",)


def test_what_onnx_runtime_refuses_is_left_out_and_errors_are_the_programs_own(tmp_path: Path) -> None:
    done, lines = run(
        tmp_path,
        """
        print(InferenceSession(MODEL).run(None, X)[0].shape)
        try: InferenceSession(MODEL, providers=["NoSuch"], provider_options=[{}, {}])
        except ValueError as error: print(type(error.__context__).__name__, type(error.__cause__).__name__)
        """,
        change(SIGMOID, options={"no_such_option": 3}, share=True),
    )
    assert lines[0] == "(3, 4, 5)"
    plain = subprocess.run(
        [sys.executable, str(tmp_path / "app.py")], capture_output=True, text=True, check=True
    )
    assert lines == plain.stdout.splitlines()
    assert done.models[0].failed == 2  # ONNX Runtime itself tries again
    assert any("no_such_option" in why for why in done.models[0].kept)


def of_size(folder: Path, name: str, batch: str, more: str = "") -> Path:
    """A model that doubles, or adds something else, to tell which one runs."""
    path = folder / name
    text = f"g (float[{batch},4] x) => (float[{batch},4] y) {{ y = Add (x, x) {more} }}"
    onnx.save(model_of(text.replace("y = Add (x, x) +", "y = Mul (x, x)")), path)
    return path


GUARDED = """
model, = sys.argv[1:]
session = InferenceSession(model)
def called(rows, session=session): return session.run(None, {"x": np.full((rows, 4), 3, np.float32)})[0][0, 0]
print(called(1), called(2), called(1), called(3))
print(session.get_inputs()[0].shape, session.get_inputs()[0].name, session.get_outputs()[0].shape)
value = ort.OrtValue.ortvalue_from_numpy(np.full((2, 4), 3, np.float32))
print(session.run_with_ort_values(None, {"x": value})[0].numpy()[0, 0])
print(InferenceSession(open(model, "rb").read()).run(["y"], {"x": [[3, 3, 3, 3]]})[0][0, 0])
import threading
found = []
def many(): found.extend((called(1), called(2)) for _ in range(20))
threads = [threading.Thread(target=many) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(set(found))
binding = session.io_binding()
binding.bind_cpu_input("x", np.full((2, 4), 3, np.float32)); binding.bind_output("y")
session.run_with_iobinding(binding); print(binding.copy_outputs_to_cpu()[0][0, 0])
session.set_providers(["CPUExecutionProvider"]); print(called(1), called(2))
print(session._model_path == model, session._model_bytes)
"""


@pytest.mark.parametrize("share", [False, True])
def test_a_model_is_replaced_for_the_shapes_that_it_is_for(tmp_path: Path, share: bool) -> None:
    theirs, ours = of_size(tmp_path, "theirs.onnx", "n"), of_size(tmp_path, "ours.onnx", "1", "+")
    replaced = change(
        theirs,
        share=share,
        replacement=str(ours),
        replacement_sha256=hashlib.sha256(ours.read_bytes()).hexdigest(),
        shapes=[[["x", [1, 4]]]],
        inputs=[["x", "tensor(float)", ["n", 4]]],
        outputs=[["y", "tensor(float)", ["n", 4]]],
    )
    done, lines = run(tmp_path, GUARDED, replaced, words=(str(theirs),))
    assert lines == [
        "9.0 6.0 9.0 6.0", "['n', 4] x ['n', 4]", "6.0", "9.0", str({(9.0, 6.0)}).replace("9.0", "np.float32(9.0)")
        .replace("6.0", "np.float32(6.0)"), "6.0", "6.0 6.0", "True None",
    ]  # fmt: skip
    (model,) = done.models
    assert model.what == ("model replaced",)
    assert 83 >= model.other_shapes >= 64


def test_an_execution_provider_is_chosen_if_the_build_has_it(tmp_path: Path) -> None:
    body = """
    print(opened().get_providers()[0])
    session = opened()
    session.set_providers(["CPUExecutionProvider"])
    print(session.get_providers()[0])
    """
    for name, first in (
        ("AzureExecutionProvider", "AzureExecutionProvider"),
        ("Other", "CPUExecutionProvider"),
    ):
        changed = change(SIGMOID, providers=[[name, {}], ["CPUExecutionProvider", {}]])
        done, printed = run(tmp_path, body, changed)
        assert printed == [first, "CPUExecutionProvider"]
        (model,) = done.models
        assert (model.created, model.failed) == (3, 0)
        not_on = {"not on Other": 2} if name == "Other" else {}
        assert (model.what, model.kept) == (() if not_on else (f"on {name}",), not_on)


def test_a_provider_replaces_the_devices_that_the_options_name(tmp_path: Path) -> None:
    body = """
    import warnings
    warnings.simplefilter("error")
    options = ort.SessionOptions()
    options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "CPUExecutionProvider"], {})
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    for _ in range(2):
        session = InferenceSession(MODEL, options)
        used = session.get_session_options().get_session_config_entry("session.set_denormal_as_zero")
        print(session.get_providers()[0], used, session.run(None, X)[0].shape)
    """
    for name, first in (
        ("AzureExecutionProvider", "AzureExecutionProvider"),
        ("Other", "CPUExecutionProvider"),
    ):
        changed = change(SIGMOID, providers=[[name, {}], ["CPUExecutionProvider", {}]])
        done, printed = run(tmp_path, body, changed)
        assert printed == [f"{first} 1 (3, 4, 5)"] * 2
        assert (done.models[0].created, done.models[0].failed) == (2, 0)


def test_a_replacement_that_was_changed_is_not_used(tmp_path: Path) -> None:
    theirs, ours = of_size(tmp_path, "theirs.onnx", "n"), of_size(tmp_path, "ours.onnx", "n", "+")
    replaced = change(theirs, replacement=str(ours), replacement_sha256="0" * 64)
    other = change(theirs, replacement=str(ours), replacement_sha256="0" * 64, version="1.2.3")
    body = "print(InferenceSession(sys.argv[1]).run(None, {'x': np.full((2, 4), 3, np.float32)})[0][0, 0])"
    for each, why in ((replaced, "its file was changed"), (other, "made for onnxruntime 1.2.3")):
        done, lines = run(tmp_path, body, each, words=(str(theirs),))
        assert lines == ["6.0"]
        assert done.models[0].kept == {f"model not replaced: {why}": 1}


def test_other_models_are_left_alone_and_named(tmp_path: Path) -> None:
    theirs = of_size(tmp_path, "theirs.onnx", "n")
    body = "InferenceSession(sys.argv[1]); InferenceSession(sys.argv[1]); InferenceSession(MODEL)"
    done, _ = run(
        tmp_path, body, change(b"another", options={"intra_op_num_threads": 1}), words=(str(theirs),)
    )
    assert done.unmatched == {"theirs.onnx": 2, "sigmoid.onnx": 1}
    assert (done.models[0].created, done.processes) == (0, 1)


def test_children_and_forks_are_changed_too(tmp_path: Path) -> None:
    done, lines = run(
        tmp_path,
        """
        import multiprocessing as mp
        kept = InferenceSession(MODEL)
        def work(number):
            ours = InferenceSession(MODEL)
            again = InferenceSession(MODEL)
            return ours._sess is again._sess, kept.run(None, X)[0].shape, ours.run(None, X)[0].shape
        if __name__ == "__main__":
            for way in ("fork", "spawn"):
                with mp.get_context(way).Pool(2) as pool: print(set(pool.map(work, range(2), 1)))
        """,
        change(SIGMOID, share=True, options={"intra_op_num_threads": 2}),
    )
    assert lines == ["{(True, (3, 4, 5), (3, 4, 5))}"] * 2
    assert done.processes >= 3
    assert done.missed == ()


def test_an_error_of_the_applier_ends_the_changes_and_nothing_else(tmp_path: Path) -> None:
    body = """
    applier = sys.modules["ortune_applier"]._APPLIER
    print(InferenceSession(MODEL).run(None, X)[0].shape)
    applier.hold = None
    for _ in range(2): print(InferenceSession(MODEL).run(None, X)[0].shape)
    """
    program = written(tmp_path, body)
    done, printed, errors = applied([sys.executable, program], change(SIGMOID, share=True), folder=tmp_path)
    assert printed.splitlines() == ["(3, 4, 5)"] * 3
    assert errors.count("ortune: changes stopped in process") == 1
    assert done.code == 0
    assert len(done.stopped) == 1


def test_a_thread_that_ended_with_a_lock_does_not_hold_up_the_end(tmp_path: Path) -> None:
    done, lines = run(
        tmp_path,
        """
        import signal, threading, time
        signal.alarm(30)
        sessions, held = [InferenceSession(MODEL), InferenceSession(MODEL)], threading.Event()
        lock = sys.modules["ortune_applier"]._APPLIER.lock
        # Names of its own: those of the program are freed at its end, with the sessions.
        names = {"lock": lock, "held": held.set, "sleep": time.sleep}
        threading.Thread(target=exec, args=("with lock: held(); sleep(60)", names), daemon=True).start()
        held.wait()
        """,
        change(SIGMOID, share=True),
    )
    assert (done.code, lines) == (0, [])
