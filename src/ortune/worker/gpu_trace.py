"""Times of the kernels and copies of an NVIDIA GPU, with the nodes that started them, from NVIDIA's tracer CUPTI.

Released builds of ONNX Runtime time only the host, and the GPU runs asynchronously: a node's event ends when its
kernels are queued. CUPTI reports when the GPU ran them and which host call started each. The call is inside the event
of its node, so the kernels are written after that event, in the form of builds that trace kernels themselves.
"""

from __future__ import annotations

import bisect
import ctypes
import glob
import json
import os
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL = 1, 2, 4, 5, 10
KINDS = (MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL)
COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
BUFFER_BYTES = 8 << 20
"""Buffer size, large so that the tracer rarely requests a new buffer during timed runs."""
FLUSH_ALL = 1

_REQUESTED = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETED = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class _Call(ctypes.Structure):
    """The head of CUpti_ActivityAPI, the same in every version since CUDA 10."""

    _fields_ = [
        ("kind", ctypes.c_uint32), ("cbid", ctypes.c_uint32), ("start", ctypes.c_uint64), ("end", ctypes.c_uint64),
        ("process", ctypes.c_uint32), ("thread", ctypes.c_uint32), ("correlation", ctypes.c_uint32),
    ]  # fmt: skip


class _Kernel(ctypes.Structure):
    """Common head of CUpti_ActivityKernel4 to CUpti_ActivityKernel13; later versions only append fields."""

    _fields_ = [
        ("kind", ctypes.c_uint32), ("caches", ctypes.c_uint32), ("partitioned", ctypes.c_uint32 * 2),
        ("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("completed", ctypes.c_uint64),
        ("device", ctypes.c_uint32), ("context", ctypes.c_uint32), ("stream", ctypes.c_uint32),
        ("grid", ctypes.c_int32 * 3), ("block", ctypes.c_int32 * 3), ("shared", ctypes.c_int32 * 2),
        ("local", ctypes.c_uint32 * 2), ("correlation", ctypes.c_uint32), ("grid_id", ctypes.c_int64),
        ("name", ctypes.c_char_p),
    ]  # fmt: skip


class _Copy(ctypes.Structure):
    """Common head of CUpti_ActivityMemcpy and CUpti_ActivityMemset, which differ only in their first eight bytes."""

    _fields_ = [
        ("kind", ctypes.c_uint32), ("way", ctypes.c_uint8), ("rest", ctypes.c_uint8 * 3), ("bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("device", ctypes.c_uint32),
        ("context", ctypes.c_uint32), ("stream", ctypes.c_uint32), ("correlation", ctypes.c_uint32),
    ]  # fmt: skip


class GpuTrace:
    """Records the activity of the GPU after ``start``. Times are the system's, in nanoseconds since 1970.

    Attributes:
        problem: Why nothing is recorded; "" if it is.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._buffers: Dict[int, Any] = {}
        self._filled: List[Tuple[int, int]] = []  # address and valid bytes
        self._ahead_ns = 0  # the system's clock less CUPTI's
        self._library: Any = None
        # Referenced here, since a callback that is garbage-collected while registered crashes the process.
        self._callbacks = (_REQUESTED(self._requested), _COMPLETED(self._completed))

    def start(self) -> None:
        """Start recording, if CUPTI is available and the driver allows it; otherwise set ``problem``."""
        path = library()
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            self.problem = "CUPTI cannot be loaded: %s" % error
            return
        steps: List[Tuple[str, Tuple[Any, ...]]] = [("cuptiActivityRegisterCallbacks", self._callbacks)]
        steps += [("cuptiActivityEnable", (kind,)) for kind in KINDS]
        for name, arguments in steps:
            code = getattr(self._library, name)(*arguments)
            if code:
                self.problem = "%s refuses: %s" % (name, self._error_text(code))
                return
        self._ahead_ns = self._ahead()

    def write_into(self, profile: str, started_ns: int) -> None:
        """Add the recorded activity to a profile.

        Args:
            profile: ONNX Runtime's file.
            started_ns: Start of its clock, as ``session.get_profiling_start_time_ns`` returns it.
        """
        if self.problem or not profile:
            return
        for kind in KINDS:
            self._library.cuptiActivityDisable(kind)
        self._library.cuptiActivityFlushAll(FLUSH_ALL)
        with open(profile, encoding="utf-8", errors="replace") as f:
            events = json.load(f)
        calls, works = self._records()
        nodes = _Nodes(events)
        behind: Dict[int, List[Dict[str, Any]]] = {}
        for work in works:
            # By the time of its launch, since kernels run later, when the host executes other nodes. Nanoseconds of
            # CUPTI's clock become microseconds since the start of the profile.
            at_us = (calls.get(work.pop("correlation"), work["start"]) + self._ahead_ns - started_ns) / 1e3
            node = nodes.at(at_us)
            behind.setdefault(node, []).append(
                _event(work, (work["start"] + self._ahead_ns - started_ns) / 1e3, events, node)
            )
        with open(profile, "w", encoding="utf-8") as f:
            f.write("[\n" + ",\n".join(_lines(events, behind)) + "\n]\n")

    def _requested(self, buffer: Any, size: Any, records: Any) -> None:
        block = ctypes.create_string_buffer(BUFFER_BYTES)
        address = ctypes.addressof(block)
        self._buffers[address] = block
        buffer[0], size[0], records[0] = address, BUFFER_BYTES, 0

    def _completed(self, context: Any, stream: int, buffer: int, size: int, valid: int) -> None:
        del context, stream, size
        self._filled.append((buffer, valid))

    def _ahead(self) -> int:
        """Return the offset in nanoseconds of the system's clock from CUPTI's, from the fastest of several readings."""
        now = ctypes.c_uint64()
        readings = []
        for _ in range(20):
            before = time.time_ns()
            self._library.cuptiGetTimestamp(ctypes.byref(now))
            after = time.time_ns()
            readings.append((after - before, (before + after) // 2 - now.value))
        return min(readings)[1]

    def _error_text(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuptiGetResultString(code, ctypes.byref(text))
        return (text.value or b"code %d" % code).decode("utf-8", "replace")

    def _records(self) -> Tuple[Dict[int, int], List[Dict[str, Any]]]:
        """Return the start of each host call by correlation id, and the GPU's activities by start."""
        calls: Dict[int, int] = {}
        works: List[Dict[str, Any]] = []
        names: Dict[bytes, str] = {}
        for address in self._walk():
            kind = ctypes.c_uint32.from_address(address).value
            if kind in (RUNTIME, DRIVER):
                call = _Call.from_address(address)
                # A runtime call makes a driver call with the same id; the outer one began first.
                calls[call.correlation] = min(call.start, calls.get(call.correlation, call.start))
            elif kind in (MEMCPY, MEMSET):
                copy = _Copy.from_address(address)
                name = "Memset" if kind == MEMSET else "Memcpy %s" % COPIES.get(copy.way, "")
                works.append(_work(copy, name, int(copy.bytes)))
            elif kind == KERNEL:
                kernel = _Kernel.from_address(address)
                mangled = kernel.name or b""
                if mangled not in names:
                    names[mangled] = demangled(mangled)
                works.append(_work(kernel, names[mangled], None))
        return calls, sorted(works, key=lambda work: int(work["start"]))

    def _walk(self) -> Iterator[int]:
        """Yield the address of every record."""
        for buffer, valid in self._filled:
            record = ctypes.c_void_p()
            while not self._library.cuptiActivityGetNextRecord(
                ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
            ):
                if record.value is not None:
                    yield record.value


class _Nodes:
    """Node executions of a profile, searchable by time."""

    def __init__(self, events: List[Dict[str, Any]]) -> None:
        rows = [
            (float(e["ts"]), float(e["ts"]) + float(e["dur"]), i)
            for i, e in enumerate(events)
            if e.get("cat") == "Node" and str(e.get("name", "")).endswith("_kernel_time")
        ]
        rows.sort()
        self.rows, self.starts = rows, [start for start, _, _ in rows]

    def at(self, at_us: float) -> int:
        """Return the index of the innermost node's event at a time; -1 if there is none."""
        last = bisect.bisect_right(self.starts, at_us) - 1
        # Times are whole microseconds. Earlier nodes that still run enclose the node that began last.
        for start, end, index in reversed(self.rows[max(0, last - 64) : last + 1]):
            if start <= at_us <= end + 1:
                return index
        return -1


def _work(record: Any, name: str, n_bytes: Optional[int]) -> Dict[str, Any]:
    return {
        "name": name, "start": int(record.start), "ns": int(record.end) - int(record.start), "bytes": n_bytes,
        "stream": int(record.stream), "correlation": int(record.correlation),
    }  # fmt: skip


def _event(work: Dict[str, Any], at_us: float, events: List[Dict[str, Any]], node: int) -> Dict[str, Any]:
    """Return one kernel or copy in the form of a profile's event."""
    args = {"stream": str(work["stream"])}
    if work["bytes"] is not None:
        args["copied_bytes"] = str(work["bytes"])
    if node >= 0:
        args["parent_name"] = str(events[node]["name"])
        args["op_name"] = str(events[node].get("args", {}).get("op_name", ""))
    # A device has no thread of the host.
    return {
        "cat": "Kernel", "pid": events[0].get("pid", 0) if events else 0, "tid": -1, "dur": work["ns"] / 1e3,
        "ts": round(at_us, 3), "ph": "X", "name": work["name"], "args": args,
    }  # fmt: skip


def _lines(events: List[Dict[str, Any]], behind: Dict[int, List[Dict[str, Any]]]) -> Iterator[str]:
    """Yield one line per event, followed by the GPU activity of its node; the remaining activity comes last."""
    for index, event in enumerate(events):
        yield json.dumps(event)
        for own in behind.get(index, ()):
            yield json.dumps(own)
    for own in behind.get(-1, ()):
        yield json.dumps(own)


def library() -> str:
    """Return the path of CUPTI in NVIDIA's packages or a CUDA toolkit, else a name for the loader."""
    names = ("libcupti.so", "libcupti.so.*[0-9]")
    places = [
        os.path.join(place, "nvidia", folder, "lib")
        for place in sys.path
        for folder in ("cu1[2-9]", "cuda_cupti")
    ]
    toolkits = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    places += [os.path.join(place, "extras", "CUPTI", "lib64") for place in toolkits if place]
    for place in places:
        for name in names:
            for path in sorted(glob.glob(os.path.join(place, name))):
                return path
    return "libcupti.so"


def demangled(name: bytes) -> str:
    """Return a kernel's C++ name; unchanged if it cannot be demangled."""
    if name.startswith(b"_Z"):
        try:
            demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        except (OSError, AttributeError):
            return name.decode("utf-8", "replace")
        demangle.restype = ctypes.c_void_p
        status = ctypes.c_int()
        text = demangle(name, None, None, ctypes.byref(status))
        if text and status.value == 0:
            name = ctypes.string_at(text)  # leaked, once per kernel name
    return name.decode("utf-8", "replace")
