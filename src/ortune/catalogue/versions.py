"""Comparison of ONNX Runtime's versions with those that settings need."""

from __future__ import annotations

from ortune.catalogue.knob import Knob


def parse_version(text: str) -> tuple[int, ...]:
    """Return a version as a comparable tuple: "1.31.1" -> (1, 31, 1); stops at the first part without a number."""
    parts = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)


def why_too_old(knob: Knob, ort_version: str) -> str:
    """Return why a version does not support a setting; "" if it does.

    Args:
        knob: The setting.
        ort_version: Version of ONNX Runtime, or of onnxruntime-web; "" if unknown, which is not too old.
    """
    if not ort_version or parse_version(ort_version) >= parse_version(knob.since):
        return ""
    what = "onnxruntime-web" if knob.is_only_in_browsers else "onnxruntime"
    return f"{knob.name} needs {what} {knob.since}; this is {ort_version}"
