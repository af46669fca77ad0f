"""A permanent fence around this process on Linux: it can access only the named files, and no programs or network.

Landlock blocks the rest of the file system, a filter of system calls (see ``syscalls``) blocks other programs,
processes and the network, and limits bound memory and file sizes. None of these needs privileges or a package. They may
be unavailable because of the kernel's age or settings, or a container's filter.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
import sys
from typing import Any, Iterable, List, Sequence

from . import syscalls

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVS, _SET_SECCOMP, _GET_SECCOMP, _BY_FILTER = 38, 22, 21, 2
_WRITE_FILE, _READ_FILE, _READ_DIR, _REFER, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 13, 1 << 14
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _TRUNCATE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_FILE | _REFER
_OF_A_FILE = _WRITE_FILE | _READ_FILE | _TRUNCATE
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All rights of each version; a handled right that is not granted is denied."""
_NETWORK_FROM, _SCOPES_FROM = 4, 6
_ALL_TCP, _ALL_SCOPES = 3, 3

_SYSTEM = (
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib",
    "/usr/share/zoneinfo", "/usr/share/locale", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/localtime",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/loadavg",
    "/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel",
    "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm", "/dev/zero", "/dev/random", "/dev/urandom",
)  # fmt: skip
"""System files that programs read to start, to load libraries, and to count CPUs and memory."""
_OF_A_PREFIX = ("lib", "lib64", "bin", "include", "share", "pyvenv.cfg")
"""Readable parts of an interpreter's folder, which may be any folder, even a home."""


class Unfenced(Exception):
    """This system does not support the fence; the message gives the reason."""


def missing() -> str:
    """Return the reason why this system does not support the fence, as words for a message; "" if it does."""
    if not sys.platform.startswith("linux"):
        names = {"darwin": "macOS", "win32": "Windows"}
        return "%s has no Landlock and no seccomp" % names.get(sys.platform, sys.platform)
    if platform.machine() not in syscalls.ARCHITECTURES or struct.calcsize("P") != 8:
        return "it is implemented for x86-64 and AArch64, and this is %s" % platform.machine()
    if _landlock_version() < 1:
        return "the kernel (Linux %s), or this container, has no Landlock" % platform.release()
    if _prctl(_GET_SECCOMP) < 0:
        return "the kernel (Linux %s), or this container, has no seccomp" % platform.release()
    return ""


def confine(reads: Iterable[str], writes: str, memory_bytes: int = 0, file_bytes: int = 0) -> None:
    """Confine this process permanently, before it has a second thread.

    Args:
        reads: Files and folders that it may read, in addition to its interpreter's environment and the system's
            libraries.
        writes: The folder that it may write to.
        memory_bytes: Limit of its own memory in bytes; 0 for no limit.
        file_bytes: Limit of each written file in bytes; 0 for no limit.

    Raises:
        Unfenced: A part of the fence is missing or has no effect.
    """
    lacking = missing()
    if lacking:
        raise Unfenced(lacking)
    if len(os.listdir("/proc/self/task")) != 1:
        raise Unfenced("the process has other threads already")
    if _prctl(_NO_NEW_PRIVS, 1) != 0:
        raise Unfenced("the kernel refuses no_new_privs")
    _limit(memory_bytes, file_bytes)
    _restrict([*environment(), *reads], writes)
    _filter_calls()
    _require_fence()


def environment() -> List[str]:
    """Return the interpreter's files, its packages, and the system files that programs read."""
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    inside = [os.path.join(prefix, name) for prefix in sorted(prefixes) for name in _OF_A_PREFIX]
    wide = {os.path.realpath(path) for path in ("/", os.path.expanduser("~"), os.path.expanduser("~/.."))}
    packages = [p for p in (*sys.path, *libraries) if os.path.isabs(p) and os.path.realpath(p) not in wide]
    return [*_SYSTEM, *inside, *packages]


def _landlock_version() -> int:
    return _call(_CREATE_RULESET, None, 0, _GET_VERSION)


def _restrict(reads: Sequence[str], writes: str) -> None:
    version = _landlock_version()
    handled = next(
        rights for least, rights in sorted(_RIGHTS_BY_VERSION.items(), reverse=True) if version >= least
    )
    attributes = struct.pack(
        "QQQ",
        handled,
        _ALL_TCP if version >= _NETWORK_FROM else 0,
        _ALL_SCOPES if version >= _SCOPES_FROM else 0,
    )
    size = 24 if version >= _SCOPES_FROM else 16 if version >= _NETWORK_FROM else 8
    rules = _call(_CREATE_RULESET, attributes, size, 0)
    if rules < 0:
        raise Unfenced("Landlock refuses its rules")
    try:
        for path in reads:
            _allow(rules, path, _READ & handled)
        _allow(rules, "/dev/null", _OF_A_FILE & handled)
        _allow(rules, writes, _WRITE & handled)
        if _call(_RESTRICT_SELF, rules, 0) != 0:
            raise Unfenced("Landlock refuses to restrict the process")
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    """Allow a file, or a folder with its contents; missing paths are skipped."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_A_FILE
        if _call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0) != 0:
            raise Unfenced("Landlock refuses a rule for %s" % path)
    finally:
        os.close(place)


def _filter_calls() -> None:
    code = syscalls.program(platform.machine())
    kept = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("HP", len(code) // 8, ctypes.addressof(kept))
    if _prctl(_SET_SECCOMP, _BY_FILTER, filter_) != 0:
        raise Unfenced("the kernel refuses a filter of system calls")


def _limit(memory_bytes: int, file_bytes: int) -> None:
    import resource

    limits = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
    )
    for kind, most in limits:
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if most or kind == resource.RLIMIT_CORE:
            resource.setrlimit(kind, (most, most))


def _require_fence() -> None:
    """Check that the fence works, since an emulated kernel may accept the calls without effect."""
    import socket

    for attempt in (lambda: os.listdir("/"), socket.socket):
        try:
            attempt()
        except OSError:
            continue
        raise Unfenced("Landlock or seccomp is accepted here, and has no effect")


def _call(number: int, *arguments: Any) -> int:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    result: int = function(ctypes.c_long(number), *map(_as_c, arguments))
    return result


def _prctl(option: int, *arguments: Any) -> int:
    four = [*arguments, 0, 0, 0, 0][:4]
    result: int = ctypes.CDLL(None, use_errno=True).prctl(ctypes.c_int(option), *map(_as_c, four))
    return result


def _as_c(value: Any) -> Any:
    return value if value is None or isinstance(value, bytes) else ctypes.c_ulong(value)
