"""Machines, their runtimes and sensors, and a side of a comparison."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.model import ModelInfo
from ortune.records.plan import Plan
from ortune.records.protocol import Placement
from ortune.records.source import SourceSide


class Host(Record, frozen=True, kw_only=True):
    """The properties of the machine that affect speed.

    Attributes:
        cores: Number of physical cores; ``logical`` is the number of hardware threads.
        affinity: Number of CPUs that this process may run on.
        quota: CPUs allowed by the cgroup; None without a limit.
        effective_cpus: ``min(cores, affinity, quota)``, at least 1, rounded up.
        features: Instruction sets that matter for inference ("avx512_vnni", "amx_int8", ...).
        fingerprint: Changes if a stored result must not be compared with a new one.
    """

    system: str
    machine: str
    cpu: str
    cores: int
    logical: int
    affinity: int
    quota: float | None = None
    effective_cpus: int
    memory_bytes: int
    memory_limit_bytes: int | None = None
    features: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    fingerprint: str = ""


class NodeRuntime(Record, frozen=True, kw_only=True):
    """One onnxruntime-node with the Node.js that runs it.

    Attributes:
        program: The Node.js program.
        folder: The folder whose ``node_modules`` has the package.
        node_version: Version of Node.js.
        version: Version of onnxruntime-node.
        providers: The execution providers of its build, by its own names.
        lacks: Execution providers whose libraries an install script would have downloaded.
    """

    program: str
    folder: str
    node_version: str
    version: str
    providers: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    @property
    def called(self) -> str:
        """Both versions as text: "onnxruntime-node 1.30.0 in Node.js 20.20.2"."""
        return f"onnxruntime-node {self.version} in Node.js {self.node_version}"


class Runtime(Record, frozen=True, kw_only=True):
    """One interpreter with one ONNX Runtime build.

    Attributes:
        name: Name of a runtime that ortune installed ("onnxruntime==1.22.1", "openvino"); "" for the user's own.
        packages: Other installed packages that rewrites use, with their versions.
        plugins: Wheels that add execution providers to the build, by provider: "onnxruntime-ep-webgpu 0.4.0".
        ort_web: Version of the onnxruntime-web that runs the model instead, in a browser; "" otherwise.
        ort_web_dist: Folder of its builds.
        node: The onnxruntime-node that runs the model instead, in Node.js; None otherwise.
        source: A framework's own model that is run instead of the ONNX model; None for ONNX Runtime.
        host: The other machine that runs the model, without access to files of this machine; None for this machine.
        packed: Archive of a build that is sent to that machine and imported instead of the machine's own; "" for none.
    """

    python: str
    python_version: str = ""
    ort_version: str = ""
    package: str = ""
    providers: tuple[str, ...] = ()
    origin: str = ""
    error: str = ""
    name: str = ""
    packages: dict[str, str] = {}
    plugins: dict[str, str] = {}
    ort_web: str = ""
    ort_web_dist: str = ""
    node: NodeRuntime | None = None
    source: SourceSide | None = None
    host: Host | None = None
    packed: str = ""

    @property
    def native(self) -> str:
        """The interpreter's build of ONNX Runtime, "onnxruntime-openvino 1.24.1"; for a source, its framework."""
        if self.source is not None:
            return self.source.called
        return f"{self.package or 'onnxruntime'} {self.ort_version}".strip()

    @property
    def offered(self) -> tuple[str, ...]:
        """The execution providers of the build and of its plug-ins."""
        return (*self.providers, *self.plugins)

    @property
    def build(self) -> str:
        """The build that runs the model: ``native``, onnxruntime-web, or onnxruntime-node, with its version."""
        if self.node is not None:
            return self.node.called
        return (
            f"onnxruntime-web {self.ort_web or 'of an unknown version'}" if self.ort_web_dist else self.native
        )

    def version_of(self, plan: Plan) -> str:
        """Return the version of ONNX Runtime, onnxruntime-web or onnxruntime-node that runs a plan; "" if unknown."""
        if plan.is_node:
            return self.node.version if self.node is not None else ""
        if plan.is_web:
            return self.ort_web if self.ort_web_dist else ""
        return self.ort_version


IN_A_POD = "in an emulated container"
"""Beginning of the note on an emulated container, because documents have no field for its size."""


class PodSize(Record, frozen=True, kw_only=True):
    """The limits of a container; None means no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None


class Sensors(Record, frozen=True, kw_only=True):
    """System sensors read around the turns of a trial and of the trials with which it took turns.

    They explain results and never exclude a single trial. A value is None if the system does not report it.

    Attributes:
        others_cpu_us: CPU time of all programs other than ortune.
        temperature_c: Temperature of the hottest zone, in degrees Celsius.
        elapsed_ns: Time between the two readings.
    """

    load1: float | None = None
    psi_cpu_some_us: int | None = None
    others_cpu_us: int | None = None
    steal_ticks: int | None = None
    involuntary_switches: int | None = None
    nr_throttled: int | None = None
    nr_periods: int | None = None
    throttled_us: int | None = None
    cpu_mhz: float | None = None
    swap_bytes: int | None = None
    thermal_throttles: int | None = None
    temperature_c: float | None = None
    cpu_over_wall: float | None = None
    elapsed_ns: int | None = None

    @property
    def waited_us(self) -> int | None:
        """Upper bound on the time in which a task waited for a CPU used by another program; None if unknown.

        It is capped at the CPU time of other programs, because the measured waiting time also includes trials that
        wait for each other: with short turns, tasks waited 40 % of the time although other programs used 0.5 % of the
        machine.
        """
        if self.psi_cpu_some_us is None or self.others_cpu_us is None:
            return self.psi_cpu_some_us
        return min(self.psi_cpu_some_us, self.others_cpu_us)

    def waited_ratio(self, elapsed_ns: int, *, anybody: bool = False) -> float | None:
        """Return ``waited_us`` as a fraction of the time between the two readings, at most 1; None if unknown.

        Args:
            elapsed_ns: Time between the two readings if ``self.elapsed_ns`` is unknown.
            anybody: Whether to count all waits, including those for ortune's own threads.
        """
        waited_us = self.psi_cpu_some_us if anybody else self.waited_us
        return (
            None if waited_us is None else min(1.0, 1e3 * waited_us / max(1, self.elapsed_ns or elapsed_ns))
        )


class Adoption(Record, frozen=True, kw_only=True):
    """Packages that are needed to adopt a runtime that ortune installed.

    Attributes:
        requirements: Packages to install, with exact versions.
        instead_of: The user's package that they replace, because both cannot be in one environment. "" for a plug-in,
            which is installed in addition.
        size_bytes: Size on disk, without numpy.
        licenses: License of each package, from its metadata.
    """

    requirements: tuple[str, ...]
    instead_of: str
    size_bytes: int
    licenses: tuple[str, ...] = ()


class Side(Record, frozen=True, kw_only=True):
    """One side of a comparison, with the model, plan and runtime that its arguments select.

    Attributes:
        bundle: The bundle that contains the model; "" for a model without one.
        placement: Nodes by execution provider; empty for the CPU only, or if not reported.
    """

    label: str
    model: ModelInfo
    plan: Plan
    runtime: Runtime
    bundle: str = ""
    placement: tuple[Placement, ...] = ()


class MachinePeak(Record, frozen=True, kw_only=True):
    """The peak performance of this machine: single observations, the best of several tries.

    Attributes:
        flops_per_s: Operations per second of float32 matrix products, by number of threads.
        int8_ops_per_s: Operations per second of int8 matrix products, by number of threads; a multiply-add is two
            operations.
        bytes_per_s: Bytes per second read and written in memory, by number of threads, for arrays larger than the
            caches.
        elementwise_bytes_per_s: Bytes per second that one thread reads and writes in elementwise operations within its
            own caches; threads add up. 0.0 in results of older versions.
        cache_bytes: Last-level cache of all usable CPUs; None if the system does not report it.
        taken: Date of the measurement, ISO 8601.
        how: Description of the benchmarks.
        ort_version: The ONNX Runtime version used.
        quiet: Whether the CPUs were free of other programs; None in results of older versions.
        agreed: Whether a second measurement confirmed the values, so a faster node must have an overestimated amount of
            work.
    """

    cpu: str
    flops_per_s: dict[int, float]
    int8_ops_per_s: dict[int, float]
    bytes_per_s: dict[int, float]
    elementwise_bytes_per_s: float = 0.0
    cache_bytes: int | None = None
    taken: str = ""
    how: str = ""
    ort_version: str = ""
    quiet: bool | None = None
    agreed: bool = False
