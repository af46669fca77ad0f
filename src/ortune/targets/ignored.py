"""Detects options that ONNX Runtime accepts but ignores or replaces, from its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_LINE = re.compile(r"\[[WE]:onnxruntime:[^\]]*\]\s*(.*?)\s*(?:\x1b\[m)?$")
"""Log line of a warning or an error; its group is the message."""
_REFUSED = (
    r"\b{}['\"]?\s+(?:is |are )?(?:ignored|not valid|invalid|not supported|not correct|should be|must be)\b"
)


def ignored(log: Iterable[str], options: Mapping[str, str]) -> str:
    """Return the first option that was not applied, with its log message; "" if there is none.

    Args:
        log: Lines of a process that created a session.
        options: Display names of execution providers' options, by option.
    """
    # Some messages spell a name in words: "Htp performance mode not valid."
    refused = {
        key: re.compile(_REFUSED.format(re.escape(key).replace("_", "[_ ]")), re.IGNORECASE)
        for key in options
    }
    for line in log:
        said = _LINE.search(line)
        for key, pattern in refused.items():
            if said and pattern.search(said[1]):
                return f"{options[key]} was not applied: {said[1]}"
    return ""
