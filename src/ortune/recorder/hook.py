"""Records how a Python program uses ONNX Runtime. This file runs inside the program.

It is copied to a separate folder as ``ortune_recorder.py``, needs only the standard library from Python 3.8, and never
imports onnxruntime: when the program does, methods of its classes are wrapped in place. Everything is written at once,
so a killed process loses nothing:

``PID-TIME.log``
    One JSON object per line: the process, its sessions, call sites and shapes.
``PID-TIME.calls``
    A memory map of 64-bit integers: a header, counters per row, and the first calls one by one.
``PID-TIME.values``
    If values were requested: per call a line of JSON, followed by the bytes of its arrays.

An exception in this file switches the recorder off, and the program continues.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import struct
import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

FORMAT = 1
VARIABLE, WARNING = "ORTUNE_RECORD", "default::getpass.GetPassWarning"
"""Environment variable with the folder of the recording (this file does nothing if it is unset), and the warning
filter that loads this file (see ``doors.py``)."""
VALUES = "ORTUNE_RECORD_VALUES"
"""Environment variable with the number of calls per row whose inputs and outputs are stored; 0 if it is unset."""
PACKAGE = "onnxruntime"
MODULE = "onnxruntime.capi.onnxruntime_inference_collection"
MARK = "_ortune_recorded"
CALLS = ("run", "run_with_ort_values", "run_with_iobinding", "run_with_ortvaluevector", "run_async")

HEADER, ROWS, FIELDS, KEPT, CALL = 16, 2048, 16, 16384, 4
"""Integers in the header, rows, integers per row, calls that are recorded individually, and integers per call."""
LOG_BYTES, VALUE_BYTES = 16 << 20, 64 << 20
WHOLE, SAMPLED = 200, 64
"""Number of first calls of a call site that are all inspected, and the period of later inspections in calls."""
FRAMES, THREADS, MASK, MESSAGE = 6, 16, 1 << 16, 300
# Header.
FORMAT_AT, ROWS_AT, CALLS_AT, OWN_NS, CALL_NS, LOST, PLAIN_NS = range(7)
# A row. Its first four are written together. The last is its key, which differs from that of a later row in its place.
(COUNT, TOTAL_NS, LEAST_NS, MOST_NS, FAILED, INSPECTED, LISTS, STRIDED, CHAINED, MASKS, ONES, IN_NS, IN_WALL_NS,
 BETWEEN_NS, BETWEEN_WALL_NS, KEY) = range(FIELDS)  # fmt: skip

OPTIONS = (
    "intra_op_num_threads", "inter_op_num_threads", "execution_mode", "graph_optimization_level",
    "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "enable_profiling",
    "use_deterministic_compute", "use_per_session_threads",
)  # fmt: skip
ENTRIES = (
    "session.intra_op.allow_spinning", "session.inter_op.allow_spinning", "session.force_spinning_stop",
    "session.intra_op_thread_affinities", "session.set_denormal_as_zero", "session.disable_prepacking",
    "session.use_env_allocators", "session.use_device_allocator_for_initializers",
    "session.use_ort_model_bytes_directly",
    "session.enable_quant_qdq_cleanup", "session.disable_cpu_ep_fallback", "optimization.enable_gelu_approximation",
)  # fmt: skip
VARIABLES = (
    "ORT_LOAD_CONFIG_FROM_MODEL", "ORT_INTRA_OP_NUM_THREADS", "ORT_INTER_OP_NUM_THREADS", "ORT_DISABLE_TELEMETRY",
    "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "MALLOC_ARENA_MAX", "LD_PRELOAD",
)  # fmt: skip

_STEPS = {
    "LOAD_CONST": "CONST", "LOAD_SMALL_INT": "CONST", "UNPACK_SEQUENCE": "UNPACK", "STORE_NAME": "SET",
    "STORE_GLOBAL": "SET", "LOAD_NAME": "GET", "LOAD_GLOBAL": "GET",
}  # fmt: skip
_NAMESPACES = frozenset(("locals", "vars", "eval", "exec"))
"""Names of functions by which code may read any variable."""

_now = time.perf_counter_ns
_cpu = time.thread_time_ns  # its result excludes the waits of a busy machine
_frame = sys._getframe
_write = struct.Struct("=4q").pack_into


class Counters:
    """Counters of one row; counters that change at every call are kept here and copied to the memory map together.

    Attributes:
        row: Index in the memory map; 0 if no row was free, in which case the counts are written when the session ends.
        key: Number of the row in the log.
        at: Offset in the memory map, in bytes.
    """

    __slots__ = ("at", "count", "key", "least_ns", "most_ns", "row", "total_ns")

    def __init__(self, row: int, key: int) -> None:
        self.row, self.key, self.at = row, key, 8 * (HEADER + row * FIELDS)
        self.count = self.total_ns = self.most_ns = 0
        self.least_ns = 1 << 62


class CallSite:
    """A place in the program that calls a session.

    Attributes:
        rows: Counters by signature.
        count: Number of calls.
        code, lasti: Code that contains the call, and the offset of the call in it; None and 0 if unknown.
        reads: Indices of the result that the code reads, in a tuple, so that they are found once; None if unknown.
    """

    __slots__ = ("code", "count", "id", "lasti", "reads", "rows")

    def __init__(self, id: int, code: Any, lasti: int) -> None:
        self.id, self.code, self.lasti, self.count = id, code, lasti, 0
        self.reads: Tuple[Optional[Set[int]], ...] = ()
        self.rows: Dict[Any, Counters] = {}


class State:
    """State of one recorded session."""

    __slots__ = ("active", "id", "placed", "pool_ns", "pool_wall_ns", "ref", "returned", "sites", "tids")

    def __init__(self, id: int, ref: Any, tids: List[int]) -> None:
        self.id, self.ref, self.tids = id, ref, tids
        self.active, self.placed = 0, False
        self.sites: Dict[Any, CallSite] = {}
        self.pool_ns = self.pool_wall_ns = -1
        self.returned: List[Any] = []


class Recorder:
    """Records one process; a forked child starts a new recording."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.off = False
        self.home = ""  # folder of onnxruntime, to exclude its frames from the program's
        self.version = ""
        words = os.environ.get(VALUES, "")
        self.values = int(words) if words.isdigit() else 0
        self.states: Dict[int, State] = {}
        self.local = threading.local()
        self.begin("")

    def begin(self, parent: str) -> None:
        """Reset the state for a new process."""
        self.lock = threading.RLock()
        self.parent = parent
        self.name = ""
        self.log_fd = self.log_bytes = self.values_fd = -1
        self.value_bytes = 0
        self.map: Any = None
        self.ints: Any = None
        self.known: Dict[Any, int] = {}
        self.free: List[int] = []
        self.sessions = self.creating = self.keys = self.kept = 0
        self.threads: Dict[int, int] = {}
        self.contents: Dict[Tuple[int, int], str] = {}

    def stopped(self) -> bool:
        """Return whether recording has ended."""
        # At the end of the interpreter a thread that held the lock is gone, so waiting for the lock would never end.
        return self.off or sys.is_finalizing()

    # Log and counters.

    def write(self, **event: Any) -> None:
        """Append an event to the log; an event beyond the size limit is only counted as lost."""
        if self.log_fd < 0:
            self.open()
        line = (
            json.dumps(event, separators=(",", ":"), default=repr).encode("utf-8", "backslashreplace") + b"\n"
        )
        with self.lock:
            if self.log_bytes + len(line) > LOG_BYTES:
                if self.ints is not None:
                    self.ints[LOST] += 1
                return
            self.log_bytes += len(line)
            os.write(self.log_fd, line)

    def open(self) -> None:
        """Create the log of this process and describe the process in it."""
        self.name = "%d-%d" % (os.getpid(), time.time_ns())
        path = os.path.join(self.folder, self.name + ".log")
        self.log_fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.log_bytes = 0
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read(4096).decode("utf-8", "backslashreplace").split("\0")
        self.write(
            e="process", format=FORMAT, pid=os.getpid(), ppid=os.getppid(), parent=self.parent, ns=_now(),
            python="%d.%d.%d" % sys.version_info[:3], executable=sys.executable, prefix=sys.prefix, argv=words[:-1],
            folder=os.getcwd(), cpus=sorted(os.sched_getaffinity(0)), logical=os.cpu_count(), version=self.version,
            home=self.home, variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
        )  # fmt: skip

    def counters(self) -> Any:
        """Create the memory map of this process, and return it as a sequence of integers."""
        size = 8 * (HEADER + ROWS * FIELDS + KEPT * CALL)
        path = os.path.join(self.folder, self.name + ".calls")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)  # a full disk is an error here, and would raise a signal later
            self.map = mmap.mmap(fd, size)
            self.ints = memoryview(self.map).cast("B").cast("q")
        finally:
            os.close(fd)
        self.ints[FORMAT_AT] = FORMAT
        self.ints[CALL_NS] = wrapper_ns()
        return self.ints

    def interned(self, kind: str, value: Any, **more: Any) -> int:
        """Return the number of a value, and write the value if it is new."""
        key = kind, value
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = len(self.known)
            self.write(e=kind, id=number, v=value, **more)
        return number

    def fail(self) -> None:
        """Switch the recorder off after an internal error, and report the error once."""
        if self.off or sys is None or sys.is_finalizing():
            self.off = True
            return
        self.off = True
        kind, error, trace = sys.exc_info()
        if isinstance(error, OSError) and not os.access(self.folder, os.W_OK):
            return  # the recording has ended or cannot be written, which ``ortune record`` observes from outside
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = trace.tb_lineno if trace is not None else 0
        text = "ortune: recording stopped in process %d: %s: %s (line %d)\n" % (
            os.getpid(), getattr(kind, "__name__", ""), error, where,
        )  # fmt: skip
        try:
            self.write(e="off", why=text)
            os.write(2, text.encode("utf-8", "backslashreplace"))
        except Exception:
            pass

    # Sessions.

    def create(self, original: Callable[..., Any], session: Any, args: Any, kwargs: Any) -> Any:
        """Create a session as requested by the program, and record it."""
        if self.stopped():
            return original(session, *args, **kwargs)
        began_ns = _cpu()
        asked = before = None
        try:
            asked = read_options(getattr(session, "_sess_options", None))
            before = tasks(), resident_bytes()
            with self.lock:
                self.creating += 1
                alone = self.creating == 1
        except Exception:
            self.fail()
            return original(session, *args, **kwargs)
        self.local.inside = True
        own_ns, start_ns = _cpu() - began_ns, _now()
        try:
            result = original(session, *args, **kwargs)
        except BaseException as error:
            self.created(session, args, kwargs, asked, before, alone, own_ns, start_ns, error)
            raise
        self.created(session, args, kwargs, asked, before, alone, own_ns, start_ns, None)
        return result

    def created(
        self, session: Any, args: Any, kwargs: Any, asked: Any, before: Any, alone: bool, own_ns: int, start_ns: int,
        error: Any,
    ) -> None:  # fmt: skip
        """Record a session that was created, or could not be created because of an error."""
        end_ns, ended_ns = _now(), _cpu()
        self.local.inside = False
        try:
            with self.lock:
                alone = alone and self.creating == 1
                self.creating -= 1
            tids: List[int] = []
            memory_bytes = resident_bytes() - before[1] if alone else None
            if alone and error is None:
                own = {getattr(thread, "native_id", None) for thread in threading.enumerate()}
                tids = sorted(tasks() - before[0] - own)
            providers = args[0] if args else kwargs.get("providers")
            flag = bool(getattr(session, "_read_config_from_model", False))
            writes = bool(getattr(getattr(session, "_sess_options", None), "optimized_model_filepath", ""))
            self.add(
                session, self.model(session), asked, plain(providers), start_ns, end_ns - start_ns,
                tids if alone else None, error, config_from_model=flag, memory_bytes=memory_bytes, writes_model=writes,
            )  # fmt: skip
            ints = self.ints if self.ints is not None else self.counters()
            ints[OWN_NS] += own_ns + _cpu() - ended_ns
        except Exception:
            self.fail()

    def add(
        self, session: Any, model: Any, asked: Any, providers: Any, start_ns: int, took_ns: int, tids: Any, error: Any,
        **more: Any,
    ) -> State:  # fmt: skip
        """Write a session to the log; return its state, which is tracked unless the creation failed."""
        with self.lock:
            self.sessions += 1
            number = self.sessions
        loop = getattr(sys.modules.get("asyncio"), "_get_running_loop", lambda: None)() is not None
        failed = error is not None
        got = None if failed else getattr(session, "_providers", None)
        if failed:
            more["message"] = str(error)[:MESSAGE]
        self.write(
            e="session", id=number, ns=start_ns, took_ns=took_ns, failed=type(error).__name__ if failed else "",
            loop=loop, tids=tids,
            thread=self.thread(), kind=type(session).__name__,
            model=self.interned("model", json.dumps(model)),
            asked=self.interned("options", json.dumps(asked)),
            used=self.interned("options", json.dumps(None if failed else read_options(session._sess_options))),
            providers=self.interned("providers", json.dumps([providers, plain(got)])),
            frames=self.interned("frames", self.frames()), **more,
        )  # fmt: skip
        if failed:
            return State(number, None, [])
        key = id(session)
        old = self.states.get(key)
        if old is not None:  # set_providers creates the session again
            self.closed(old, again=True)
        gone = functools.partial(_gone, key)
        state = State(number, weakref.ref(session, gone), tids or [])
        self.states[key] = state
        return state

    def adopt(self, session: Any) -> State:
        """Record a session whose creation was not recorded, at its first call."""
        now_ns = _now()
        return self.add(session, self.model(session), None, None, now_ns, 0, None, None, unseen=True)

    def closed(self, state: State, again: bool = False) -> None:
        """Record the end of a session with its counters, and free its rows.

        Args:
            state: The session.
            again: Whether its object has been given another session.
        """
        rows = []
        for site in state.sites.values():
            for counters in site.rows.values():
                if counters.row:
                    at = counters.at // 8
                    rows.append([counters.key, *self.ints[at : at + FIELDS - 1]])
                    self.free.append(counters.row)
                else:
                    counts = [counters.count, counters.total_ns, counters.least_ns, counters.most_ns]
                    rows.append([counters.key, *counts, *[0] * (FIELDS - 5)])
        self.write(e="closed", id=state.id, ns=_now(), rows=rows, **({"again": True} if again else {}))

    def model(self, session: Any) -> Any:
        """Return the identity of a session's model: its file, or the digest of its bytes; {} if unknown."""
        path, data = getattr(session, "_model_path", None), getattr(session, "_model_bytes", None)
        if path is not None:
            path = os.path.abspath(os.fsdecode(path))
            try:
                status = os.stat(path)
                return {"path": path, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
            except OSError:
                return {"path": path}
        if data is None:
            return {}
        key = len(data), hash(data)
        digest = self.contents.get(key)
        if digest is None:
            import hashlib

            digest = self.contents[key] = hashlib.sha256(data).hexdigest()
        return {"sha256": digest, "bytes": len(data)}

    def frames(self) -> Tuple[Tuple[str, int, str], ...]:
        """Return the innermost frames of the program, as file, line and function."""
        found: List[Tuple[str, int, str]] = []
        frame: Any = _frame(1)
        while frame is not None and len(found) < FRAMES:
            name = frame.f_code.co_filename
            if name != __file__ and not name.startswith(self.home):
                found.append((name, frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
        return tuple(found)

    def thread(self) -> int:
        """Return a small number that identifies the calling thread."""
        return self.threads.setdefault(threading.get_ident(), len(self.threads))

    # Calls.

    def enter(self, session: Any, args: Any, kwargs: Any, feed_at: int, feed_name: str) -> Any:
        """Return the data for recording a call that is about to begin; None after an error of the recorder."""
        entered_ns = _now()
        try:
            state = self.states.get(id(session))
            if state is None:
                state = self.adopt(session)
            try:
                frame = _frame(2)
                code = frame.f_code
                place = id(code), frame.f_lasti
            except ValueError:  # called by a library, not by Python code
                code, place = None, (0, 0)
            site = state.sites.get(place)
            if site is None:
                site = state.sites[place] = CallSite(self.interned("frames", self.frames()), code, place[1])
            feed = args[feed_at] if len(args) > feed_at else kwargs.get(feed_name)
            with self.lock:
                state.active += 1
                active = state.active
                site.count += 1
                count = site.count
            if count > WHOLE and count % SAMPLED > 1:
                start_ns = _now()
                # One of these calls is timed as a sample of all.
                own_ns = start_ns - entered_ns if count % SAMPLED == SAMPLED - 1 else 0
                return state, site, feed, active, own_ns, -1, (), start_ns
            began_ns = _cpu()
            seen = self.inspect(state, feed) if count <= WHOLE or not count % SAMPLED else None
            pool_ns = cpu_ns(state.tids)
            return state, site, feed, active, _cpu() - began_ns, pool_ns, seen, _now()
        except Exception:
            self.fail()
            return None

    def leave(self, call: Any, method: str, result: Any, failed: bool) -> None:
        """Update the counters of a call that has returned or failed."""
        end_ns = _now()
        state, site, feed, active, own_ns, pool_ns, seen, start_ns = call
        began_ns = _cpu() if pool_ns >= 0 else 0
        try:
            try:
                key = (tuple(feed), tuple([v.shape for v in feed.values()])) if type(feed) is dict else method
                row = site.rows.get(key)
            except (AttributeError, TypeError):  # lists have no shape, and some values no hash
                row = None
            if row is None:
                row = self.row(state, site, feed, method, result)
            took_ns = end_ns - start_ns
            with self.lock:
                state.active -= 1
                row.count += 1
                row.total_ns += took_ns
                if took_ns < row.least_ns:
                    row.least_ns = took_ns
                if took_ns > row.most_ns:
                    row.most_ns = took_ns
                if row.row:
                    _write(self.map, row.at, row.count, row.total_ns, row.least_ns, row.most_ns)
                if self.kept < KEPT:
                    at = 8 * (HEADER + ROWS * FIELDS + self.kept * CALL)
                    _write(self.map, at, row.key, start_ns, took_ns, self.thread() << 16 | active)
                    self.kept += 1
                    self.ints[CALLS_AT] = self.kept
            if failed:
                self.ints[row.at // 8 + FAILED] += 1
            elif row.count <= self.values:
                self.keep_values(row, feed, result)
            if pool_ns >= 0:
                self.note(state, row.at // 8, pool_ns, seen, start_ns, end_ns, active, result)
                self.ints[OWN_NS] += own_ns + _cpu() - began_ns
                return
            state.pool_ns = -1
            if own_ns:
                own_ns += _now() - end_ns
                usual_ns = self.ints[PLAIN_NS] or own_ns
                # Close to the median, so a call that waited for a CPU has no more influence than another.
                step_ns = usual_ns // 8 + 1
                self.ints[PLAIN_NS] = usual_ns + max(-step_ns, min(step_ns, own_ns - usual_ns))
        except Exception:
            self.fail()

    def keep_values(self, row: Counters, feed: Any, result: Any) -> None:
        """Write the inputs and outputs of a call if all are numeric arrays and the size limit allows it."""
        array = getattr(sys.modules.get("numpy"), "asarray", None)
        if array is None or type(feed) is not dict or not isinstance(result, list):
            return
        inputs = {str(name): array(value) for name, value in feed.items() if not callable(value)}
        outputs = [array(value) for value in result]
        arrays = [*inputs.values(), *outputs]
        size = sum(value.nbytes for value in arrays)
        if any(value.dtype.kind not in "biufc" for value in arrays):
            return
        head = json.dumps(
            {
                "row": row.key,
                "inputs": [(name, value.dtype.str, value.shape) for name, value in inputs.items()],
                "outputs": [(value.dtype.str, value.shape) for value in outputs],
            }
        )
        data = b"".join([head.encode(), b"\n", *(value.tobytes() for value in arrays)])
        with self.lock:
            if self.value_bytes + size > VALUE_BYTES:
                return
            self.value_bytes += size
            if self.values_fd < 0:
                path = os.path.join(self.folder, self.name + ".values")
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self.values_fd = os.open(path, flags, 0o600)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self.values_fd, rest) :]

    def row(self, state: State, site: CallSite, feed: Any, method: str, result: Any) -> Counters:
        """Return the counters of a signature at a call site, creating them if necessary."""
        ints = self.ints if self.ints is not None else self.counters()
        inputs, shapes = [], []
        for name, value in feed.items() if isinstance(feed, dict) else ():
            kind, shape = described(value)
            inputs.append((str(name), kind, shape))
            shapes.append(shape)
        key: Any = (tuple(feed), tuple(shapes)) if isinstance(feed, dict) else method
        found = site.rows.get(key)
        if found is not None:
            return found
        if state.tids and not state.placed:
            state.placed = True
            cpus = affinities(state.tids)  # a thread pins itself some time after its start
            state.tids = sorted(cpus)  # other threads only took part in the creation
            pinned = json.dumps([cpus[tid] for tid in state.tids[:THREADS]])
            self.write(e="placed", id=state.id, threads=len(cpus), cpus=self.interned("cpus", pinned))
        signature = self.interned("signature", (method, tuple(inputs)), outputs=outputs_of(result))
        with self.lock:
            self.keys += 1
            number = self.keys
            row = 0  # shared by all without their own row
            if self.free:
                row = self.free.pop()
            elif ints[ROWS_AT] < ROWS - 1:
                ints[ROWS_AT] += 1
                row = ints[ROWS_AT]
            at = HEADER + row * FIELDS
            if row:
                for field in range(FIELDS):
                    ints[at + field] = 0
                ints[at + KEY] = number
        read = read_by(site, result) if method in ("run", "run_with_ort_values") else None
        more = {} if read is None else {"read": read}
        self.write(
            e="row", key=number, session=state.id, frames=site.id, signature=signature, shared=not row, **more
        )
        found = site.rows[key] = Counters(row, number)
        return found

    def inspect(self, state: State, feed: Any) -> Tuple[int, int, int, int, int]:
        """Inspect the inputs of a call.

        Returns:
            Three flags, 0 or 1, for whether any input is a list, is not contiguous, or is an output of the previous
            call; then the number of elements in masks, and how many of them are not zero.
        """
        lists = strided = chained = masks = ones = 0
        if not isinstance(feed, dict):
            return 0, 0, 0, 0, 0
        returned = [value for value in (ref() for ref in state.returned) if value is not None]
        for name, value in feed.items():
            if isinstance(value, (list, tuple)):
                lists = 1
                continue
            flags = getattr(value, "flags", None)
            if flags is None:
                continue
            strided |= not flags.c_contiguous
            chained |= any(value is other for other in returned)
            if "mask" in str(name).lower() and value.dtype.kind in "iub" and 0 < value.size <= MASK:
                masks += value.size
                ones += int((value != 0).sum())
        return lists, int(strided), int(chained), masks, ones

    def note(
        self,
        state: State,
        at: int,
        pool_ns: int,
        seen: Any,
        start_ns: int,
        end_ns: int,
        active: int,
        result: Any,
    ) -> None:
        """Add a call's inspection (if any) and its thread pool's CPU time to its row; keep references to outputs."""
        ints = self.ints
        after_ns = cpu_ns(state.tids)
        alone = active == 1 and state.active == 0
        with self.lock:
            if seen is not None:
                for field, value in zip((INSPECTED, LISTS, STRIDED, CHAINED, MASKS, ONES), (1, *seen)):
                    ints[at + field] += value
            if alone and state.tids:
                ints[at + IN_NS] += after_ns - pool_ns
                ints[at + IN_WALL_NS] += end_ns - start_ns
                if state.pool_ns >= 0:
                    ints[at + BETWEEN_NS] += max(0, pool_ns - state.pool_ns)
                    ints[at + BETWEEN_WALL_NS] += start_ns - state.pool_wall_ns
        state.pool_ns, state.pool_wall_ns = (after_ns, _now()) if alone else (-1, -1)
        state.returned = []
        for value in result if isinstance(result, list) else ():
            try:
                state.returned.append(weakref.ref(value))
            except TypeError:
                pass

    # Forks.

    def forked(self) -> None:
        """Start a new recording in a forked child, which has its parent's sessions but not their threads."""
        if self.off or not self.home:
            return
        parent, states = self.name, self.states
        for fd in (self.log_fd, self.values_fd):
            os.close(fd) if fd >= 0 else None
        self.begin(parent)
        self.local = threading.local()
        self.states = {}
        try:
            self.write(e="forked")
            for key, state in states.items():
                session = state.ref()
                if session is None:
                    continue
                self.sessions += 1
                child = State(self.sessions, weakref.ref(session, functools.partial(_gone, key)), [])
                self.states[key] = child
                self.write(e="inherited", id=child.id, of=state.id, threads=len(state.tids))
        except Exception:
            self.fail()


def _gone(key: int, ref: Any) -> None:
    """Record the end of a session, when its object is freed."""
    recorder = _RECORDER
    if recorder is None or recorder.off or sys is None:
        return
    if not recorder.lock.acquire(not sys.is_finalizing()):
        return  # the thread that held the lock ended with the interpreter
    try:
        state = recorder.states.get(key)
        if state is not None and state.ref is ref:
            del recorder.states[key]
            recorder.closed(state)
    except Exception:
        recorder.fail()
    finally:
        recorder.lock.release()


def wrapped(original: Callable[..., Any], method: str) -> Callable[..., Any]:
    """Return a wrapper that records each call of a method without changing its arguments, result or exception."""
    feed_at = 0 if method == "run_with_iobinding" else 1
    feed_name = {
        "run": "input_feed",
        "run_async": "input_feed",
        "run_with_ort_values": "input_dict_ort_values",
    }.get(method, "")

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _RECORDER
        noted = (
            None
            if recorder is None or recorder.stopped() or not method
            else recorder.enter(self, args, kwargs, feed_at, feed_name)
        )
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            if recorder is not None and noted is not None:
                recorder.leave(noted, method, None, True)
            raise
        if recorder is not None and noted is not None:
            recorder.leave(noted, method, result, False)
        return result

    return call


def wrapper_ns() -> int:
    """Return the overhead of a wrapped call in nanoseconds, without the recorder's own work."""
    call = wrapped(lambda self, *args, **kwargs: None, "")
    least = 1 << 30
    for _ in range(5):
        began_ns = _now()
        for _ in range(20):
            call(None, None, None)
        least = min(least, (_now() - began_ns) // 20)
    return least


def patch(module: Any, recorder: Recorder) -> None:
    """Wrap the methods of onnxruntime's classes, unless they are wrapped already."""
    sessions, base = module.InferenceSession, module.Session
    if MARK in vars(sessions):
        return
    setattr(sessions, MARK, True)
    package = sys.modules.get(PACKAGE)
    recorder.home = os.path.dirname(os.path.dirname(os.path.abspath(module.__file__))) + os.sep
    recorder.version = str(getattr(package, "__version__", "") or version_in(recorder.home))
    for name in CALLS:
        if name in vars(base):
            setattr(base, name, wrapped(vars(base)[name], name))
    create = vars(sessions)["_create_inference_session"]
    bind = vars(sessions).get("_bind_session")

    @functools.wraps(create)
    def created(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _RECORDER
        return (
            create(self, *args, **kwargs) if recorder is None else recorder.create(create, self, args, kwargs)
        )

    sessions._create_inference_session = created
    if bind is not None:

        @functools.wraps(bind)
        def bound(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = bind(self, *args, **kwargs)
            recorder = _RECORDER
            if (
                recorder is not None
                and not recorder.stopped()
                and not getattr(recorder.local, "inside", False)
            ):
                try:
                    recorder.adopt(self)  # a session of a model package
                except Exception:
                    recorder.fail()
            return result

        sessions._bind_session = bound
    recorder.open()


class Finder:
    """Import finder that wraps onnxruntime's classes after their import; other finders find the module."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.busy = recorder, False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of onnxruntime's module, with a loader that wraps its classes; None for other modules."""
        if name == PACKAGE:
            try:
                loading(self.recorder.folder)
            except Exception:
                self.recorder.fail()
        if name != MODULE or self.busy:
            return None
        self.busy = True
        while WARNING in sys.warnoptions:  # not earlier, since the list may still be iterated
            sys.warnoptions.remove(WARNING)
        try:
            finders = [
                finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")
            ]
            specs = (finder.find_spec(name, path, target) for finder in finders)
            spec = next((spec for spec in specs if spec is not None), None)
        finally:
            self.busy = False
        if spec is not None and spec.loader is not None:
            try:
                self.follow(spec.loader)
            except Exception:
                self.recorder.fail()
        return spec

    def follow(self, loader: Any) -> None:
        """Make a loader wrap the classes of the next module that it executes."""
        original = loader.exec_module

        def exec_module(module: Any) -> None:
            vars(loader).pop("exec_module", None)
            original(module)
            guarded_patch(module, self.recorder)

        loader.exec_module = exec_module


def guarded_patch(module: Any, recorder: Recorder) -> None:
    """Wrap the classes of a module; an error switches the recorder off."""
    try:
        patch(module, recorder)
    except Exception:
        recorder.fail()


def tasks() -> Any:
    """Return the ids of this process's threads."""
    return set(map(int, os.listdir("/proc/self/task")))


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(fd, 128).split()[1]) * mmap.PAGESIZE
    finally:
        os.close(fd)


def affinities(tids: List[int]) -> Dict[int, List[int]]:
    """Return the allowed CPUs of each thread that still exists, by thread id."""
    found = {}
    for tid in tids:
        try:
            found[tid] = sorted(os.sched_getaffinity(tid))
        except OSError:
            continue
    return found


def cpu_ns(tids: List[int]) -> int:
    """Return the total CPU time of threads in nanoseconds, extrapolated from the first threads if there are many."""
    total = 0
    some = tids[:THREADS]
    for tid in some:
        try:
            fd = os.open("/proc/self/task/%d/schedstat" % tid, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            total += int(os.read(fd, 64).split()[0])
        except (OSError, IndexError):  # the thread ended meanwhile
            continue
        finally:
            os.close(fd)
    return total * len(tids) // len(some) if some else 0


def read_options(options: Any) -> Optional[Dict[str, Any]]:
    """Return the readable settings of a SessionOptions object; None if there is no object."""
    if options is None:
        return None
    found = {name: plain(getattr(options, name)) for name in OPTIONS if hasattr(options, name)}
    for key in ENTRIES:
        try:
            found[key] = options.get_session_config_entry(key)
        except Exception:  # the key is not set
            continue
    return found


def plain(value: Any) -> Any:
    """Convert a value to JSON types: enumeration members to their names, tuples to lists."""
    if value is None or isinstance(value, (bool, int, float, str)):
        name = getattr(value, "name", None)
        return name if isinstance(name, str) else value
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return str(getattr(value, "name", type(value).__name__))


def described(value: Any) -> Tuple[str, Any]:
    """Return the element type and shape of an input without copying it; the shape is None if unknown."""
    shape = getattr(value, "shape", None)
    if callable(shape):  # an OrtValue
        try:
            return str(value.data_type()), tuple(shape())
        except Exception:
            return type(value).__name__, None
    if isinstance(shape, tuple):
        return str(getattr(value, "dtype", "")), shape
    sizes = []
    while isinstance(value, (list, tuple)):
        sizes.append(len(value))
        value = value[0] if value else None
    return "list of " + type(value).__name__, tuple(sizes)


def outputs_of(result: Any) -> List[Any]:
    """Return the element type and shape of each output of a call; [] if the result is not a list or tuple."""
    if not isinstance(result, (list, tuple)):
        return []
    return [list(described(value)) for value in result]


def read_by(site: CallSite, result: Any) -> Optional[List[int]]:
    """Return the indices of the outputs that the code at a call site reads; None if unknown, or of one output."""
    if site.code is None or not isinstance(result, list) or len(result) < 2:
        return None
    if not site.reads:  # a site has a row for each signature, and one code
        try:
            site.reads = (indices_read(site.code, site.lasti),)
        except Exception:  # bytecode that is not understood
            site.reads = (None,)
    found = site.reads[0]
    return None if found is None else sorted({index % len(result) for index in found})


def indices_read(code: Any, lasti: int) -> Optional[Set[int]]:
    """Return the indices of a call's result that the calling code reads; None if unknown.

    Known are an index right after the call, an unpacking to local variables, and a local variable that is only indexed.
    """
    import dis

    if not _NAMESPACES.isdisjoint(code.co_names):
        return None
    steps: List[Tuple[str, Any]] = []
    called, after = "", 0
    for step in dis.get_instructions(code):
        name, value = step.opname, step.argval
        if name in ("CACHE", "EXTENDED_ARG", "NOP"):
            continue
        words = name.split("_")
        if "FAST" in words:  # one instruction may be for two variables
            kinds = [word for word in words if word in ("LOAD", "STORE")]
            steps += zip(kinds, value if isinstance(value, tuple) else (value,))
        elif name in ("BINARY_SUBSCR", "BINARY_OP"):
            steps.append(("INDEX" if name == "BINARY_SUBSCR" or step.argrepr == "[]" else "", None))
        else:
            steps.append((_STEPS.get(name, ""), value))
        if step.offset <= lasti:
            called, after = name, len(steps)
    loaded = {what for kind, what in steps if kind in ("LOAD", "GET")}

    def reads(at: int, from_variable: bool) -> Optional[Set[int]]:
        (kind, what), following = steps[at], steps[at + 1 :]
        if kind == "CONST" and type(what) is int and following[0][0] == "INDEX":
            return {what}
        if kind == "UNPACK":
            targets = following[:what]
            if not all(kind in ("STORE", "SET") for kind, _ in targets):
                return None
            # Other code may read a global variable, except for the usual name of what is not needed.
            return {
                n
                for n, (kind, name) in enumerate(targets)
                if name in loaded or (kind == "SET" and name != "_")
            }
        if kind == "STORE" and not from_variable:
            uses = [reads(n + 1, True) for n, step in enumerate(steps) if step == ("LOAD", what)]
            known = [use for use in uses if use is not None]
            return set().union(*known) if known and len(known) == len(uses) else None
        return None

    return reads(after, False) if called.startswith("CALL") else None


def loading(folder: str) -> None:
    """Create a file that marks this process as loading ONNX Runtime; the process may end before it writes a log."""
    path = os.path.join(folder, "%d.loading" % os.getpid())
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def version_in(home: str) -> str:
    """Return the version in the source of a package's ``__init__``, which is still being imported; "" if none."""
    with open(os.path.join(home, "__init__.py"), encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("__version__"):
                return line.partition("=")[2].strip().strip("\"'")
    return ""


_RECORDER: Optional[Recorder] = None


def begin() -> None:
    """Start to record this process if the variable names a folder and no recorder is active."""
    global _RECORDER  # noqa: PLW0603 -- methods of onnxruntime's classes read it, also in the child of a fork
    folder = os.environ.get(VARIABLE, "")
    if _RECORDER is not None or not os.path.isabs(folder) or not os.path.isdir("/proc/self/task"):
        return
    if any(type(finder).__name__ == "Finder" and hasattr(finder, "recorder") for finder in sys.meta_path):
        return
    recorder = _RECORDER = Recorder(folder)
    os.register_at_fork(after_in_child=recorder.forked)
    if MODULE in sys.modules:
        guarded_patch(sys.modules[MODULE], recorder)
    else:
        sys.meta_path.insert(0, Finder(recorder))


begin()
