"""The record of an execution provider, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFailure:
    """A message of a provider that its device or a library cannot be used.

    Attributes:
        pattern: Regular expression that matches the message in ONNX Runtime's output, ignoring case.
        what: The message in one plain sentence.
        do: The fix.
    """

    pattern: str
    what: str
    do: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A build with the provider that ``ortune runtime add`` can install.

    Attributes:
        wheel: The wheel with the provider: a whole ONNX Runtime, or a plug-in for a plain one.
        releases: Versions of the wheel, newest first, each with the version of the library that it was built against.
        what: Purpose of the build, in words.
        about_bytes: Approximate size of an installation on disk.
        beside: Version of the plain onnxruntime that a plug-in needs; "" for a whole one.
        library: The library's wheel, if the provider's wheel includes the library only on Linux.
        brings: Other wheels with versions, without which the provider's library does not load.
        vendor: The only hardware vendor that it supports, if its provider supports others too.
        cuda: Major version of CUDA that its wheels are for; 0 for none.
        emulated_on: Machines, as in ``platform.machine()``, on which its device is software, for tests only.
    """

    wheel: str
    releases: tuple[tuple[str, str], ...]
    what: str
    about_bytes: int
    beside: str = ""
    library: str = ""
    brings: tuple[str, ...] = ()
    vendor: str = ""
    cuda: int = 0
    emulated_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """Names of a provider in the bindings of other languages and in Triton; "" or None if it is not supported there.

    Attributes:
        by_name: Short name for ONNX Runtime's C API; releases before 1.22 accept no other name.
        options_class: The provider's part of the name of its options class in C++, C# and Java.
        java_map: Java method that takes options by name.
        java_device: Java method that takes a single option, and the name of the option.
        java_flags: Java method that takes flags, their enumeration, and the prefix of their names in the options.
        node: Name in onnxruntime-node.
        rust: Name in the Rust crate, if it passes any option.
        triton: Kind of execution accelerator in Triton, and the name.
    """

    by_name: str = ""
    options_class: str = ""
    java_map: str = ""
    java_device: tuple[str, str] | None = None
    java_flags: tuple[str, str, str] | None = None
    node: str = ""
    rust: str = ""
    triton: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An execution provider, and the target that runs models on it.

    Attributes:
        name: Name in ONNX Runtime.
        target: Name for ``--target``: the name of its file, with hyphens; "" if models cannot be run on it.
        place: Folder in ``targets/`` with the code that runs its trials; "" for a process of this machine.
        aliases: Other names that users may write.
        in_profiles: Names in profiles if they differ, the usual name first.
        wheel: The wheel with the provider; "" if there is none.
        extras: Extras of the wheel for the libraries that the provider needs; "" if they are included.
        systems: Systems for which the wheel exists, as in ``platform.system()``.
        plugin: A plug-in wheel that adds it to a plain ``onnxruntime``.
        device: The kind of device that its plug-in uses if a plan names none; "" for the first that is not a CPU.
        otherwise: Where to get it if there is no wheel.
        builds: Builds for ``ortune runtime add`` under the target's name, newest first; the first that works is
            used.
        by_hand: How to install it if ``builds`` is empty although there is a wheel.
        failures: Messages if its device or a library cannot be used, most specific first.
        ships: Whether a bundle can be made for it.
        options: Options that a plan file or a bundle may set: numbers, switches and words, never names of files,
            folders or libraries, nor memory addresses.
        needs: Options without which it does not start, as (name, value).
        bindings: Its names in other languages.
        untested: Whether ortune was never run with this provider; the documentation of its settings then says so.
        hardware: The kind of hardware that computes; "" if it depends on the options.
        vendor: Vendor of the hardware, if there is only one.
        queues: Whether it queues work on a device asynchronously, so a run waits for the device at its end, outside of
            all nodes.
        compiles: Whether it compiles each part of the graph that it runs into one node.
        saves_compiled: Whether ONNX Runtime can save these nodes with their compiled code in a model (EPContext).
        layer_task: Task of the tool process with which the provider reports its compiled layers; "" for none.
        static_int8: Parameters of ``static-int8`` that suit it, if they differ from those of the CPU provider.
        standard_operators: Whether it supports only ONNX operators and none that ONNX Runtime's optimizer creates.
        fixed_sizes: Whether it leaves nodes with unknown shapes to the CPU.
        memory: Name of its device memory for ``OrtValue``, if values can be created there; else "".
        graph_option: Option of the provider or the session that replays runs from a captured graph, which is correct
            only with device buffers at fixed addresses; "" if there is none.
        tracer: Tool that times its kernels: NVIDIA's CUPTI; "" if there is none, or if ONNX Runtime itself times them.
        float16: Whether it computes faster in float16.
        int32: Whether it computes faster with 32-bit integers than with 64-bit ones.
        web_builds: Builds of onnxruntime-web that have it; the build of the package's default import first.
        web_alone: The build that has only this provider.
        question: JavaScript expression that returns why a browser cannot run it, "" if it can, or ``EMULATED`` if the
            CPU emulates the GPU; "" if every browser runs it or it is not checked.
        browser_flags: Browser arguments without which it is not available.
    """

    name: str
    target: str = ""
    place: str = ""
    aliases: tuple[str, ...] = ()
    in_profiles: tuple[str, ...] = ()
    wheel: str = ""
    extras: str = ""
    systems: tuple[str, ...] = ("Linux",)
    plugin: str = ""
    device: str = ""
    otherwise: str = ""
    builds: tuple[Build, ...] = ()
    by_hand: str = ""
    failures: tuple[DeviceFailure, ...] = ()
    ships: bool = False
    options: frozenset[str] = frozenset()
    needs: tuple[tuple[str, str], ...] = ()
    bindings: Bindings = Bindings()
    untested: bool = False
    hardware: Literal["", "cpu", "gpu", "npu"] = ""
    vendor: str = ""
    queues: bool = False
    compiles: bool = False
    saves_compiled: bool = False
    layer_task: str = ""
    static_int8: tuple[str, ...] = ()
    standard_operators: bool = False
    fixed_sizes: bool = False
    memory: str = ""
    graph_option: str = ""
    tracer: Literal["", "cupti"] = ""
    float16: bool = False
    int32: bool = False
    web_builds: tuple[str, ...] = ()
    web_alone: str = ""
    question: str = ""
    browser_flags: tuple[str, ...] = ()

    @property
    def in_page(self) -> bool:
        """Whether the provider runs in a browser page, with onnxruntime-web."""
        return self.place == PAGE

    @property
    def in_node(self) -> bool:
        """Whether the provider runs in Node.js, with onnxruntime-node."""
        return self.place == NODE

    def emulated_by(self, devices: Sequence[str] | None) -> bool:
        """Return whether a GPU or NPU provider had only CPU devices, so its times are not those of a GPU or NPU."""
        return self.hardware in ("gpu", "npu") and devices is not None and tuple(devices) == ("CPU",)

    @property
    def cpu_kernels(self) -> bool:
        """Whether ONNX Runtime's CPU kernels run its nodes, which includes WebAssembly."""
        return "CPUExecutionProvider" in self.profiled_as

    @property
    def profiled_as(self) -> tuple[str, ...]:
        """All names of the provider in profiles."""
        return self.in_profiles or (self.name,)


EMULATED = "emulated"
"""Result of ``Provider.question`` with a software GPU: the provider runs, but its times are not those of a GPU."""
SOFTWARE = "/swiftshader|llvmpipe|softpipe|software|basic render/i"
"""JavaScript regular expression for the names of software renderers."""
PAGE = "browser"
"""The place of providers that run in a browser page."""
NODE = "node"
"""The place of providers that run in Node.js."""
