"""Reading of small text files in /proc and /sys; missing or forbidden files read as None."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path, limit_bytes: int | None = None) -> str | None:
    """Return the file's text without surrounding white space, or None if it cannot be read.

    Args:
        path: A file of /proc or /sys, decoded as ASCII; other bytes are replaced.
        limit_bytes: Maximum number of bytes: the kernel generates these files as they are read, and
            ``/proc/cpuinfo`` of a large machine takes milliseconds.
    """
    try:
        with path.open("rb") as file:
            data = file.read() if limit_bytes is None else file.read(limit_bytes)
    except OSError:
        return None
    return data.decode("ascii", errors="replace").strip()


def read_int(path: Path) -> int | None:
    """Return the file's text as an integer, or None if it is not one."""
    text = read_text(path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def read_fields(path: Path) -> dict[str, int]:
    """Return a file of ``name number`` lines (cpu.stat, memory.stat) as a mapping; empty if unreadable."""
    fields: dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdigit():
            fields[name] = int(value)
    return fields


def cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs of a kernel list such as ``0-3,8,10-11``, in order.

    Parts that are not numbers are skipped, so an unreadable list is empty.
    """
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))
