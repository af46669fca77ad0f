"""What a verb can be asked, written once: a dataclass whose fields say how the command line spells them.

Of it are made the command line, the Python function, and the command that asks the same again. Fields hold what the
user wrote; a verb reads them through properties, all of which are read when the options are made, so that nothing
is begun on options that cannot be read. What reads them is imported then: a verb's help needs none of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from ortune import files
from ortune.errors import UsageError
from ortune.printable import operand
from ortune.providers import CPU
from ortune.verbs._quantities import bits_a_second, seconds, size_bytes

if TYPE_CHECKING:
    from ortune.records import Plan
    from ortune.targets.browser.setup import BrowserSetup
    from ortune.trials.input_options import InputOptions

MODEL, RUN, OUT, GATE = "What to run", "How to measure", "Output", "Gate for CI"

AnyPath = str | Path


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument of the command line.

    Attributes:
        metavar: How the help calls it; in brackets where it may be left out.
        help: One sentence.
    """

    metavar: str
    help: str


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the command line.

    Attributes:
        flag: ``--name``; for a switch that is on, ``--name/--no-name``.
        metavar: The kind of value; "" for a switch.
        help: One sentence.
        panel: The part of the help in which it stands.
        least: The least number that is taken.
        short: ``-n``.
        again: It is part of what was measured, so the command that measures it again has it.
        also: An older spelling that is understood too.
        hidden: The help leaves it out: it is another's like for a further side, and is told there.
        writes: It names a file that is written at the end, whose place is tried before anything is done.
    """

    flag: str
    metavar: str
    help: str
    panel: str
    least: float | None = None
    short: str = ""
    again: bool = True
    also: str = ""
    hidden: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class OptionField:
    """One field of a verb's options.

    Attributes:
        name: Of the field and of the Python argument.
        type: As annotated.
        default: ``dataclasses.MISSING`` where it must be given.
        spelling: How the command line has it; None for what can be asked from Python alone.
    """

    name: str
    type: Any
    default: Any
    spelling: Argument | Option | None

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def many(self) -> bool:
        """Whether it may be given several times."""
        return any(get_origin(kind) is Sequence for kind in (self.type, *get_args(self.type)))

    def given(self, options: Any) -> bool:
        """Whether something else than the default was asked for."""
        value = getattr(options, self.name)
        return bool(value) if self.many else value != self.default


def option_fields(options: type) -> Iterator[OptionField]:
    """The fields of a verb's options: arguments first, then options in their order."""
    hints = get_type_hints(options, include_extras=True)
    all_fields = []
    for field in fields(options):
        kind, spelling = hints[field.name], None
        if get_origin(kind) is Annotated:
            kind, spelling = get_args(kind)
        all_fields.append(OptionField(name=field.name, type=kind, default=field.default, spelling=spelling))
    yield from sorted(all_fields, key=lambda option: not isinstance(option.spelling, Argument))


def require_places(options: Any) -> None:
    """Refuses, before anything is done, files that could not be written at its end.

    Raises:
        UsageError: One of them could not.
    """
    for option in option_fields(type(options)):
        place = getattr(options, option.name)
        if isinstance(option.spelling, Option) and option.spelling.writes and place is not None:
            files.require_writable(Path(place), option.spelling.flag)


def words(options: Any, *, without: Sequence[str] = ()) -> list[str]:
    """What is asked, as the command line takes it: what differs from the defaults, as the user wrote it."""
    line: list[str] = []
    for option in option_fields(type(options)):
        value = getattr(options, option.name)
        if option.name in without or value is None:
            continue
        values = list(value) if option.many else [value]
        if isinstance(option.spelling, Argument):
            line += map(operand, values)
        elif option.spelling is not None and option.spelling.again and option.given(options):
            on, _, off = option.spelling.flag.partition("/")
            if isinstance(value, bool):
                line.append(on if value else off)
            else:
                line += [word for v in values for word in (on, written(v))]
    return line


def command(verb: str, options: Any) -> str:
    """The command line that asks the same again."""
    return shlex.join(["ortune", verb, *words(options)])


def written(value: object) -> str:
    """A value as the command line has it."""
    return (
        f"{value:.12g}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)
    )


def named(runtime: AnyPath | None) -> str | None:
    """A runtime that the user names, or None."""
    return None if runtime is None else str(runtime)


def _each(values: Any) -> tuple[Any, ...]:
    """What may be given several times, from Python as one alone or by name too."""
    if isinstance(values, str | Path):
        return (values,)
    if isinstance(values, Mapping):
        return tuple(f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in values.items())
    return tuple(values)


def path(place: AnyPath | None) -> Path | None:
    """A path, or None."""
    return None if place is None else Path(place)


# --- what several verbs can be asked


Pairs = Sequence[str] | Mapping[str, str | int | float | bool]
"""Settings as the command line has them, or by name from Python; options hold them as the command line does."""
Settings = Annotated[
    Pairs,
    Option("--set", "KNOB=VALUE", "A setting, e.g. intra=4, spin=0, level=basic. Repeatable.", MODEL),
]
Rewrites = Annotated[
    Sequence[str], Option("--rewrite", "NAME[:k=v]", "A rewrite of the model. Repeatable.", MODEL)
]
PlanFile = Annotated[
    AnyPath | None, Option("--plan", "FILE.json", "Settings and providers from a plan file.", MODEL)
]
RuntimeOption = Annotated[
    AnyPath | None,
    Option(
        "--runtime", "PATH|NAME",
        "The onnxruntime to measure: an interpreter, a venv, or a name such as openvino or onnxruntime==1.22.1, "
        "installed "
        "once. Default: the first of $VIRTUAL_ENV, ortune's environment and python3 that has one.",
        MODEL, also="--python",
    ),
]  # fmt: skip
Target = Annotated[
    str,
    Option(
        "--target",
        "T",
        "Execution provider: cpu, cuda, openvino, web-wasm, ...; an unknown name lists all.",
        MODEL,
    ),
]
OrtWeb = Annotated[
    str,
    Option(
        "--ort-web",
        "PATH|VERSION",
        "onnxruntime-web for browsers: a local copy, or a version from npm.",
        MODEL,
    ),
]
Browser = Annotated[
    str,
    Option("--browser", "PATH", "Browser to use. Default: Chromium, Chrome or Edge on PATH.", MODEL),
]
Headful = Annotated[
    bool,
    Option("--headful", "", "Show the browser window, which some GPUs need.", MODEL),
]
Network = Annotated[
    str,
    Option("--network", "10mbit|3G|4G|5G", "Download speed of the page, for --objective first-result.", RUN),
]
Shapes = Annotated[
    Sequence[str], Option("--shape", "NAME:1x3x320x320", "Shape of an input. Repeatable.", MODEL)
]
Dims = Annotated[
    Sequence[str],
    Option(
        "--dim", "seq=16,128:3",
        "Size of a dynamic dimension; several sizes form a mix, with weights after a colon. Repeatable.", MODEL,
    ),
]  # fmt: skip
Inputs = Annotated[
    AnyPath | None,
    Option("--inputs", "PATH", "Real inputs: .npz, .npy, or a folder of test_data_set_*.", MODEL),
]
WorkloadFile = Annotated[
    AnyPath | None, Option("--workload", "FILE.json", "Inputs saved by --save-workload.", MODEL)
]
SaveWorkload = Annotated[
    AnyPath | None,
    Option(
        "--save-workload", "FILE.json", "Save the chosen inputs to a file.", MODEL, again=False, writes=True
    ),
]
CustomOps = Annotated[
    Sequence[AnyPath],
    Option("--custom-ops", "LIB", "Shared library with custom operators. Repeatable.", MODEL),
]
ReplaceBundle = Annotated[bool, Option("--force", "", "Replace an existing bundle.", OUT, again=False)]
WriteBundle = Annotated[
    bool, Option("--bundle/--no-bundle", "", "Write the bundle NAME.ortune.", OUT, again=False)
]
BundleFolder = Annotated[
    AnyPath, Option("--output", "DIR", "Folder for the bundle.", OUT, short="-o", again=False)
]
Seed = Annotated[int, Option("--seed", "N", "Seed of the synthetic inputs.", RUN)]
Objective = Annotated[
    str,
    Option(
        "--objective",
        "WHAT",
        "latency, p95, throughput, cold-start, first-result, main-thread, memory or cpu.",
        RUN,
    ),
]
Gap = Annotated[str | float, Option("--gap", "30ms", "Pause between requests.", RUN)]
Sessions = Annotated[int, Option("--sessions", "N", "Sessions of the model per process.", RUN, least=1)]
Callers = Annotated[int, Option("--callers", "N", "Concurrent callers per session.", RUN, least=1)]
Cpus = Annotated[
    float | None, Option("--cpus", "N", "Emulate a container limited to N CPUs.", RUN, least=0.01)
]
Memory = Annotated[
    str | int | None, Option("--memory", "2g", "Emulate a container with this memory limit.", RUN)
]
Tolerance = Annotated[
    str | float | None,
    Option(
        "--tolerance", "X",
        "Accepted output error: 0.01 (relative L2), cosine>=0.999, snr>=30dB, top1>=0.99.", RUN,
    ),
]  # fmt: skip
Framework = Annotated[
    str | None,
    Option(
        "--framework", "NAME",
        "Framework of module:function: pytorch, tensorflow or sklearn. Default: detected from its imports.",
        MODEL,
    ),
]  # fmt: skip
Metric = Annotated[
    str | None,
    Option(
        "--metric", "NAME",
        "For --tolerance 'metric>=99%': accuracy, boxes, ctc, ranks, perplexity, or your MODULE:FUNCTION.", RUN,
    ),
]  # fmt: skip
NON_FINITE = "non-finite"
"""Allows claims on outputs that are NaN or infinite."""
Budget = Annotated[str | float, Option("--budget", "2m", "Total time for measurements.", RUN)]
NoWait = Annotated[
    bool, Option("--no-wait", "", "Fail immediately if another ortune is measuring.", RUN, again=False)
]
Resume = Annotated[
    str | None,
    Option(
        "--resume",
        "[ID]",
        "Resume the newest interrupted session with the same options, or session ID.",
        RUN,
        again=False,
    ),
]
StoreFolder = Annotated[
    AnyPath | None, Option("--store", "PATH", "Folder for stored results.", OUT, again=False)
]
Page = Annotated[
    AnyPath | None,
    Option(
        "--report",
        "FILE.html",
        "Also write the result as an HTML page.",
        OUT,
        again=False,
        writes=True,
    ),
]


def require_allowed(names: Sequence[str], allowed: Collection[str], do: str) -> None:
    """Raises UsageError for what ``--allow`` cannot allow; ``do`` lists what it can."""
    for name in names:
        if name not in allowed:
            raise UsageError(f"{name!r} is not a valid value for --allow", where="--allow", do=do)


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
        from ortune.inputs.workload import parse_dim, parse_shape
        from ortune.records import PodSize
        from ortune.trials.input_options import InputOptions
        from ortune.trials.metric import checked
        from ortune.trials.tolerance import parse

        def given(name: str, usual: Any = None) -> Any:
            return getattr(self, name, usual)

        fixed = [f"--{name}" for name in ("shape", "dim", "inputs") if given(name)]
        if given("workload") and fixed:
            raise UsageError(
                f"the workload file already sets {fixed[0]} says",
                where="--workload",
                do="pass one of them",
            )
        tolerance, metric = parse(given("tolerance")), checked(given("metric"))
        if bool(metric) != bool(tolerance and tolerance.of_metric):
            raise UsageError(
                "--metric and --tolerance 'metric>=...' only work together",
                where="--metric" if metric else "--tolerance",
                do="give both, e.g. --metric evaluate:accuracy --tolerance 'metric>=99%'",
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
        from ortune import knobs, targets
        from ortune.records import Plan
        from ortune.search.plan_edits import merge
        from ortune.trials.sides import read_plan

        providers = targets.find(self.first_target).providers
        plan = Plan(settings=knobs.parse_settings(list(self.set)), providers=providers)
        return merge(read_plan(Path(self.plan)), plan) if self.plan else plan


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
    store: StoreFolder = None

    @property
    def folder(self) -> Path | None:
        """Where results are kept; None is the user's own place."""
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
