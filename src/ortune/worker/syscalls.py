"""System call filter for Linux: calls that are not listed fail, whatever later kernels add.

Written for x86-64 and AArch64. The filter is a program of the kernel's packet filter, which decides by the number of a
call and the values of its arguments; it cannot dereference pointers.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import Dict, Iterable, List, Sequence, Tuple

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the call numbers, and the kernel's constant of the architecture."""

_ALLOWED: Dict[str, Sequence[Tuple[int, int]]] = {
    # (x86-64, AArch64); -1: it has no such call.
    # read write close fstat newfstatat statx statfs fstatfs lseek pread64 pwrite64 readv writev preadv pwritev preadv2
    # pwritev2 fadvise64 readahead sendfile copy_file_range fsync fdatasync sync_file_range ftruncate fallocate
    "contents of files": (
        (0, 63), (1, 64), (3, 57), (5, 80), (262, 79), (332, 291), (137, 43), (138, 44), (8, 62), (17, 67), (18, 68),
        (19, 65), (20, 66), (295, 69), (296, 70), (327, 286), (328, 287), (221, 223), (187, 213), (40, 71), (326, 285),
        (74, 82), (75, 83), (277, 84), (77, 46), (285, 47),
    ),
    # getdents64 getcwd chdir fchdir readlinkat faccessat faccessat2 renameat renameat2 mkdirat unlinkat umask flock dup
    # dup3 pipe2, and those that AArch64 never had: stat lstat access getdents readlink rename mkdir rmdir creat unlink
    # dup2 pipe
    "names of files": (
        (217, 61), (79, 17), (80, 49), (81, 50), (267, 78), (269, 48), (439, 439), (264, 38), (316, 276), (258, 34),
        (263, 35), (95, 166), (73, 32), (32, 23), (292, 24), (293, 59),
        (4, -1), (6, -1), (21, -1), (78, -1), (89, -1), (82, -1), (83, -1), (84, -1), (85, -1), (87, -1), (33, -1),
        (22, -1),
    ),
    # mmap mprotect munmap brk mremap madvise msync mlock munlock mincore memfd_create get_mempolicy set_mempolicy mbind
    "memory": (
        (9, 222), (10, 226), (11, 215), (12, 214), (25, 216), (28, 233), (26, 227), (149, 228), (150, 229), (27, 232),
        (319, 279), (239, 236), (238, 237), (237, 235),
    ),
    # ppoll pselect6 epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 eventfd2 timerfd_create timerfd_settime
    # timerfd_gettime signalfd4, poll select epoll_create epoll_wait eventfd
    "waiting": (
        (271, 73), (270, 72), (291, 20), (233, 21), (281, 22), (441, 441), (290, 19), (283, 85), (286, 86), (287, 87),
        (289, 74), (7, -1), (23, -1), (213, -1), (232, -1), (284, -1),
    ),
    # rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack restart_syscall,
    # pause
    "its own signals": (
        (13, 134), (14, 135), (15, 139), (127, 136), (128, 137), (130, 133), (131, 132), (219, 128), (34, -1),
    ),
    # nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday times getitimer setitimer timer_create
    # timer_settime timer_gettime timer_getoverrun timer_delete, time alarm
    "time": (
        (35, 101), (230, 115), (228, 113), (229, 114), (96, 169), (100, 153), (36, 102), (38, 103), (222, 107),
        (223, 110), (224, 108), (225, 109), (226, 111), (201, -1), (37, -1),
    ),
    # futex futex_waitv futex_wake futex_wait futex_requeue set_tid_address set_robust_list get_robust_list rseq
    # membarrier sched_yield sched_getaffinity sched_getscheduler sched_getparam sched_get_priority_max
    # sched_get_priority_min getcpu, arch_prctl
    "threads": (
        (202, 98), (449, 449), (454, 454), (455, 455), (456, 456), (218, 96), (273, 99), (274, 100), (334, 293),
        (324, 283), (24, 124), (204, 123), (145, 120), (143, 121), (146, 125), (147, 126), (309, 168), (158, -1),
    ),
    # getpid gettid getppid getpgid getsid getuid geteuid getgid getegid getresuid getresgid getgroups uname sysinfo
    # getrlimit getrusage getpriority capget exit exit_group wait4 waitid getrandom, getpgrp
    "itself": (
        (39, 172), (186, 178), (110, 173), (121, 155), (124, 156), (102, 174), (107, 175), (104, 176), (108, 177),
        (118, 148), (120, 150), (115, 158), (63, 160), (99, 179), (97, 163), (98, 165), (140, 141), (125, 90),
        (60, 93), (231, 94), (61, 260), (247, 95), (318, 278), (111, -1),
    ),
}  # fmt: skip

_REFUSED: Dict[int, Sequence[Tuple[int, int]]] = {
    # Changes of modes and owners of files have no effect, but return success.
    # chmod fchmod fchmodat chown lchown fchown fchownat
    0: ((90, -1), (91, 52), (268, 53), (92, -1), (94, -1), (93, 55), (260, 54)),
    # execve execveat fork vfork, socket socketpair connect bind listen accept accept4 sendto sendmsg sendmmsg, ptrace
    # process_vm_readv process_vm_writev, io_uring_setup, truncate, symlink symlinkat link linkat mknod mknodat,
    # setrlimit setpriority, utime utimes futimesat
    errno.EPERM: (
        (59, 221), (322, 281), (57, -1), (58, -1), (41, 198), (53, 199), (42, 203), (49, 200), (50, 201), (43, 202),
        (288, 242), (44, 206), (46, 211), (307, 269), (101, 117), (310, 270), (311, 271), (425, 425), (76, 45),
        (88, -1), (266, 36), (86, -1), (265, 37), (133, -1), (259, 33), (160, 164), (141, 140),
        (132, -1), (235, -1), (261, -1),
    ),
    # setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr: used to copy files
    errno.ENOTSUP: (
        (188, 5), (189, 6), (190, 7), (191, 8), (192, 9), (193, 10), (194, 11), (195, 12), (196, 13),
    ),
}  # fmt: skip

_CLONE, _KILL, _TGKILL, _PRLIMIT, _AFFINITY = (56, 220), (62, 129), (234, 131), (302, 261), (203, 122)
_PRCTL, _SET_PARENT_DEATH_SIGNAL = (157, 167), 1
_IOCTL, _FCNTL, _OPEN, _OPENAT, _TIMES = (16, 29), (72, 25), (2, -1), (257, 56), (280, 88)
_CLONE_THREAD = 0x10000
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX; others reach devices and file systems."""
_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032, 36, 37, 38, 1033, 1034)
"""Copies, flags, locks, pipe sizes and seals; not signals for file owners."""
_ACCESS_MODE, _TRUNCATE = 0o3, 0o1000

_LOAD, _EQUAL, _HAS, _RETURN, _AND = 0x20, 0x15, 0x45, 0x06, 0x54
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000

Instruction = Tuple[int, int, int, int]


def program(machine: str) -> bytes:
    """Return the filter for this process on an architecture, in the kernel's format.

    Args:
        machine: Value of ``platform.machine``, one of ``ARCHITECTURES``.
    """
    column, architecture = ARCHITECTURES[machine]
    code: List[Instruction] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_LOAD, 0, 0, 0),
    ]
    for numbers in _ALLOWED.values():
        code += _all(numbers, column, _ALLOW)
    for error, numbers in _REFUSED.items():
        code += _all(numbers, column, _ERROR | error)
    pid = os.getpid()
    rules = {
        _CLONE: [_argument(0), (_HAS, 0, 1, _CLONE_THREAD), (_RETURN, 0, 0, _ALLOW), _error(errno.EPERM)],
        _KILL: [*_one_of(0, [pid]), _error(errno.EPERM)],
        _TGKILL: [*_one_of(0, [pid]), _error(errno.EPERM)],
        _AFFINITY: [*_one_of(0, [0, pid]), _error(errno.EPERM)],
        _IOCTL: [*_one_of(1, _IOCTLS), _error(errno.ENOTTY)],
        _FCNTL: [*_one_of(1, _FCNTLS), _error(errno.EINVAL)],
        # Its own limits may be read, but not set.
        _PRLIMIT: [
            _argument(0), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 5, pid),
            _argument(2), (_EQUAL, 0, 3, 0), _argument(2, high=True), (_EQUAL, 0, 1, 0),
            (_RETURN, 0, 0, _ALLOW), _error(errno.EPERM),
        ],
        # It may only request to end with its parent.
        _PRCTL: [
            _argument(0), (_EQUAL, 0, 1, _SET_PARENT_DEATH_SIGNAL), _error(errno.EPERM), (_RETURN, 0, 0, _ALLOW),
        ],
        _OPEN: _opening(1),
        _OPENAT: _opening(2),
        # Setting a given time, as for a copy, returns success without effect. Setting the current time is refused:
        # a program then creates the file, which sets it.
        _TIMES: [
            _argument(2), (_EQUAL, 0, 3, 0), _argument(2, high=True), (_EQUAL, 0, 1, 0), _error(errno.EPERM), _error(0),
        ],
    }  # fmt: skip
    for number, rule in rules.items():
        if number[column] >= 0:
            code += [(_EQUAL, 0, len(rule), number[column]), *rule]
    code.append(_error(errno.ENOSYS))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _all(numbers: Iterable[Tuple[int, int]], column: int, result: int) -> List[Instruction]:
    code: List[Instruction] = []
    for number in numbers:
        if number[column] >= 0:
            code += [(_EQUAL, 0, 1, number[column]), (_RETURN, 0, 0, result)]
    return code


def _argument(place: int, high: bool = False) -> Instruction:
    """Return the instruction that loads the lower half of an argument, or the upper one (little-endian)."""
    return (_LOAD, 0, 0, 16 + 8 * place + (4 if high else 0))


def _one_of(place: int, values: Sequence[int]) -> List[Instruction]:
    code = [_argument(place)]
    for value in values:
        code += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return code


def _opening(place: int) -> List[Instruction]:
    """Return the rule for opening files: only files opened for writing may be truncated.

    Old versions of Landlock allow truncation to any process that may open the file. The access mode 3 opens a file for
    neither reading nor writing, without any right of Landlock.
    """
    return [
        _argument(place),
        (_AND, 0, 0, _ACCESS_MODE),
        (_EQUAL, 3, 0, _ACCESS_MODE),
        _argument(place),
        (_AND, 0, 0, _ACCESS_MODE | _TRUNCATE),
        (_EQUAL, 0, 1, _TRUNCATE),
        _error(errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _error(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | number)
