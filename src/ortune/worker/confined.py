"""Confinement of a process to its working directory, in which libraries then also write their files."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
import threading
from typing import Any, Mapping, Optional

from . import fence

_FOLDERS = (
    "HOME", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR", "KERAS_HOME", "TORCH_HOME", "HF_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
)  # fmt: skip
"""Environment variables that name the folders in which libraries write."""


def confine(limits: Optional[Mapping[str, Any]]) -> None:
    """Confine this process to its working directory; do nothing without limits.

    Args:
        limits: The ``Fence`` of the request; None for no confinement.

    Raises:
        fence.Unfenced: The system does not support the confinement.
    """
    if limits is None:
        return
    own = os.getcwd()
    fence.confine(limits["reads"], own, limits["memory_bytes"], limits["file_bytes"])
    os.environ.update(dict.fromkeys(_FOLDERS, own))
    os.environ["LOGNAME"] = os.environ["USER"] = (
        "ortune"  # libraries read these variables; the list of users is inaccessible
    )
    tempfile.tempdir = own
    with contextlib.suppress(ImportError):
        importlib.import_module("_multiprocessing").SemLock = _Semaphore  # type: ignore[attr-defined]


class _Semaphore:
    """A ``multiprocessing`` semaphore for threads of this process; a confined process has no shared memory.

    Thread pools, such as joblib's in scikit-learn, also create such semaphores.
    """

    SEM_VALUE_MAX = 2**31 - 1

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        del name, unlink
        self.kind, self.maxvalue = kind, maxvalue
        self.name = self.handle = None
        self._value, self._owner = value, 0
        self._changed = threading.Condition()

    def acquire(self, block: bool = True, timeout: Optional[float] = None) -> bool:
        """Acquire the semaphore, waiting until it is available."""
        with self._changed:
            if self.kind == 0 and self._is_mine():
                self._value -= 1
                return True
            free = self._changed.wait_for(lambda: self._value > 0, timeout if block else 0)
            if free:
                self._value -= 1
                self._owner = threading.get_ident()
            return free

    def release(self) -> None:
        """Increase the counter by one, and wake one waiting thread.

        Raises:
            ValueError: The counter is at its maximum.
        """
        with self._changed:
            if self._value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            self._value += 1
            self._changed.notify()

    __enter__ = acquire

    def __exit__(self, *error: object) -> None:
        self.release()

    def _count(self) -> int:
        return self.maxvalue - self._value

    def _is_mine(self) -> bool:
        return self._count() > 0 and self._owner == threading.get_ident()

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0
