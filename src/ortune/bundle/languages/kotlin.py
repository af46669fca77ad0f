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
    TEXT = "{}.toString()"
    TUNED = "tunedModel"
    ENOUGH = "tunedHere && cpus() >= TUNED_CPUS"
    ALLOCATOR = "!withoutAllocator()"
    OPTIONS: ClassVar[Mapping[str, str]] = {key: line.rstrip(";") for key, line in Java.OPTIONS.items()}
    CONFIG = Java.CONFIG.rstrip(";")
    RUN_CONFIG = Java.RUN_CONFIG.rstrip(";")
    CUSTOM_OPS = Java.CUSTOM_OPS.rstrip(";")
    VARIABLE = "wanted[{}] = {}"
    POOL = "threading.setGlobalIntraOpNumThreads({})\nthreading.setGlobalInterOpNumThreads(1)"
    LOCAL_POOL = Java.LOCAL_POOL.rstrip(";")
    PAIR = "{} to {}"
    MAP = "mapOf<String, String>({})"
    ENTRY = "{} to {}"
    NEW = "val {1} = {0}()"
    END = ""
    PLAIN_ENVIRONMENT = (
        "  /** The environment of the process. */\n"
        "  fun environment(): OrtEnvironment = OrtEnvironment.getEnvironment()\n"
    )
    POOL_INDENT = 6
    POOL_ENVIRONMENT = (
        "  private var shared: OrtEnvironment? = null\n"
        "\n"
        "  /**\n"
        "   * The environment of the process with the pool that its sessions share; the first call makes it.\n"
        "   *\n"
        "   * @throws IllegalStateException The program made an environment before: call this one first.\n"
        "   */\n"
        "  @Synchronized\n"
        "  fun environment(): OrtEnvironment {\n"
        "    shared?.let { return it }\n"
        "    return OrtEnvironment.ThreadingOptions().use { threading: OrtEnvironment.ThreadingOptions ->\n"
        "@@POOL@@"
        '      OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_WARNING, "ort", threading)\n'
        "    }.also { shared = it }\n"
        "  }\n"
    )
    PLAIN_SESSION = (
        "    return sessionOptions(folder, other.isEmpty(), plain.isEmpty()).use { options ->\n"
        "      environment.createSession(folder.resolve(model).toString(), options)\n"
        "    }\n"
    )
    OPS_SESSION = (
        "    // Left open: closing the options would unload the custom operators' libraries, which the session calls.\n"
        "    val options = sessionOptions(folder, other.isEmpty(), plain.isEmpty())\n"
        "    try {\n"
        "      return environment.createSession(folder.resolve(model).toString(), options)\n"
        "    } catch (error: OrtException) {\n"
        "      options.close()\n"
        "      throw error\n"
        "    }\n"
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
