"""Reader for traces of any supported format, which is detected from the content, not from the file name."""

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
    """Read a profile of ONNX Runtime, or the output of onnxruntime-web on a browser console.

    Raises:
        UsageError: If the file cannot be read, or has neither format.
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
    # A crash can leave zero bytes at the end of a file.
    if b"\0" in head and b'"cat"' not in head and KERNEL_MARK not in head:
        raise UsageError("is not a supported trace (not a text file)", where=str(path), do=_HOW)
    if not _JSON.match(head.removeprefix(BYTE_ORDER_MARK)) or KERNEL_MARK in head:
        return read_console(path)
    trace = read_profile(path)
    # A console log can begin like a profile.
    return read_console(path) if trace.n_unreadable and _has_kernels(path) else trace


def looks_like_trace(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` may be or contain a trace; ``read_trace`` reports any problem."""
    unreadable = (_GZIP, _ZIP, *_UTF16, BYTE_ORDER_MARK)
    return head.startswith(unreadable) or _JSON.match(head) is not None or KERNEL_MARK in head


def _has_kernels(path: Path) -> bool:
    with files.open_file(path) as file:
        return any(KERNEL_MARK in line for line in pieces(file))
