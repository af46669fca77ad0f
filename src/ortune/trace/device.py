"""Device kernels and copies, and the nodes that started them, as reported by each execution provider.

CUDA, ROCm and TensorRT (category "Kernel") write kernels after their node, with the node's name in ``parent_name`` or,
in older versions, only its operator; kernels with neither were not matched to a node and may be anywhere. The CUDA
plugin appends kernels at the end without a node. The native WebGPU provider ("Api") also appends them at the end, named
"node&operator&program", without a thread. "Api" events of others (VitisAI, plugins) are host calls, not device time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from ortune.trace.events import KERNEL_TIME, ProfilerEvent
from ortune.trace.table import ABSENT, NO_PARENT, Kernels, Labels, Numbers, numbers_of

_NO_THREAD = -1
_DIGITS = 18
"""Byte counts with fewer digits than this fit in 64 bits."""


class DeviceEvents:
    """Collects device events; ``kernels`` assigns the events to nodes at the end.

    Attributes:
        n_calls: Number of host calls to a device, which are not kernels.
    """

    CATEGORIES = frozenset(("Kernel", "Api"))

    def __init__(self) -> None:
        self.n_calls = 0
        self._numbers: dict[str, int] = {}
        self._codes, self._after, self._owner = array("i"), array("q"), array("i")
        self._start, self._duration, self._bytes = array("q"), array("q"), array("q")
        self._owners: dict[tuple[str, str], int] = {}

    def add(self, event: ProfilerEvent, after: int) -> None:
        """Append one device event.

        Args:
            event: The event.
            after: Row of the preceding node, if there are only kernels in between; ``NO_PARENT`` otherwise.
        """
        name, owner = event.name, (event.args.parent_name.removesuffix(KERNEL_TIME), event.args.op_name)
        if event.cat == "Api":
            # Node names may contain "&": the last two parts are ONNX Runtime's.
            parts = name.rsplit("&", 2)
            if event.tid != _NO_THREAD or len(parts) != 3:
                self.n_calls += 1
                return
            (node, op, name), after = parts, NO_PARENT
            owner = (node, op)
        elif not any(owner) and event.args.stream:
            after = NO_PARENT
        self._codes.append(self._numbers.setdefault(name, len(self._numbers)))
        self._after.append(after)
        self._owner.append(self._owners.setdefault(owner, len(self._owners)))
        self._start.append(round(event.ts * 1000))
        self._duration.append(round(event.dur * 1000))
        copied = event.args.copied_bytes
        self._bytes.append(
            int(copied) if copied.isascii() and copied.isdecimal() and len(copied) < _DIGITS else ABSENT
        )

    def kernels(self, name: Labels, op_type: Labels, start_ns: Numbers) -> Kernels:
        """Return all kernels, each with the row of the node that started it, or ``NO_PARENT``."""
        owners = list(self._owners)
        times: dict[tuple[str, str], tuple[Numbers, Numbers]] = {}
        numbers, operators = numbers_of(name), numbers_of(op_type)
        rows = np.full(len(self._codes), NO_PARENT, dtype=np.int64)
        for i, (after, owner) in enumerate(zip(self._after, self._owner, strict=True)):
            node, op = owners[owner]
            if after >= 0:
                matches = name[after] == node if node else op in ("", op_type[after])
                rows[i] = after if matches else NO_PARENT
            elif node in numbers:
                if owners[owner] not in times:
                    mine = np.flatnonzero(np.isin(name.codes, numbers[node]))
                    same = np.isin(op_type.codes[mine], operators.get(op, ()))
                    mine = mine[same] if same.any() else mine
                    order = np.argsort(start_ns[mine], kind="stable")
                    times[owners[owner]] = mine[order], start_ns[mine][order]
                mine, starts = times[owners[owner]]
                # The host starts a kernel before the device does.
                rows[i] = mine[max(0, int(np.searchsorted(starts, self._start[i], side="right")) - 1)]
        return Kernels(
            name=Labels(codes=np.array(self._codes, dtype=np.int32), texts=tuple(self._numbers)),
            row=rows,
            start_ns=np.array(self._start, dtype=np.int64),
            duration_ns=np.array(self._duration, dtype=np.int64),
            bytes=np.array(self._bytes, dtype=np.int64),
        )

    def missing(self, kernels: Kernels) -> Iterator[str]:
        """Yield sentences about device information that the trace lacks."""
        if self.n_calls:
            yield f"no device times of {self.n_calls} host calls, which are not kernels"
        # Copies of inputs and outputs belong to the run, not to a node.
        lost = int(((kernels.row == NO_PARENT) & (kernels.bytes == ABSENT)).sum())
        if lost:
            yield f"no node for {lost} of {len(kernels.row)} kernels on the device"
