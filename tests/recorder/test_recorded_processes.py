"""What is recorded of child processes, of forks, and of processes that are killed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from programs import counts, run

from onnx_text import model_of
from ortune.recorder.anonymous import anonymous
from ortune.records import Recording


def own(recording: Recording) -> list[int]:
    """Calls of the sessions that were created, not inherited."""
    return sorted(session.n_calls for session in recording.sessions if not session.inherited)


def test_every_kind_of_child_is_recorded(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import multiprocessing as mp, subprocess
        def work(n):
            session = opened()
            for _ in range(n): session.run(None, X)
        if __name__ == "__main__" and len(sys.argv) > 1:
            work(1)
        elif __name__ == "__main__":
            for n, kind in enumerate(("fork", "spawn", "forkserver")):
                with mp.get_context(kind).Pool(1) as pool: pool.map(work, [10 + n])
            subprocess.run([sys.executable, __file__, "child"], check=True)
            if not os.fork(): os.execv(sys.executable, [sys.executable, __file__, "child"])
            os.wait()
        """,
    )
    assert own(recording) == [1, 1, 10, 11, 12]
    assert recording.missed == ()
    assert recording.code == 0
    assert recording.seen >= 6


def test_a_fork_keeps_its_sessions_and_loses_their_threads(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        session, unused = opened(3), opened(1)
        session.run(None, X)
        for n in range(50):
            if not os.fork():
                for _ in range(n % 3): session.run(None, X)
                os._exit(0)
        for _ in range(50): os.wait()
        session.run(None, X)
        """,
    )
    assert len(recording.processes) == 51
    assert own(recording) == [0, 2]
    inherited = [session for session in recording.sessions if session.inherited]
    assert len(inherited) == 100
    assert sorted({(s.inherited, s.inherited_threads, s.threads) for s in inherited}) == [
        (1, 2, 0),
        (2, 0, 0),
    ]
    assert sum(session.n_calls for session in inherited if session.inherited == 1) == sum(
        n % 3 for n in range(50)
    )
    assert {process.parent for process in recording.processes} == {-1, 0}


def test_what_was_recorded_survives_every_end(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import signal, threading
        def ends(how):
            session = opened()
            for _ in range(7): session.run(None, X)
            if how == "raise": os._exit(3)
            os.kill(os.getpid(), getattr(signal, how)); signal.pause()
        for how in ("SIGKILL", "SIGSEGV", "SIGABRT", "raise"):
            if not os.fork(): ends(how)
            print(os.wait()[1])
        ends("SIGTERM")
        """,
    )
    assert own(recording) == [7] * 5
    assert (recording.code, recording.ended_by) == (143, "SIGTERM")
    assert [session.end_ns for session in recording.sessions] == [None] * 5


def test_threads_share_a_session_and_no_call_is_lost(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import threading
        session = opened()
        def work():
            for _ in range(500): session.run(None, X)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]; [thread.join() for thread in threads]
        """,
    )
    assert counts(recording) == [(0, 4000)]
    (process,) = recording.processes
    assert len(process.arrivals) == 4000
    assert len({call.thread for call in process.arrivals}) <= 8
    assert 1 <= max(call.active for call in process.arrivals) <= 8
    assert 0 < process.recorder_ns < recording.elapsed_ns


def test_a_thread_that_ended_with_a_lock_does_not_hold_up_the_end(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import signal, threading, time
        signal.alarm(30)
        session, held = opened(), threading.Event()
        session.run(None, X)
        # Names of its own: those of the program are freed at its end, with the session.
        names = {"lock": sys.modules["ortune_recorder"]._RECORDER.lock, "held": held.set, "sleep": time.sleep}
        threading.Thread(target=exec, args=("with lock: held(); sleep(60)", names), daemon=True).start()
        held.wait()
        """,
    )
    assert recording.code == 0
    assert counts(recording) == [(0, 1)]


def test_an_error_of_the_recorder_ends_the_recording_and_nothing_else(tmp_path: Path, capfd: object) -> None:
    recording = run(
        tmp_path,
        """
        class Odd(list):
            @property
            def shape(self): raise RuntimeError("no shape")
        session = opened()
        session.run(None, X)
        for _ in range(3): print(session.run(None, {"x": Odd(X["x"].tolist())})[0].shape)
        opened().run(None, X)
        """,
    )
    assert recording.code == 0
    assert counts(recording) == [(0, 1)]
    assert "RuntimeError: no shape" in recording.processes[0].stopped
    printed, said = capfd.readouterr()  # type: ignore[attr-defined]
    assert printed == "(3, 4, 5)\n" * 3
    assert said.count("ortune: recording stopped in process") == 1


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path: Path, capfd: object) -> None:
    recording = run(
        tmp_path,
        """
        import shutil
        import time
        shutil.rmtree(os.environ["ORTUNE_RECORD"])
        print(opened().run(None, X)[0].shape, flush=True)
        time.sleep(0.3)  # longer than between two looks from outside
        """,
    )
    assert recording.code == 0
    assert recording.sessions == ()
    assert [missed.reason for missed in recording.missed] == ["unknown"]
    assert capfd.readouterr() == ("(3, 4, 5)\n", "")  # type: ignore[attr-defined]


def test_what_a_session_was_made_of_is_recorded(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import asyncio
        options = ort.SessionOptions()
        options.intra_op_num_threads = 3
        options.enable_cpu_mem_arena = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        def made(): return InferenceSession(open(MODEL, "rb").read(), options, providers=["CPUExecutionProvider"])
        session = made()
        session.run(None, X); session.run(None, {"x": X["x"].tolist()}); session.run(None, {"x": X["x"][..., ::-1]})
        result = session.run(None, X); session.run(None, {"x": result[0]})
        async def main(): return opened()
        asyncio.run(main())
        try: InferenceSession("none.onnx")
        except Exception: pass
        """,
    )
    first, second, failed = recording.sessions
    assert first.threads == 2 and len(first.thread_cpus) == 2
    assert first.options is not None
    assert first.options["intra_op_num_threads"] == first.used["intra_op_num_threads"] == 3
    assert first.used["enable_cpu_mem_arena"] is False
    assert first.used["session.intra_op.allow_spinning"] == "0"
    assert (first.providers, first.providers_used) == (("CPUExecutionProvider",), ("CPUExecutionProvider",))
    assert (first.on_event_loop, second.on_event_loop) == (False, True)
    assert (second.threads, second.providers) == (0, None)
    assert "NoSuchFile" in failed.error or failed.error
    assert recording.models[first.model].sha256 == recording.models[second.model].sha256 != ""
    assert recording.models[first.model].path == "" != recording.models[second.model].path
    assert [frame.function for frame in recording.places[first.place]] == ["made", "<module>"]
    calls = first.calls
    assert [each.inputs[0].shape for each in calls] == [(3, 4, 5)] * len(calls)
    assert sum(each.with_lists for each in calls) == 1
    assert sum(each.not_contiguous for each in calls) == 1
    assert sum(each.chained for each in calls) == 1
    assert first.creation_ns > 0 and first.end_ns is not None


def test_threads_of_a_creation_that_end_with_it_are_no_pool(tmp_path: Path) -> None:
    """The recorder counts the threads that exist after the first call, and outlives those that are gone."""
    recording = run(
        tmp_path,
        """
        import threading, time, ctypes
        from onnxruntime.capi import onnxruntime_inference_collection as module
        create = module.InferenceSession._create_inference_session.__wrapped__
        libc = ctypes.CDLL(None)
        started = ctypes.c_ulong()
        def with_a_thread(self, *words, **named):
            result = create(self, *words, **named)
            libc.pthread_create(ctypes.byref(started), None, libc.usleep, ctypes.c_void_p(20000))
            return result
        import ortune_recorder
        recorder = ortune_recorder._RECORDER
        module.InferenceSession._create_inference_session = (
            lambda self, *words, **named: recorder.create(with_a_thread, self, words, named)
        )
        for _ in range(3):
            session = opened(2); time.sleep(0.1); session.run(None, X)
        """,
    )
    assert [session.threads for session in recording.sessions] == [1, 1, 1]
    assert own(recording) == [1, 1, 1]
    assert recording.processes[0].stopped == ""


@pytest.mark.long
def test_ten_thousand_sessions_are_counted_in_a_bounded_file(tmp_path: Path) -> None:
    """More live sessions than rows: those without a row of their own share one, and are sessions all the same."""
    recording = run(
        tmp_path,
        """
        data, kept = open(MODEL, "rb").read(), []
        options = ort.SessionOptions(); options.intra_op_num_threads = 1
        for number in range(10000):
            session = InferenceSession(data, options)
            session.run(None, X)
            if number < 2500: kept.append(session)
        """,
    )
    assert len(recording.sessions) == 10000
    assert recording.processes[0].lost_events == 0
    assert {session.n_calls for session in recording.sessions} == {1}


def test_sessions_without_calls_have_their_memory_purpose_and_end(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        options = ort.SessionOptions()
        options.optimized_model_filepath = os.devnull
        InferenceSession(MODEL, options)
        session = InferenceSession(MODEL)
        session.set_providers(["CPUExecutionProvider"])
        session.run(None, X)
        try:
            InferenceSession("/nowhere/model.onnx", providers=["CPUExecutionProvider"])
        except Exception as error:
            print(error)
        """,
    )
    writes, first, again, failed = recording.sessions
    assert [session.writes_model for session in recording.sessions] == [True, False, False, False]
    assert [session.recreated for session in recording.sessions] == [False, True, False, False]
    assert [session.n_calls for session in recording.sessions] == [0, 0, 1, 0]
    assert all(isinstance(session.memory_bytes, int) for session in (writes, first, again))
    assert failed.providers == ("CPUExecutionProvider",)
    assert (failed.error, "nowhere" in failed.error_message) == ("NoSuchFile", True)
    assert not any(session.error_message for session in anonymous(recording).sessions)


def test_outputs_that_the_program_reads(tmp_path: Path) -> None:
    model = model_of("g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x) z = Abs (x) }")
    onnx.save(model, tmp_path / "two.onnx")
    recording = run(
        tmp_path,
        f"""
        session = InferenceSession({str(tmp_path / "two.onnx")!r})
        x = {{"x": np.ones(2, np.float32)}}
        def first(): return session.run(None, x)[0]
        def all(): return session.run(None, x)
        def one(): return session.run(["z"], x)[0]
        def values():
            y, z = session.run_with_ort_values(None, {{"x": ort.OrtValue.ortvalue_from_numpy(x["x"])}})
            return z
        first(); all(); one(); values()
        """,
    )
    read = [calls.outputs_read for calls in recording.sessions[0].calls]
    assert read == [(0,), None, None, (1,)]
