"""The fence around a framework's process, with every folder that frameworks write to inside of it."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

from ..worker import fence

_FOLDERS = (
    "HOME", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR", "KERAS_HOME", "TORCH_HOME", "HF_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
)  # fmt: skip
TRUST = "if you trust it, pass --trust-source, which opens it without confinement"


def confine(limits: Mapping[str, Any] | None) -> None:
    """Confines this process to its working directory; does nothing if the user trusts the source.

    Args:
        limits: The ``Fence`` of the request; None without one.

    Raises:
        Unfenced: The system cannot confine it.
    """
    if limits is None:
        return
    own = os.getcwd()
    fence.confine(limits["reads"], own, limits["memory_bytes"], limits["file_bytes"])
    os.environ.update(dict.fromkeys(_FOLDERS, own))
    os.environ["LOGNAME"] = os.environ["USER"] = (
        "ortune"  # libraries ask for it, and the list of users is not read
    )
    tempfile.tempdir = own
    with contextlib.suppress(ImportError):
        importlib.import_module("_multiprocessing").SemLock = _Semaphore  # type: ignore[attr-defined]


def helps(error: BaseException) -> str:
    """Returns what helps if the fence is why a source failed; "" if it is not."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PermissionError) or any(word in str(seen) for word in _DENIED):
            return (
                "a confined source reads and writes no other files, starts no program and has no network; "
                + TRUST
            )
        seen = seen.__cause__ or seen.__context__
    return ""


_DENIED = ("Permission denied", "Operation not permitted", "PERMISSION_DENIED", "Invalid cross-device link")
"""The last: before Linux 5.19, a confined process moves no file from one folder to another."""


class _Semaphore:
    """A semaphore of ``multiprocessing`` for threads alone: a confined process has no shared memory, and no other.

    Pools of threads create such semaphores too, those of joblib and so of scikit-learn among them.
    """

    SEM_VALUE_MAX = 2**31 - 1

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        del name, unlink
        self.kind, self.maxvalue = kind, maxvalue
        self.name = self.handle = None
        self._value, self._owner = value, 0
        self._changed = threading.Condition()

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Takes one, when there is one."""
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
        """Gives one back."""
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
