"""Error handling of a worker process: each failure is reported as one message with its reason."""

from __future__ import annotations

import os
import re
import sys
from typing import Callable, NoReturn

from .protocol import Link, Stop

_FULL = (28, 122, 27)
"""Error numbers ENOSPC, EDQUOT and EFBIG: disk full, over the quota, over the file size limit."""


def first_lines(error: BaseException) -> str:
    """Return the type and message of an exception, at most 2,000 characters."""
    name, text = type(error).__name__, str(error).strip()
    if name == "EPFail":
        # A plug-in's own message comes last, after the source locations that it passed.
        last = " ".join(text.rpartition("EP_FAIL : ")[2].split())
        last = re.sub(r"^\S+\.(?:cc|cpp|h):\d+ .*?\)(?: const)? ", "", last)
        text = last.partition(" was false. ")[2] or last or text
    return ("%s: %s" % (name, text) if text else name)[:2000]


def conclude(
    link: Link, work: Callable[[], None], words: Callable[[BaseException], str] = first_lines
) -> NoReturn:
    """Run the work of a process, report any error, and exit."""
    try:
        work()
    except Stop as stop:
        link.send("error", reason=stop.reason, what=stop.what, phase=link.phase, knob=stop.knob)
    except BrokenPipeError:
        pass  # ortune has ended
    except Exception as error:  # the only broad except: a trial's failure is data
        link.send("error", reason=reason(error, link.phase), what=words(error), phase=link.phase)
    # Destructors of a session can take seconds; all results have been sent.
    sys.stdout.flush()
    os._exit(0)


def reason(error: BaseException, phase: str) -> str:
    """Return the reason of a failed trial, from a closed list."""
    name, text = type(error).__name__, str(error).lower()
    if isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY):
        return "out-of-memory"
    if (isinstance(error, OSError) and _is_disk_full(error)) or "no space left" in text:
        return "disk-full"
    if name == "InvalidArgument" and phase in ("running", "warming", "timing"):
        return "input-error"
    if name == "NotImplemented":
        return "unsupported"
    if "unknown provider type" in text:
        return "not-applied"  # a provider of older releases; for others this build silently falls back
    return "load-error" if phase in ("importing", "loading") else "run-error"


_NO_MEMORY = (
    "failed to allocate",
    "bad allocation",
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
)
"""Parts of the messages of ONNX Runtime, PyTorch and the system if memory is exhausted."""


def _is_disk_full(error: OSError) -> bool:
    """Return whether an error means a full disk; numpy raises such errors without a number."""
    return error.errno in _FULL or "written" in str(error) or "free space" in str(error)
