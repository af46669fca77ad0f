"""Groups of options that several verbs share.

Fields contain the user's text, and cached properties parse it. All cached properties are read when the options are
created, so that invalid options fail before any work starts. Parsers are only imported then, which keeps help fast.
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
    Browser,
    Budget,
    BudgetEach,
    Callers,
    Cpus,
    CustomOps,
    Dims,
    Export,
    Gap,
    Headful,
    Image,
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
    from ortune.measuring.terms import Terms
    from ortune.records import Plan
    from ortune.targets.browser.setup import BrowserSetup
    from ortune.verbs._shared.exports import Wanted


def _each(values: Any) -> tuple[Any, ...]:
    """Return the values of a repeatable option as a tuple; Python callers may also pass a single value or a mapping."""
    if isinstance(values, str | Path):
        return (values,)
    if isinstance(values, Mapping):
        return tuple(f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in values.items())
    return tuple(values)


def with_tolerance(
    feeds: InputOptions, tolerance: str | float | None, metric: str | None = None
) -> InputOptions:
    """Return inputs with the parsed ``--tolerance`` and ``--metric``.

    Raises:
        UsageError: A value cannot be read, or a metric was passed without its limit or a limit without its metric.
    """
    # Imported here because most commands have neither value, and the import loads all code that compares outputs.
    if tolerance is not None:
        from ortune.outputs.tolerance import parse

        feeds = replace(feeds, tolerance=parse(tolerance))
    if metric is not None:
        from ortune.measuring.metric import valid_metric

        feeds = replace(feeds, metric=valid_metric(metric))
    if bool(feeds.metric) != bool(feeds.tolerance and feeds.tolerance.of_metric):
        raise UsageError(
            "--metric and --tolerance 'metric>=...' only work together",
            where="--metric" if feeds.metric else "--tolerance",
            do="pass both, e.g. --metric evaluate:accuracy --tolerance 'metric>=99%'",
        )
    return feeds


def with_pod(feeds: InputOptions, cpus: float | None, memory: str | float | None) -> InputOptions:
    """Return inputs with the emulated container of ``--cpus`` and ``--memory``, if one was passed."""
    if cpus is None and memory is None:
        return feeds
    from ortune.records import PodSize

    memory_bytes = None if memory is None else size_bytes(memory, "--memory")
    return replace(feeds, pod=PodSize(cpus=cpus, memory_bytes=memory_bytes))


@dataclass(frozen=True, kw_only=True)
class FeedOptions:
    """Inputs of a model; the base class of all groups.

    A group that contributes to the inputs or to the terms of a measurement extends ``read_feeds`` or ``terms``.
    """

    shape: Shapes = ()
    dim: Dims = ()
    inputs: Inputs = None
    image: Image = ""
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
        """The parsed options for inputs and load."""
        return self.read_feeds()

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs and load.

        Raises:
            UsageError: An option cannot be read, or contradicts another option.
        """
        from ortune.inputs.images import check
        from ortune.inputs.written_sizes import parse_dim, parse_shape
        from ortune.measuring.input_options import InputOptions

        return InputOptions(
            shapes=dict(parse_shape(text) for text in self.shape),
            dims=dict(parse_dim(text) for text in self.dim),
            inputs=path(self.inputs),
            image=check(self.image),
            custom_ops=tuple(str(Path(library).resolve()) for library in self.custom_ops),
        )

    @property
    def terms(self) -> Terms:
        """Terms of the measurement that the options describe."""
        from ortune.measuring.terms import Terms

        return Terms(feeds=self.feeds)

    @property
    def answer(self) -> Path | None:
        """File for the result in verbs whose ``--output`` names a different file; None for stdout."""
        return None


@dataclass(frozen=True, kw_only=True)
class PlanOptions(FeedOptions):
    """Settings, plan file and target of a model."""

    set: Settings = ()
    plan: PlanFile = None
    target: Target = CPU.target

    @property
    def first_target(self) -> str:
        """Name of the plan's target."""
        return self.target

    @cached_property
    def common(self) -> Plan:
        """The plan from the settings and the target, which take precedence over the plan file."""
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
class BrowserOptions(FeedOptions):
    """The browser, and its version of onnxruntime-web."""

    ort_web: OrtWeb = ""
    browser: Browser = ""
    headful: Headful = False

    @property
    def in_browser(self) -> BrowserSetup:
        """The onnxruntime-web package, the browser and its window mode."""
        from ortune.targets.browser.setup import BrowserSetup

        return BrowserSetup(ort_web=self.ort_web, browser=self.browser, headful=self.headful)

    @property
    def terms(self) -> Terms:
        """Terms of the measurement, with the browser."""
        return replace(super().terms, browser=self.in_browser)


@dataclass(frozen=True, kw_only=True)
class DownloadOptions(BrowserOptions):
    """Network speed at which users download a page's files."""

    network: Network = "10mbit"

    @property
    def in_browser(self) -> BrowserSetup:
        """The onnxruntime-web package, the browser, its window mode and the network speed."""
        return replace(super().in_browser, network_bps=bits_a_second(self.network, "--network"))


@dataclass(frozen=True, kw_only=True)
class OnePlanOptions(BrowserOptions, PlanOptions):
    """A single plan, and the runtime that runs it."""

    runtime: RuntimeOption = None

    @property
    def terms(self) -> Terms:
        """Terms of the measurement, with the plan."""
        return replace(super().terms, common=self.common)


@dataclass(frozen=True, kw_only=True)
class StoreOptions(FeedOptions):
    """Options of a measurement that is stored."""

    no_wait: NoWait = False
    wait_quiet: WaitQuiet = None
    store: StoreFolder = None

    @cached_property
    def wait_quiet_s(self) -> float:
        """Maximum wait for a quiet machine in seconds; 0 to not wait."""
        return 0.0 if self.wait_quiet is None else seconds(self.wait_quiet, "--wait-quiet")

    @property
    def terms(self) -> Terms:
        """Terms of the measurement, with the store."""
        return replace(
            super().terms,
            wait=not self.no_wait,
            wait_quiet_s=self.wait_quiet_s,
            stored=True,
            folder=self.folder,
        )

    @property
    def folder(self) -> Path | None:
        """Folder of the store; None for the default folder."""
        return path(self.store)


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(StoreOptions):
    """Options of a measurement that has a workload and a time budget."""

    workload: WorkloadFile = None
    save_workload: SaveWorkload = None
    budget: Budget = "2m"
    seed: Seed = 0
    report: Page = None

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, workload file and seed.

        Raises:
            UsageError: An input option is invalid, or conflicts with the workload file.
        """
        fixed = [
            f"--{name}"
            for name, given in (("shape", self.shape), ("dim", self.dim), ("inputs", self.inputs))
            if given
        ]
        if self.workload and fixed:
            raise UsageError(
                f"the workload file already sets what {fixed[0]} sets",
                where="--workload",
                do="pass one of them",
            )
        return replace(
            super().read_feeds(),
            workload=path(self.workload),
            save_workload=path(self.save_workload),
            seed=self.seed,
        )

    @property
    def terms(self) -> Terms:
        """Terms of the measurement, with the budget."""
        return replace(super().terms, budget_s=self.budget_s)

    @cached_property
    def budget_s(self) -> float:
        """Budget of the whole command in seconds."""
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
class ResumeOptions(BudgetOptions):
    """Options of a measurement that can be resumed after an interruption."""

    resume: Resume = None


@dataclass(frozen=True, kw_only=True)
class ExportOptions(FeedOptions):
    """Options of a result that is also exported as a table or as JSON lines."""

    export: Export = ()

    @cached_property
    def exports(self) -> Wanted:
        """Pairs of the kind and the file of each export."""
        from ortune.verbs._shared.exports import parse

        return parse(self.export)


@dataclass(frozen=True, kw_only=True)
class EachModelOptions(ExportOptions):
    """Options of a command that measures several models separately."""

    budget_each: BudgetEach = None


@dataclass(frozen=True, kw_only=True)
class LoadOptions(FeedOptions):
    """Load on a model (callers, sessions, pauses), and limits for CPUs and memory."""

    gap: Gap = "0"
    sessions: Sessions = 1
    callers: Callers = 1
    cpus: Cpus = None
    memory: Memory = None

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs and load."""
        feeds = replace(
            super().read_feeds(),
            gap_ns=int(seconds(self.gap, "--gap") * 1e9),
            sessions=self.sessions,
            callers=self.callers,
        )
        return with_pod(feeds, self.cpus, self.memory)


@dataclass(frozen=True, kw_only=True)
class OneBenchOptions(ResumeOptions, OnePlanOptions):
    """Options of a benchmark of a single plan."""

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
