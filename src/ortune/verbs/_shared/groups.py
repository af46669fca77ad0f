"""Groups of options that several verbs are asked together.

Fields hold what the user wrote; a verb reads them through properties, all of which are read when the options are made,
so that nothing is begun on options that cannot be read. What reads them is imported then; a verb's help needs none of
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ortune.catalogue.providers import CPU
from ortune.errors import UsageError
from ortune.verbs._shared.common import (
    NON_FINITE,
    Browser,
    Budget,
    Callers,
    Cpus,
    CustomOps,
    Dims,
    Gap,
    Headful,
    Inputs,
    Memory,
    Network,
    NoWait,
    OrtWeb,
    Page,
    PlanFile,
    Resume,
    Rewrites,
    RuntimeOption,
    SaveWorkload,
    Seed,
    Sessions,
    Settings,
    Shapes,
    StoreFolder,
    Target,
    WaitQuiet,
    WorkloadFile,
)
from ortune.verbs._shared.quantities import bits_a_second, seconds, size_bytes
from ortune.verbs._shared.spelling import MODEL, RUN, AnyPath, Argument, Option, option_fields, path

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions
    from ortune.outputs.tolerance import Tolerance
    from ortune.records import Plan
    from ortune.targets.browser.setup import BrowserSetup


def _each(values: Any) -> tuple[Any, ...]:
    """What may be given several times, from Python as one alone or by name too."""
    if isinstance(values, str | Path):
        return (values,)
    if isinstance(values, Mapping):
        return tuple(f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in values.items())
    return tuple(values)


# Most commands have neither of these two, which bring all that compares outputs.
def _tolerance(text: str | float | None) -> Tolerance | None:
    """Reads ``--tolerance``; None where it was not passed."""
    if text is None:
        return None
    from ortune.outputs.tolerance import parse

    return parse(text)


def _metric(text: str | None) -> str:
    """Checks ``--metric``; "" where it was not passed."""
    if text is None:
        return ""
    from ortune.measuring.metric import checked

    return checked(text)


@dataclass(frozen=True, kw_only=True)
class Feeding:
    """What a model is fed."""

    shape: Shapes = ()
    dim: Dims = ()
    inputs: Inputs = None
    custom_ops: CustomOps = ()

    def __post_init__(self) -> None:
        for option in option_fields(type(self)):
            if option.many:
                object.__setattr__(self, option.name, _each(getattr(self, option.name)))
        for name in dir(type(self)):
            if isinstance(getattr(type(self), name), cached_property):
                getattr(self, name)

    @cached_property
    def feeds(self) -> InputOptions:
        """Inputs and load, read. UsageError says what cannot be."""
        from ortune.inputs.written_sizes import parse_dim, parse_shape
        from ortune.measuring.input_options import InputOptions
        from ortune.records import PodSize

        def given(name: str, usual: Any = None) -> Any:
            return getattr(self, name, usual)

        fixed = [f"--{name}" for name in ("shape", "dim", "inputs") if given(name)]
        if given("workload") and fixed:
            raise UsageError(
                f"the workload file already sets what {fixed[0]} sets",
                where="--workload",
                do="pass one of them",
            )
        tolerance, metric = _tolerance(given("tolerance")), _metric(given("metric"))
        if bool(metric) != bool(tolerance and tolerance.of_metric):
            raise UsageError(
                "--metric and --tolerance 'metric>=...' only work together",
                where="--metric" if metric else "--tolerance",
                do="pass both, e.g. --metric evaluate:accuracy --tolerance 'metric>=99%'",
            )
        cpus, memory = given("cpus"), given("memory")
        pod = None
        if cpus is not None or memory is not None:
            pod = PodSize(cpus=cpus, memory_bytes=None if memory is None else size_bytes(memory, "--memory"))
        return InputOptions(
            shapes=dict(parse_shape(text) for text in self.shape),
            dims=dict(parse_dim(text) for text in self.dim),
            inputs=path(self.inputs),
            workload=path(given("workload")),
            save_workload=path(given("save_workload")),
            gap_ns=int(seconds(given("gap", 0), "--gap") * 1e9),
            sessions=given("sessions", 1),
            callers=given("callers", 1),
            pod=pod,
            custom_ops=tuple(str(Path(library).resolve()) for library in self.custom_ops),
            seed=given("seed") or 0,
            tolerance=tolerance,
            metric=metric,
            data=path(given("data")),
            allow_nonfinite=NON_FINITE in given("allow", ()),
        )


@dataclass(frozen=True, kw_only=True)
class Configured(Feeding):
    """What a model runs with, and where."""

    set: Settings = ()
    plan: PlanFile = None
    target: Target = CPU.target

    @property
    def first_target(self) -> str:
        """The target of the plan."""
        return self.target

    @cached_property
    def common(self) -> Plan:
        """The plan file, and over it the settings and the target."""
        from ortune import targets
        from ortune.catalogue import knobs
        from ortune.records import Plan

        providers = targets.find(self.first_target).providers
        plan = Plan(settings=knobs.parse_settings(list(self.set)), providers=providers)
        if not self.plan:
            return plan
        from ortune.measuring.plans import read_plan
        from ortune.search.plan_edits import merge

        return merge(read_plan(Path(self.plan)), plan)


@dataclass(frozen=True, kw_only=True)
class InBrowser:
    """Which browser, and which onnxruntime-web."""

    ort_web: OrtWeb = ""
    browser: Browser = ""
    headful: Headful = False

    @property
    def in_browser(self) -> BrowserSetup:
        """What was said of the browser."""
        from ortune.targets.browser.setup import BrowserSetup

        return BrowserSetup(ort_web=self.ort_web, browser=self.browser, headful=self.headful)


@dataclass(frozen=True, kw_only=True)
class Downloaded(InBrowser):
    """How fast a page's files reach its users."""

    network: Network = "10mbit"

    @property
    def in_browser(self) -> BrowserSetup:
        """What was said of the browser, and of the network."""
        return replace(super().in_browser, network_bps=bits_a_second(self.network, "--network"))


@dataclass(frozen=True, kw_only=True)
class OnePlan(InBrowser, Configured):
    """What of a model is run, and by which onnxruntime."""

    runtime: RuntimeOption = None


@dataclass(frozen=True, kw_only=True)
class Stored(Feeding):
    """A measurement that is kept."""

    no_wait: NoWait = False
    wait_quiet: WaitQuiet = None
    store: StoreFolder = None

    @cached_property
    def wait_quiet_s(self) -> float:
        """The longest wait for a quiet machine; 0 is none."""
        return 0.0 if self.wait_quiet is None else seconds(self.wait_quiet, "--wait-quiet")

    @property
    def folder(self) -> Path | None:
        """Returns where results are kept; None is the user's own place."""
        return path(self.store)


@dataclass(frozen=True, kw_only=True)
class Kept(Stored):
    """A measurement of a workload, within a budget."""

    workload: WorkloadFile = None
    save_workload: SaveWorkload = None
    budget: Budget = "2m"
    seed: Seed = 0
    report: Page = None

    @cached_property
    def budget_s(self) -> float:
        """All measuring together."""
        time_s = seconds(self.budget, "--budget")
        if not time_s:
            raise UsageError(
                "the budget leaves no time to measure",
                where="--budget",
                do="e.g. --budget 30s",
                code="budget",
            )
        return time_s


@dataclass(frozen=True, kw_only=True)
class Resumable(Kept):
    """A measurement that can go on where it was interrupted."""

    resume: Resume = None


@dataclass(frozen=True, kw_only=True)
class Load(Feeding):
    """How a model is called, and in what container."""

    gap: Gap = "0"
    sessions: Sessions = 1
    callers: Callers = 1
    cpus: Cpus = None
    memory: Memory = None


@dataclass(frozen=True, kw_only=True)
class OneBench(Resumable, OnePlan):
    """How long one plan takes."""

    model: Annotated[
        AnyPath, Argument("MODEL", "model.onnx, model.ort, NAME.ortune or model.onnx@git-revision.")
    ]
    rewrite: Rewrites = ()
    dim: Annotated[
        Sequence[str],
        Option(
            "--dim",
            "seq=16,128,512",
            "Size of a dynamic dimension; several sizes give one row each. Repeatable.",
            MODEL,
        ),
    ] = ()
    processes: Annotated[
        int | None,
        Option(
            "--processes",
            "N",
            "Fresh processes per shape. Default: as many as the budget allows, at least 3.",
            RUN,
        ),
    ] = None
    runs: Annotated[int | None, Option("--runs", "N", "Timed requests per process and caller.", RUN)] = None
    budget: Budget = "20s"
