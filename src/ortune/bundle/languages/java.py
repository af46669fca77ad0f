"""``Load.java``: for ``com.microsoft.onnxruntime:onnxruntime``, Java 11 or later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ortune.bundle.languages._source import Language, escaped
from ortune.records import BundleInfo

SPECIAL = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
BY_MAP = {
    "XnnpackExecutionProvider": "addXnnpack",
    "QNNExecutionProvider": "addQnn",
    "CoreMLExecutionProvider": "addCoreML",
    "WebGpuExecutionProvider": "addWebGPU",
}
"""Providers whose options Java takes as a map of texts."""

BY_CLASS = {
    "CUDAExecutionProvider": ("OrtCUDAProviderOptions", "addCUDA"),
    "TensorrtExecutionProvider": ("OrtTensorRTProviderOptions", "addTensorrt"),
}


class Java(Language):
    """The words of Java; Kotlin calls the same classes."""

    NAME = "Java"
    FILE = "Load.java"
    COUNT = "threads({})"
    TEXT = "String.valueOf({})"
    IF = "if ({}) {{\n  {}\n}}"
    TUNED = "tunedModel"
    ENOUGH = "tunedHere && cpus() >= TUNED_CPUS"
    ALLOCATOR = "!withoutAllocator()"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "intra_op_num_threads": "options.setIntraOpNumThreads({});",
        "inter_op_num_threads": "options.setInterOpNumThreads({});",
        "execution_mode": "options.setExecutionMode({});",
        "graph_optimization_level": "options.setOptimizationLevel({});",
        "enable_cpu_mem_arena": "options.setCPUArenaAllocator({});",
        "enable_mem_pattern": "options.setMemoryPatternOptimization({});",
    }
    WORDS: ClassVar[Mapping[str, str]] = {
        "ORT_DISABLE_ALL": "OrtSession.SessionOptions.OptLevel.NO_OPT",
        "ORT_ENABLE_BASIC": "OrtSession.SessionOptions.OptLevel.BASIC_OPT",
        "ORT_ENABLE_EXTENDED": "OrtSession.SessionOptions.OptLevel.EXTENDED_OPT",
        "ORT_ENABLE_LAYOUT": "OrtSession.SessionOptions.OptLevel.LAYOUT_OPT",
        "ORT_ENABLE_ALL": "OrtSession.SessionOptions.OptLevel.ALL_OPT",
        "ORT_SEQUENTIAL": "OrtSession.SessionOptions.ExecutionMode.SEQUENTIAL",
        "ORT_PARALLEL": "OrtSession.SessionOptions.ExecutionMode.PARALLEL",
    }
    CONFIG = "options.addConfigEntry({}, {});"
    RUN_CONFIG = "run.addRunConfigEntry({}, {});"
    CUSTOM_OPS = "options.registerCustomOpLibrary(folder.resolve({}).toString());"
    VARIABLE = "wanted.put({}, {});"
    POOL = "threading.setGlobalIntraOpNumThreads({});\nthreading.setGlobalInterOpNumThreads(1);"
    LOCAL_POOL = "options.disablePerSessionThreads();"
    PAIR = "{{{}, {}}}"
    INDENT = 4
    MAP = "Map.ofEntries({})"
    ENTRY = "Map.entry({}, {})"
    NEW = "{0} {1} = new {0}();"
    END = ";"
    PLAIN_ENVIRONMENT = (
        "  /** The environment of the process. */\n"
        "  public static OrtEnvironment environment() throws OrtException {\n"
        "    return OrtEnvironment.getEnvironment();\n"
        "  }\n"
    )
    POOL_INDENT = 8
    # ONNX Runtime refuses to be given a pool twice, and every session of the process is to share this one.
    POOL_ENVIRONMENT = (
        "  private static OrtEnvironment shared;\n"
        "\n"
        "  /**\n"
        "   * The environment of the process with the pool that its sessions share; the first call makes it.\n"
        "   *\n"
        "   * @throws IllegalStateException The program made an environment before: call this one first.\n"
        "   */\n"
        "  public static synchronized OrtEnvironment environment() throws OrtException {\n"
        "    if (shared == null) {\n"
        "      try (OrtEnvironment.ThreadingOptions threading = new OrtEnvironment.ThreadingOptions()) {\n"
        "@@POOL@@"
        "        shared =\n"
        "            OrtEnvironment.getEnvironment(\n"
        '                OrtLoggingLevel.ORT_LOGGING_LEVEL_WARNING, "ort", threading);\n'
        "      }\n"
        "    }\n"
        "    return shared;\n"
        "  }\n"
    )
    PLAIN_SESSION = (
        "    try (OrtSession.SessionOptions options = sessionOptions(folder, other.isEmpty(), plain.isEmpty())) {\n"
        "      return environment.createSession(folder.resolve(model).toString(), options);\n"
        "    }\n"
    )
    # Closing the options unloads the libraries, whose code the session calls.
    OPS_SESSION = (
        "    // Left open: closing the options would unload the custom operators' libraries, which the session calls.\n"
        "    OrtSession.SessionOptions options = sessionOptions(folder, other.isEmpty(), plain.isEmpty());\n"
        "    try {\n"
        "      return environment.createSession(folder.resolve(model).toString(), options);\n"
        "    } catch (OrtException error) {\n"
        "      options.close();\n"
        "      throw error;\n"
        "    }\n"
    )

    def quote(self, text: str) -> str:
        """A literal; control characters in octal, since Java reads Unicode escapes before it reads quotes."""
        parts = (
            escaped(sign, SPECIAL, "\\{:03o}" if sign < "\x80" else "\\u{:04x}") for sign in _units(text)
        )
        return '"' + "".join(parts) + '"'

    def provider(self, name: str, options: Mapping[str, str]) -> list[str] | None:
        """Statements that append an execution provider."""
        if name in BY_MAP:
            return [f"options.{BY_MAP[name]}({self._map(options)}){self.END}"]
        if name == "OpenVINOExecutionProvider":
            return [f"options.addOpenVINO({self.quote(options.get('device_type', ''))}){self.END}"]
        if name in BY_CLASS:
            kind, method = BY_CLASS[name]
            own = method.removeprefix("add").lower()
            lines = [self.NEW.format(kind, own)]
            lines += [
                f"{own}.add({self.quote(key)}, {self.quote(value)}){self.END}"
                for key, value in options.items()
            ]
            return [*lines, f"options.{method}({own}){self.END}"]
        if name == "DmlExecutionProvider":
            device = options.get("device_id", "0")
            return [
                f"options.addDirectML({device if device.isdecimal() and device.isascii() else 0}){self.END}"
            ]
        return None

    def options_lost(self, name: str, options: Mapping[str, str]) -> list[str]:
        """OpenVINO and DirectML take their device alone."""
        known = {"OpenVINOExecutionProvider": {"device_type"}, "DmlExecutionProvider": {"device_id"}}
        return [key for key in options if name in known and key not in known[name]]

    def extra(self) -> dict[str, str]:
        """How environment and session are made, and the imports of providers."""
        pool = self.of("global_pool")
        made = self.POOL_ENVIRONMENT.replace("@@POOL@@", self.block(self.once(), self.POOL_INDENT))
        used = sorted({BY_CLASS[name][0] for name, _ in self.providers() if name in BY_CLASS})
        return {
            "ENVIRONMENT_OF": made if pool else self.PLAIN_ENVIRONMENT,
            "CREATE_SESSION": self.OPS_SESSION if self.custom_ops else self.PLAIN_SESSION,
            "IMPORTS": "".join(f"import ai.onnxruntime.providers.{name}{self.END}\n" for name in used),
        }

    def _map(self, options: Mapping[str, str]) -> str:
        entries = (self.ENTRY.format(self.quote(key), self.quote(value)) for key, value in options.items())
        return self.MAP.format(", ".join(entries))


def _units(text: str) -> list[str]:
    """UTF-16 code units, each as one character."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [chr(int.from_bytes(data[i : i + 2], "big")) for i in range(0, len(data), 2)]


def emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]:
    """The file ``Load.java``."""
    return Java(info, custom_ops).files()
