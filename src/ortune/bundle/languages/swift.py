"""``load.swift``: for the package ``onnxruntime-swift-package-manager`` (module ``OnnxRuntimeBindings``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ortune.bundle.languages._source import Language, by_name, escaped
from ortune.records import BundleInfo


class Swift(Language):
    """The words of Swift."""

    NAME = "Swift"
    FILE = "load.swift"
    COUNT = "threads({})"
    TEXT = "String({})"
    IF = "if {} {{\n    {}\n}}"
    TUNED = "tunedModel"
    ENOUGH = "tunedHere && cpus() >= tunedCpus"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "intra_op_num_threads": "try options.setIntraOpNumThreads({})",
        "graph_optimization_level": "try options.setGraphOptimizationLevel({})",
    }
    WORDS: ClassVar[Mapping[str, str]] = {
        "ORT_DISABLE_ALL": "ORTGraphOptimizationLevel.none",
        "ORT_ENABLE_BASIC": "ORTGraphOptimizationLevel.basic",
        "ORT_ENABLE_EXTENDED": "ORTGraphOptimizationLevel.extended",
        "ORT_ENABLE_LAYOUT": "ORTGraphOptimizationLevel.layout",
        "ORT_ENABLE_ALL": "ORTGraphOptimizationLevel.all",
    }
    CONFIG = "try options.addConfigEntry(withKey: {}, value: {})"
    RUN_CONFIG = "try run.addConfigEntry(withKey: {}, value: {})"
    LINKED_OPS = (
        "link the library and put into sessionOptions: "
        'try options.registerCustomOps(usingFunction: "RegisterCustomOps")'
    )
    VARIABLE = "wanted.append(({}, {}))"
    PRELOADS = False  # Apple's systems alone have the package
    LIST = "[{}]"
    PAIR = "({}, {})"
    INDENT = 8

    def quote(self, text: str) -> str:
        """A literal; no backslash is left bare, so nothing is interpolated."""
        special = {'"': '\\"', "\\": "\\\\"}
        # Half of a surrogate pair is no character of Swift.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return '"' + escaped(whole, special, "\\u{{{:x}}}") + '"'

    def provider(self, name: str, options: Mapping[str, str]) -> list[str] | None:
        """Statements that append an execution provider."""
        short = by_name().get(name)
        if short is None:
            return None
        entries = ", ".join(f"{self.quote(key)}: {self.quote(value)}" for key, value in options.items())
        return [
            f"try options.appendExecutionProvider({self.quote(short)}, providerOptions: [{entries or ':'}])"
        ]


def emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]:
    """The file ``load.swift``."""
    return Swift(info, custom_ops).files()
