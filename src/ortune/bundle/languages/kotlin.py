"""``Load.kt``: for ``com.microsoft.onnxruntime:onnxruntime`` and ``onnxruntime-android``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ortune.bundle.languages.java import Java
from ortune.records import BundleInfo


class Kotlin(Java):
    """The words of Kotlin, which calls the classes of Java."""

    NAME = "Kotlin"
    FILE = "Load.kt"
    LEAST = "minOf({}, cpus())"
    TEXT = "{}.toString()"
    TUNED = "tunedHere"
    ENOUGH = "tunedHere && cpus() >= TUNED_CPUS"
    OPTIONS: ClassVar[Mapping[str, str]] = {key: line.rstrip(";") for key, line in Java.OPTIONS.items()}
    CONFIG = Java.CONFIG.rstrip(";")
    RUN_CONFIG = Java.RUN_CONFIG.rstrip(";")
    CUSTOM_OPS = Java.CUSTOM_OPS.rstrip(";")
    VARIABLE = "wanted[{}] = {}"
    POOL = (
        "val threading = OrtEnvironment.ThreadingOptions()\n"
        "threading.setGlobalIntraOpNumThreads({})\n"
        "threading.setGlobalInterOpNumThreads(1)"
    )
    LOCAL_POOL = Java.LOCAL_POOL.rstrip(";")
    PAIR = "{} to {}"
    MAP = "mapOf<String, String>({})"
    ENTRY = "{} to {}"
    NEW = "val {1} = {0}()"
    END = ""
    CREATE = (
        "return OrtEnvironment.getEnvironment()",
        'return OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_WARNING, "ort", threading)',
    )

    def quote(self, text: str) -> str:
        """A literal: Kotlin has no octal escapes, and a dollar begins a template."""
        special = {'"': '\\"', "\\": "\\\\", "$": "\\$"}
        data = text.encode("utf-16-be", "surrogatepass")
        units = (int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
        return '"' + "".join(_unit(unit, special) for unit in units) + '"'


def _unit(unit: int, special: Mapping[str, str]) -> str:
    plain = chr(unit)
    return special.get(plain) or (plain if " " <= plain <= "~" else f"\\u{unit:04x}")


def emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]:
    """The file ``Load.kt``."""
    return Kotlin(info, custom_ops).files()
