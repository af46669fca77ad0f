"""ONNX Runtime's versions, and which of them knows a setting."""

from __future__ import annotations

from ortune.catalogue.knob import Knob


def version(text: str) -> tuple[int, ...]:
    """Return a version for comparing: "1.31.1" -> (1, 31, 1); an unreadable part ends it."""
    parts = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)


def too_old(knob: Knob, ort_version: str) -> str:
    """Return why this version cannot take the setting, "" if it can.

    Args:
        knob: The setting.
        ort_version: Of what runs it: ONNX Runtime, or onnxruntime-web. "" is unknown, and not taken for too old.
    """
    if not ort_version or version(ort_version) >= version(knob.since):
        return ""
    what = "onnxruntime-web" if knob.of_browsers else "onnxruntime"
    return f"{knob.name} needs {what} {knob.since}; this is {ort_version}"
