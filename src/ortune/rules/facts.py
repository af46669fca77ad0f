"""The facts that rules read: all that may be known about a model, a run and a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import CPU, of_target
from ortune.graph.model.open import OpenModel
from ortune.platform import SensorSnapshot, Topology
from ortune.records import (
    BenchRow,
    BrokenLevel,
    CaseTimes,
    CategoryName,
    ClippedActivation,
    ExactCheck,
    Host,
    LevelCheck,
    NonFiniteOutput,
    NotFinite,
    OperatorProfile,
    OutputDifference,
    PageOutput,
    PageSeen,
    Plan,
    ProfiledNode,
    ProfileResult,
    Recording,
    ReplayedGain,
    RowCheck,
    RuntimeReport,
    SoakExperiment,
    Workload,
)

_TRUSTED_SLOWDOWN = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts on which rules are evaluated; an attribute that is None or empty is unknown.

    Attributes:
        model: The model.
        work: The workload.
        fed: Command-line options that define the inputs, as the user gave them; added to the commands of fixes.
        plan: The plan that the model runs with.
        target: Name of the target.
        ort_version: Version of the ONNX Runtime that runs the model.
        operators: Time by operator, from a short profile.
        profile: The full profile.
        page: The browser page in which the model ran.
        emulated: Provider whose device the CPU emulated; "" if none.
        asked: Session options that a program was observed to set, by their names in onnxruntime-web.
        on_gpu: Outputs that a page was observed to keep on the GPU.
        native: Difference between a browser's outputs and the outputs of the CPU provider outside the browser.
        level_check: Comparison of the outputs with the outputs of the model without optimization.
        exact: Comparison of the outputs with the model evaluated in float64.
        broken_level: Optimization level at which the model fails, if it runs at a lower one.
        wrong_when_optimised: Whether full optimization is known to give wrong outputs or to fail, so the plan limits
            optimization.
        nonfinite: Outputs of a run that contain NaN or infinities; ``not_finite`` is the origin of these values.
        not_finite_input: If that origin is unknown, an input with NaN or infinities: (name, number of NaN, number of
            infinities).
        clipped: Activations far outside the range of their quantization, in a run with the workload's inputs.
        kinds: Times in one process by kind of synthetic inputs.
        rows: Latency by input size, as measured by bench.
        soak: Experiments that a soak ran in parallel with a model whose memory rises.
        row_check: Comparison of a single row with the same row in a batch, and with and without padding.
        host: The machine.
        topology: Kinds of cores, and NUMA nodes.
        sensors: A reading of the machine's sensors.
        runtimes: Runtimes on the machine.
        recording: Recording of an application's use of ONNX Runtime.
        gains: Gains of changes, measured by replaying the recording.
        environment: The user's environment variables; rules read only names that affect ONNX Runtime.
        begins: Callback with the name of each rule, and each rewrite that a rule tries, before it runs; returns False
            to skip it for lack of time.
    """

    model: OpenModel | None = None
    work: Workload | None = None
    fed: Sequence[str] = ()
    plan: Plan = field(default_factory=Plan)
    target: str = CPU.target
    ort_version: str = ""
    operators: OperatorProfile | None = None
    profile: ProfileResult | None = None
    page: PageSeen | None = None
    emulated: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    on_gpu: Sequence[PageOutput] = ()
    native: OutputDifference | None = None
    level_check: LevelCheck | None = None
    broken_level: BrokenLevel | None = None
    exact: ExactCheck | None = None
    wrong_when_optimised: bool = False
    nonfinite: Sequence[NonFiniteOutput] = ()
    not_finite: NotFinite | None = None
    not_finite_input: tuple[str, int, int] | None = None
    clipped: Sequence[ClippedActivation] = ()
    kinds: Sequence[CaseTimes] = ()
    rows: Sequence[BenchRow] = ()
    soak: Sequence[SoakExperiment] = ()
    row_check: RowCheck | None = None
    host: Host | None = None
    topology: Topology = field(default_factory=Topology)
    sensors: SensorSnapshot = field(default_factory=SensorSnapshot)
    runtimes: Sequence[RuntimeReport] = ()
    recording: Recording | None = None
    gains: Sequence[ReplayedGain] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    begins: Callable[[str], bool] = lambda unit: True

    @property
    def provider(self) -> Provider:
        """The target's execution provider."""
        return of_target(self.target)

    @property
    def in_software(self) -> bool:
        """Whether the CPU emulated the GPU or NPU, so times are meaningless."""
        return bool(self.emulated) or (self.page is not None and self.page.software)

    def rewritten_by(self, rewrite: str) -> bool:
        """Return whether the plan already has a rewrite."""
        return any(spec.name == rewrite for spec in self.plan.rewrites)

    def trusted_operators(self) -> OperatorProfile | None:
        """Return ``operators``; None if profiling slowed the run down so much that fractions are unreliable."""
        profile = self.operators
        trusted = profile and (profile.slowdown_ratio is None or profile.slowdown_ratio < _TRUSTED_SLOWDOWN)
        return profile if trusted else None

    def share(self, category: CategoryName) -> float:
        """Return the fraction of the profiled run that a category takes; 0.0 without a profile."""
        run = self.profile
        if run is None or not run.wall_ns:
            return 0.0
        return sum(c.ns for c in run.categories if c.name == category) / run.wall_ns

    def nodes(self, least_share: float = 0.0) -> list[ProfiledNode]:
        """Return the nodes that take more than the fraction `least_share` of the profiled run, slowest first."""
        run = self.profile
        if run is None or not run.wall_ns:
            return []
        return [node for node in run.nodes if node.time_ns > least_share * run.wall_ns]
