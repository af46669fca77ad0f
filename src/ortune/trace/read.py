"""Reads a trace of any format, told by what is in the file and not by its name."""

from __future__ import annotations

import re
from pathlib import Path

from ortune import files
from ortune.errors import UsageError
from ortune.trace.ort_profile import BYTE_ORDER_MARK, read_profile
from ortune.trace.table import Trace
from ortune.trace.web_console import KERNEL_MARK, pieces, read_console

HEAD_BYTES = 1 << 16
_JSON = re.compile(rb"\s*(?:\{|\[\s*(?:[{\]]|\Z))")
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_HOW = "pass the JSON file that end_profiling() names, or the saved console output of onnxruntime-web"


def read_trace(path: Path) -> Trace:
    """Read a profile of ONNX Runtime, or what onnxruntime-web printed to a browser's console.

    Raises:
        UsageError: The file cannot be read, or holds neither.
    """
    try:
        with files.open_file(path) as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if not head:
        raise UsageError("is empty", where=str(path), do=_HOW)
    if head.startswith((_GZIP, _ZIP)):
        raise UsageError("is compressed", where=str(path), do="unpack it first")
    if head.startswith(_UTF16):
        raise UsageError("is UTF-16 text", where=str(path), do="save it as UTF-8")
    # Zeros alone are what a crash leaves at the end of a file.
    if b"\0" in head and b'"cat"' not in head and KERNEL_MARK not in head:
        raise UsageError("is not a supported trace (not a text file)", where=str(path), do=_HOW)
    if not _JSON.match(head.removeprefix(BYTE_ORDER_MARK)) or KERNEL_MARK in head:
        return read_console(path)
    trace = read_profile(path)
    # A console's log can begin as a profile does; what follows is no line of one.
    return read_console(path) if trace.n_unreadable and _mentions(path, KERNEL_MARK) else trace


def looks_like_trace(head: bytes) -> bool:
    """Return whether a file that begins so is a trace, or can become one: ``read_trace`` says what to do with it."""
    unreadable = (_GZIP, _ZIP, *_UTF16, BYTE_ORDER_MARK)
    return head.startswith(unreadable) or _JSON.match(head) is not None or KERNEL_MARK in head


def _mentions(path: Path, text: bytes) -> bool:
    with files.open_file(path) as file:
        return any(text in line for line in pieces(file))
