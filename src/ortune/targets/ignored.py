"""Options that ONNX Runtime accepts without an error and then ignores, or replaces, as its log says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_LINE = re.compile(r"\[[WE]:onnxruntime:[^\]]*\]\s*(.*?)\s*(?:\x1b\[m)?$")
"""A warning or an error, of which the last part is what is said."""
_REFUSED = (
    r"\b{}['\"]?\s+(?:is |are )?(?:ignored|not valid|invalid|not supported|not correct|should be|must be)\b"
)


def ignored(log: Iterable[str], options: Mapping[str, str]) -> str:
    """Return the first option that was not applied, and what was logged of it; "" if there is none.

    Args:
        log: Lines of a process that created a session.
        options: Of execution providers, each with what people call it.
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
