"""What an execution provider is: all that is known of one, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFailure:
    """A message of a provider that its device or a library cannot be used.

    Attributes:
        pattern: Regular expression that finds it in what ONNX Runtime says, in any case.
        what: The same in one plain sentence.
        do: What mends it.
    """

    pattern: str
    what: str
    do: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A build with the provider that ``ortune runtime add`` installs.

    Attributes:
        wheel: The wheel that brings the provider, a whole ONNX Runtime or a plug-in for a plain one.
        releases: Its versions, newest first, each with the version of the library that it was built against.
        what: What it is for, in words.
        about_bytes: What an installation takes on disk.
        beside: The version of the plain onnxruntime that a plug-in needs; "" for a whole one.
        library: The wheel of the library, where the provider's own wheel brings it on Linux alone.
        brings: Other wheels with their versions, without which the provider's library does not load.
        vendor: The maker of the hardware that it takes alone, where its provider takes others' too.
        cuda: The major version of CUDA that its wheels are for; 0 for none.
        emulated_on: Machines, as ``platform.machine()`` calls them, on which its device is software: for tests alone.
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
    """What the bindings of other languages, and Triton, call the provider; "" if one cannot append it.

    Attributes:
        by_name: The name that ONNX Runtime's C API appends it by; releases before 1.22 know no other.
        options_class: The word in the name of its class of options, in C++, C# and Java.
        java_map: Java's method that takes options by name.
        java_device: Java's method that takes one option alone, with the name of that option.
        java_flags: Java's method that takes flags, their enumeration, and what precedes its names in the options.
        node: onnxruntime-node's name.
        rust: The crate's name, where that passes any option.
        triton: The kind of execution accelerator, with the name.
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
        name: Its name in ONNX Runtime.
        target: What ``--target`` calls it: the name of its file, with hyphens; "" if models cannot be run on it.
        place: The folder in ``targets/`` with the code that runs its trials; "" for a process of this machine.
        aliases: Other words that people write for it.
        in_profiles: What profiles call it, where that is another name; the usual one first.
        wheel: The wheel whose build has it; "" when no wheel does.
        extras: The wheel's extras that bring the libraries which the provider needs; "" if it brings them itself.
        systems: Where that wheel exists, by ``platform.system()``.
        plugin: A plugin wheel that adds it to a plain ``onnxruntime``.
        device: The kind of device that its plugin wheel takes where a plan names none; "" is its first that is no CPU.
        otherwise: Where it comes from when no wheel brings it.
        builds: What ``ortune runtime add`` makes under the target's name, newest first; the first that works here.
        by_hand: What to do where it makes nothing and a wheel exists.
        failures: What it says where its device or a library cannot be used, the most precise first.
        ships: Whether a bundle can be made for it.
        options: What a plan file or a bundle may set of it: numbers, switches and words. Never what names a file, a
            folder or a library, or holds an address in memory.
        needs: Options without which it does not start.
        bindings: What it is called elsewhere.
        hardware: What computes; "" if that depends on its options.
        vendor: The maker of that hardware, where it is one alone.
        queues: It hands work to a device and goes on: a run waits for that at its end, outside of all nodes.
        compiles: It makes one node of each part of the graph that it takes.
        saves_compiled: ONNX Runtime saves those nodes with their compiled code in a model (EPContext).
        layer_task: The task of the tool process by which the provider reports the layers that it compiled; "" for none.
        static_int8: Parameters of ``static-int8`` that suit it, where they differ from those of the CPU provider.
        standard_operators: It knows the operators of ONNX alone, none that ONNX Runtime's optimiser makes.
        fixed_sizes: It leaves nodes whose shapes are not known to the CPU.
        memory: What ``OrtValue`` calls its device's memory, where values can be made there; "" elsewhere.
        graph_option: The option, of the provider or of the session, that replays runs from a captured graph, which is
            right only with buffers on the device that keep their addresses; "" if there is none.
        tracer: What times its kernels: NVIDIA's CUPTI; "" if nothing does, or ONNX Runtime itself.
        float16: It computes faster in float16.
        int32: It computes faster with 32-bit integers than with 64-bit ones.
        web_builds: The builds of onnxruntime-web that have it, the one of the package's default import first.
        web_alone: The build that has nothing else.
        question: An expression of JavaScript that gives why a browser cannot run it, "" if it can, and ``EMULATED``
            where the CPU emulates the GPU; "" for what every browser runs, or nobody asks.
        browser_flags: Arguments of the browser without which it is not offered.
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
        """Whether the provider runs in a page of a browser, by onnxruntime-web."""
        return self.place == PAGE

    @property
    def in_node(self) -> bool:
        """Whether the provider runs in Node.js, by onnxruntime-node."""
        return self.place == NODE

    def emulated_by(self, devices: Sequence[str] | None) -> bool:
        """Return whether a provider for a GPU or an NPU was offered the CPU alone: times there are no device's."""
        return self.hardware in ("gpu", "npu") and devices is not None and tuple(devices) == ("CPU",)

    @property
    def cpu_kernels(self) -> bool:
        """Whether ONNX Runtime's own kernels for the CPU run its nodes: WebAssembly has the same."""
        return "CPUExecutionProvider" in self.profiled_as

    @property
    def profiled_as(self) -> tuple[str, ...]:
        """All that profiles call it."""
        return self.in_profiles or (self.name,)


EMULATED = "emulated"
"""What a page answers whose GPU is software: it runs there, and its times are no GPU's."""
SOFTWARE = "/swiftshader|llvmpipe|softpipe|software|basic render/i"
"""A regular expression of JavaScript: the names of software renderers."""
PAGE = "browser"
"""The place of what runs in a page."""
NODE = "node"
"""The place of what runs in Node.js."""
