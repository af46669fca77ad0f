"""Recordings of applications that show one thing each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ortune.records import (
    Arrival,
    Frame,
    RecordedCalls,
    RecordedInput,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    Recording,
    ReplayedGain,
    ReplayedKind,
)
from ortune.rules import Facts

MS = 1_000_000
PLACES = (
    (
        Frame(file="lib/core.py", line=12, function="load", package="lib", version="1.2"),
        Frame(file="/srv/app.py", line=7, function="main"),
    ),
    (Frame(file="/srv/app.py", line=9, function="main"),),
)
WHERE = ("lib/core.py:12", "/srv/app.py:7")
CALLED = ("/srv/app.py:9",)


def calls(count: int = 100, **more: Any) -> RecordedCalls:
    values = {"key": 1, "place": 1, "count": count, "total_ns": count * MS, "inspected": count, **more}
    return RecordedCalls(**values)


def session(id: int = 1, **more: Any) -> RecordedSession:
    """One that lives from its creation to the end of its process, with one thread besides the caller's."""
    values = {
        "id": id, "process": 0, "model": 0, "place": 0, "start_ns": id * 10 * MS, "creation_ns": 5 * MS, "threads": 1,
        "used": {"intra_op_num_threads": 2}, "calls": (calls(),), **more,
    }  # fmt: skip
    return RecordedSession(**values)


def process(pid: int = 1, **more: Any) -> RecordedProcess:
    return RecordedProcess(**{"pid": pid, "cpus": tuple(range(4)), "onnxruntime": "1.32.0", **more})


def recorded(*sessions: RecordedSession, **more: Any) -> Facts:
    """What a program with these sessions was recorded as, on a machine with four CPUs."""
    values = {
        "elapsed_ns": 1000 * MS, "logical_cpus": 4, "processes": (process(),), "sessions": sessions, "places": PLACES,
        "models": (RecordedModel(path="/srv/m.onnx", sha256="ab", size_bytes=100),), **more,
    }  # fmt: skip
    return Facts(recording=Recording(**values))


def short(n: int, per_session: int = 1) -> list[RecordedSession]:
    """Sessions one after another, each for some calls."""
    few = (calls(per_session),)
    return [session(i, end_ns=i * 10 * MS + 8 * MS, calls=few) for i in range(1, n + 1)]


def inherited(threads: int) -> list[RecordedSession]:
    child = session(process=1, inherited=1, inherited_threads=threads, threads=0, creation_ns=0)
    return [session(threads=threads, calls=()), child]


def unused(id: int = 1, **more: Any) -> RecordedSession:
    """A session without calls."""
    return session(id, **{"calls": (), "memory_bytes": 94 << 20, **more})


def failed(id: int = 1, **more: Any) -> RecordedSession:
    """A session that could not be created."""
    providers = ("CUDAExecutionProvider", "CPUExecutionProvider")
    values = {
        "error": "Fail",
        "error_message": "no CUDA here\nat line 3",
        "providers": providers,
        "calls": (),
        **more,
    }
    return session(id, **values)


def arrivals(start_ms: int, count: int = 20) -> tuple[Arrival, ...]:
    """Calls of 8 ms each, 10 ms apart."""
    starts = ((start_ms + 10 * i) * MS for i in range(count))
    return tuple(Arrival(key=1, start_ns=start, took_ns=8 * MS, thread=0, active=1) for start in starts)


def workers(*starts_ms: int, threads: int) -> Facts:
    """One process for each start, with a session of so many threads that it calls from then on."""
    processes = tuple(process(n, arrivals=arrivals(start)) for n, start in enumerate(starts_ms))
    sessions = [session(process=n, threads=threads - 1) for n in range(len(starts_ms))]
    return recorded(*sessions, processes=processes)


def on_loop(start_ms: int, creation_ms: int = 50) -> Facts:
    """A session that the event loop creates while another is called from 100 ms on."""
    late = session(2, model=0, start_ns=start_ms * MS, creation_ns=creation_ms * MS, on_event_loop=True)
    return recorded(session(), late, processes=(process(arrivals=arrivals(100)),))


def between(between_ms: int, inside_ms: int, gap_ms: int = 10, **more: Any) -> Facts:
    """A session whose threads use so much CPU time between its 100 calls and in them."""
    pool = calls(
        pool_in_ns=inside_ms * MS, pool_in_wall_ns=100 * MS, pool_between_ns=between_ms * MS,
        pool_between_wall_ns=100 * gap_ms * MS,
    )  # fmt: skip
    return recorded(session(calls=(pool,), **more))


def masked(share: float, inspected: int = 10, name: str = "attention_mask", **more: Any) -> Facts:
    """A session with a mask that is filled so far."""
    texts = RecordedInput(name="input_ids", dtype="int64", shape=(2, 50))
    mask = RecordedInput(**{"name": name, "dtype": "int64", "shape": (2, 50), **more})
    counted = {"inspected": inspected, "mask_elements": 1000, "mask_set": int(1000 * share)}
    return recorded(session(calls=(calls(inputs=(texts, mask), **counted),)))


def reading(*indices: int, **more: Any) -> Facts:
    """A session with three outputs, of which the calling code reads some."""
    outputs = tuple(RecordedInput(name="", dtype="float32", shape=(1, n)) for n in (10, 20, 30))
    return recorded(session(calls=(calls(outputs=outputs, **{"outputs_read": indices, **more}),)))


def gained(kind: ReplayedKind, change: str = "") -> Facts:
    """A recording of which a replay confirmed a gain."""
    gain = ReplayedGain(kind=kind, change=change, cpu=(0.6, 0.5, 0.7), wall=(0.8, 0.7, 0.9), n_blocks=6)
    return replace(recorded(session()), gains=(gain,))


PINNED = ((0,), (5,))
RECORDED = {
    "APP001": (recorded(*short(8)), WHERE, recorded(*short(8, per_session=50))),
    "APP002": (recorded(session(1), session(2), session(3)), WHERE, recorded(*short(2, per_session=50))),
    "APP003": (
        recorded(*inherited(3), processes=(process(), process(2, parent=0))), WHERE,
        recorded(*inherited(0), processes=(process(), process(2, parent=0))),
    ),
    "APP004": (on_loop(150), WHERE, on_loop(50)),
    "APP005": (recorded(session(config_from_model=True)), WHERE, recorded(session())),
    "APP006": (
        recorded(session(thread_cpus=PINNED)), WHERE,
        recorded(session(thread_cpus=PINNED), processes=(process(cpus=tuple(range(8))),)),
    ),
    "APP007": (workers(0, 5, threads=4), WHERE, workers(0, 5, threads=2)),
    "APP008": (between(400, 3), WHERE, between(400, 3, used={"session.intra_op.allow_spinning": "0"})),
    "APP009": (masked(0.02), CALLED, masked(0.7)),
    "APP010": (gained("pool", "intra_op_num_threads=1"), WHERE, gained("arena")),
    "APP011": (gained("spinning", "allow_spinning=0"), WHERE, gained("pool")),
    "APP012": (gained("lists"), CALLED, recorded(session(calls=(calls(with_lists=100),)))),
    "APP013": (gained("strides"), CALLED, recorded(session(calls=(calls(not_contiguous=100),)))),
    "APP014": (gained("patterns", "enable_mem_pattern=0"), WHERE, recorded(session())),
    "APP015": (gained("batches"), CALLED, recorded(session())),
    "APP016": (
        gained("arena", "enable_cpu_mem_arena=1"), WHERE, recorded(session(options={"enable_cpu_mem_arena": False})),
    ),
    "APP017": (recorded(unused()), WHERE, recorded(unused(), ended_by="duration")),
    "APP018": (recorded(failed()), WHERE, recorded(failed(error="KeyboardInterrupt"))),
    "APP019": (reading(0), CALLED, reading(0, 1, 2)),
}  # fmt: skip
"""By code what a rule fires on, where it says that is, and what it is silent on."""
