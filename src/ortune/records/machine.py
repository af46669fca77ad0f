"""Runtimes, the machine that holds them, and one side that is run there."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.model import ModelInfo
from ortune.records.plan import Plan
from ortune.records.protocol import Placement
from ortune.records.source import SourceSide


class Runtime(Record, frozen=True, kw_only=True):
    """One interpreter with one ONNX Runtime build in it.

    Attributes:
        name: Of one that ortune made ("onnxruntime==1.22.1", "openvino"); "" for the user's own.
        packages: Those beside onnxruntime that rewrites can be done with, and their versions.
        plugins: Wheels that bring providers to its build, by provider: "onnxruntime-ep-webgpu 0.4.0".
        ort_web: Version of the onnxruntime-web that runs the model in its place, in pages; "" where none does.
        ort_web_dist: The folder of that one's builds.
        source: The framework's own model that is run in the place of the ONNX model; None for ONNX Runtime.
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
    source: SourceSide | None = None

    @property
    def native(self) -> str:
        """The interpreter's build of ONNX Runtime, "onnxruntime-openvino 1.24.1"; of a source its framework."""
        if self.source is not None:
            return self.source.called
        return f"{self.package or 'onnxruntime'} {self.ort_version}".strip()

    @property
    def build(self) -> str:
        """What runs the model: that, or "onnxruntime-web 1.30.0"."""
        return (
            f"onnxruntime-web {self.ort_web or 'of an unknown version'}" if self.ort_web_dist else self.native
        )

    def version_of(self, plan: Plan) -> str:
        """The version of what runs a plan: in pages onnxruntime-web's, "" where it is not known."""
        if plan.is_web:
            return self.ort_web if self.ort_web_dist else ""
        return self.ort_version


class PodSize(Record, frozen=True, kw_only=True):
    """What a container is given; None is no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None


class Host(Record, frozen=True, kw_only=True):
    """The machine, as far as it matters to speed.

    Attributes:
        cores: Physical cores; ``logical`` counts hardware threads.
        affinity: CPUs that this process may run on.
        quota: CPUs allowed by the cgroup, None without a limit.
        effective_cpus: ``min(cores, affinity, quota)``, at least 1, rounded up.
        features: Instruction sets that matter to inference ("avx512_vnni", "amx_int8", ...).
        fingerprint: Changes when a stored result must not be compared with a new one.
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


class Sensors(Record, frozen=True, kw_only=True):
    """What was read around the turns of a trial and of those it shared them with; None: not readable here.

    Sensors explain; they never drop one arm. ``elapsed_ns`` is the time between the two readings, ``others_cpu_us`` the
    CPU time that whatever is not ortune's took meanwhile.
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
    cpu_over_wall: float | None = None
    elapsed_ns: int | None = None

    @property
    def waited_us(self) -> int | None:
        """Time in which some task waited for a CPU that a program of others had, at most; None: not readable here.

        Trials that hand the turn round wait for each other: with short turns some task waited 40 % of the time on a
        machine of which others had taken half a hundredth.
        """
        if self.psi_cpu_some_us is None or self.others_cpu_us is None:
            return self.psi_cpu_some_us
        return min(self.psi_cpu_some_us, self.others_cpu_us)

    def waited_ratio(self, elapsed_ns: int, *, anybody: bool = False) -> float | None:
        """``waited_us`` as a share of the time between the two readings.

        Args:
            elapsed_ns: That time, where the sensors do not know it.
            anybody: Count every wait, those for ortune's own threads too.
        """
        waited_us = self.psi_cpu_some_us if anybody else self.waited_us
        return (
            None if waited_us is None else min(1.0, 1e3 * waited_us / max(1, self.elapsed_ns or elapsed_ns))
        )


class Adoption(Record, frozen=True, kw_only=True):
    """What it takes to run with a runtime that ortune made.

    Attributes:
        requirements: What is to be installed, with exact versions.
        instead_of: The package whose place it takes: the two cannot be in one environment. "" for a plug-in, which
            is installed beside it.
        size_bytes: On disk, numpy not counted: it is there already.
        licenses: Of each package, by its own metadata.
    """

    requirements: tuple[str, ...]
    instead_of: str
    size_bytes: int
    licenses: tuple[str, ...] = ()


class Side(Record, frozen=True, kw_only=True):
    """One side of a comparison, resolved.

    Attributes:
        placement: Which nodes each execution provider has; empty for the CPU's alone, and where it is not told.
    """

    label: str
    model: ModelInfo
    plan: Plan
    runtime: Runtime
    placement: tuple[Placement, ...] = ()


class MachinePeak(Record, frozen=True, kw_only=True):
    """What this machine can do at most, measured once; single observations, the best of several tries.

    Attributes:
        flops_per_s: By number of threads, float32 matrix products.
        int8_ops_per_s: By number of threads, int8 matrix products; a multiply-add is two.
        bytes_per_s: By number of threads, memory read and written, of arrays that fit in no cache.
        elementwise_bytes_per_s: Bytes that one thread reads and writes as it adds and multiplies arrays in its own
            caches; every thread has its own, so they add up. 0.0 where an older version measured the rest.
        cache_bytes: Last-level cache of all CPUs that may be used; None where the system does not tell.
        taken: When, ISO 8601.
        how: What was run for it.
        ort_version: With which ONNX Runtime.
        quiet: Other programs left the CPUs alone meanwhile; None where an older version did not look.
        agreed: A second measurement found no more, so that what is faster has its work over-counted.
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
