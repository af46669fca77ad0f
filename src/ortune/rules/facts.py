"""What rules are asked about: all that may be known of a model, a run and a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import CPU, of_target
from ortune.graph.model.open import OpenModel
from ortune.platform import Snapshot, Topology
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
    """What is known; a part that is None or empty is not.

    Attributes:
        model: The model.
        work: What it is fed.
        fed: Options of the command line that feed it so, as the user gave them: commands of fixes have them too.
        plan: What it runs with.
        target: Where it runs, by the target's name.
        ort_version: Of the ONNX Runtime that runs it.
        operators: Where the time goes, as a first look sees it.
        profile: Where the time goes, in full.
        page: The browser's page that it ran in.
        emulated: The provider that it ran on, where the CPU emulated the device.
        asked: Options of a session that a program was seen to ask for, by their names in onnxruntime-web.
        native: How far the outputs there are from those of the CPU outside of a browser.
        level_check: The outputs against those of the model without optimisation.
        exact: The outputs against the model evaluated in float64.
        broken_level: The level of optimisation at which the model does not run, although it does at a lower one.
        wrong_when_optimised: With all graph optimisations, which the plan limits, the outputs are known to be wrong, or
            the model does not run.
        nonfinite: Outputs of a run that hold NaN or infinities; ``not_finite`` is where they come from.
        clipped: Activations far beyond the range of their quantization, as a run with these inputs showed.
        kinds: Times of one process by kind of invented feed.
        rows: Latency at each size of the inputs, as a bench measured it.
        soak: Changes that were soaked next to a model whose memory rises.
        row_check: One row alone against the same in a batch, and with and without padding.
        host: The machine.
        topology: Kinds of core and memory nodes.
        sensors: A reading of them.
        runtimes: Those of the machine.
        recording: How an application was seen to use ONNX Runtime.
        gains: What changes gained when the recording was played.
        environment: The user's, by name; rules look at names that affect ONNX Runtime alone.
        begins: Asked before each rule, and each rewrite that a rule tries, by its name: whether there is time for it.
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
    native: OutputDifference | None = None
    level_check: LevelCheck | None = None
    broken_level: BrokenLevel | None = None
    exact: ExactCheck | None = None
    wrong_when_optimised: bool = False
    nonfinite: Sequence[NonFiniteOutput] = ()
    not_finite: NotFinite | None = None
    clipped: Sequence[ClippedActivation] = ()
    kinds: Sequence[CaseTimes] = ()
    rows: Sequence[BenchRow] = ()
    soak: Sequence[SoakExperiment] = ()
    row_check: RowCheck | None = None
    host: Host | None = None
    topology: Topology = field(default_factory=Topology)
    sensors: Snapshot = field(default_factory=Snapshot)
    runtimes: Sequence[RuntimeReport] = ()
    recording: Recording | None = None
    gains: Sequence[ReplayedGain] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    begins: Callable[[str], bool] = lambda unit: True

    @property
    def provider(self) -> Provider:
        """All that is known of the target's execution provider."""
        return of_target(self.target)

    @property
    def in_software(self) -> bool:
        """Whether the CPU emulated the GPU or NPU, so times mean nothing."""
        return bool(self.emulated) or (self.page is not None and self.page.software)

    def rewritten_by(self, rewrite: str) -> bool:
        """Return whether the plan has a rewrite of that name already, whose fix is then no news."""
        return any(spec.name == rewrite for spec in self.plan.rewrites)

    def trusted_operators(self) -> OperatorProfile | None:
        """``operators``; None where the profiler made the run so much longer that their shares are its own."""
        profile = self.operators
        trusted = profile and (profile.slowdown_ratio is None or profile.slowdown_ratio < _TRUSTED_SLOWDOWN)
        return profile if trusted else None

    def share(self, category: CategoryName) -> float:
        """Return the share of a category in the profiled run; 0.0 where there is none."""
        run = self.profile
        if run is None or not run.wall_ns:
            return 0.0
        return sum(c.ns for c in run.categories if c.name == category) / run.wall_ns

    def nodes(self, least_share: float = 0.0) -> list[ProfiledNode]:
        """Return nodes of the profiled run that take more than a share of it, the dearest first."""
        run = self.profile
        if run is None or not run.wall_ns:
            return []
        return [node for node in run.nodes if node.time_ns > least_share * run.wall_ns]
