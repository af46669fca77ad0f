"""Options of a search: the plans it may try and its budget. The options are checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from ortune.catalogue.providers import CPU
from ortune.errors import UsageError
from ortune.objectives import OF_MEMORY
from ortune.verbs._shared.browsers import RemoteBrowser
from ortune.verbs._shared.common import (
    NON_FINITE,
    WORTH_ADOPTING,
    Goal,
    Metric,
    Targets,
    Tolerance,
    require_allowed,
)
from ortune.verbs._shared.groups import (
    DownloadOptions,
    LoadOptions,
    OnePlanOptions,
    ResumeOptions,
    with_tolerance,
)
from ortune.verbs._shared.quantities import share, size_bytes
from ortune.verbs._shared.spelling import MODEL, RUN, AnyPath, Option, path

if TYPE_CHECKING:
    from ortune.measuring.input_options import InputOptions
    from ortune.measuring.sides import ResolvedSide
    from ortune.records import Plan, RewriteSpec
    from ortune.verbs.tune.proposing import TuneRequest


@dataclass(frozen=True, kw_only=True)
class SearchOptions(RemoteBrowser, ResumeOptions, LoadOptions, DownloadOptions, OnePlanOptions):
    """Options of a search for the fastest plan."""

    rewrite: Annotated[
        Sequence[str],
        Option("--rewrite", "NAME[:k=v]", "A rewrite to include in every configuration. Repeatable.", MODEL),
    ] = ()
    current: Annotated[
        str | None,
        Option(
            "--current",
            "PLAN",
            "What you run today: default, 'intra=4,spin=0', a plan.json or a NAME.ortune. "
            "The headline then compares with it.",
            MODEL,
        ),
    ] = None
    targets: Targets = None
    objective: Goal = "latency"
    tolerance: Tolerance = None
    data: Annotated[
        AnyPath | None,
        Option(
            "--data",
            "PATH",
            "Real inputs for calibration and for the error of quantized models: a folder of .npz or test_data_set_*.",
            MODEL,
        ),
    ] = None
    metric: Metric = None
    max_memory: Annotated[
        str | int | None,
        Option(
            "--max-memory",
            "512m",
            "Peak memory that a process may need over all sizes of the workload: the fastest configuration within it.",
            RUN,
        ),
    ] = None
    worth: Annotated[str | float, Option("--worth", "1%", "Smallest gain that justifies a change.", RUN)] = (
        "1%"
    )
    worth_adopting: Annotated[
        str | float,
        Option(
            "--worth-adopting",
            f"{WORTH_ADOPTING:.0%}",
            "Smallest gain over the best configuration in your own packages that justifies another package. "
            "A target that you name needs none.",
            RUN,
        ),
    ] = f"{WORTH_ADOPTING:.0%}"
    allow: Annotated[
        Sequence[str],
        Option(
            "--allow",
            "WHAT",
            "Also accept: numerics, behaviour, non-finite (outputs), busy (a gain under load alone), or a "
            "guard (mean, p95, memory, cpu). Repeatable.",
            RUN,
        ),
    ] = ()

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, load and tolerance."""
        feeds = with_tolerance(super().read_feeds(), self.tolerance, self.metric)
        return replace(
            feeds,
            data=path(self.data),
            in_turn=self.objective in OF_MEMORY or self.max_memory is not None,
            allow_nonfinite=NON_FINITE in self.allow,
        )

    @cached_property
    def max_memory_bytes(self) -> int | None:
        """Limit of the peak memory in bytes; None for no limit."""
        return None if self.max_memory is None else size_bytes(self.max_memory, "--max-memory")

    @property
    def allowed(self) -> Sequence[str]:
        """Allowed safety classes and guards; with a memory limit, also the memory guard, which the limit replaces."""
        return self.allow if self.max_memory is None else (*self.allow, "memory")

    @cached_property
    def worth_ratio(self) -> float:
        """The smallest gain that justifies a change, as a fraction."""
        return share(self.worth, "--worth") or 0.0

    @property
    def worth_adopting_ratio(self) -> float:
        """The smallest gain that justifies another package, as a fraction; 0 if the user named the target."""
        least = share(self.worth_adopting, "--worth-adopting") or 0.0
        return 0.0 if self.others or self.target != CPU.target else least

    @property
    def first_target(self) -> str:
        """Target of the base plan; WebAssembly if all targets of a browser are raced."""
        from ortune import targets

        return targets.in_browsers()[0] if self.target == targets.WEB else self.target

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Targets other than the CPU that the user named and on which plans are raced."""
        from ortune.verbs._shared import other_runtimes

        if self.target != CPU.target and self.targets not in (None, other_runtimes.AUTO, other_runtimes.ALL):
            raise UsageError(
                "--target already selects one execution provider", where="--targets", do="pass one of them"
            )
        return other_runtimes.named(self.targets)

    def with_runtimes(self, side: ResolvedSide, say: Callable[[str], None]) -> ResolvedSide:
        """Return the side with a runtime for each further target on which plans are raced."""
        from ortune.verbs._shared.other_runtimes import ALL, AUTO, usable_here, with_targets

        of_ours = self.target == CPU.target and self.feeds.pod is None
        if self.others or not of_ours or self.targets not in (None, AUTO, ALL):
            return with_targets(side, self.others, say, self.in_browser)
        return usable_here(side, say, alone=self.runtime is not None, install=self.targets == ALL)

    @property
    def default(self) -> Plan:
        """Base of all plans: the default of ONNX Runtime, of a GPU's provider, or of onnxruntime-web."""
        from ortune import targets

        return targets.find(self.first_target).default

    @cached_property
    def today(self) -> Plan | None:
        """The user's current plan, from ``--current``; None if not given."""
        from ortune.measuring.plans import current_plan

        return None if self.current is None else current_plan(self.current, self.default)

    @cached_property
    def pinned(self) -> tuple[RewriteSpec, ...]:
        """Rewrites that are part of every plan."""
        from ortune import rewrites

        return tuple(rewrites.parse(text) for text in self.rewrite)

    def asked(self, everywhere: Plan) -> TuneRequest:
        """Return the user's requests for the search; ``everywhere`` is part of every plan."""
        from ortune import targets
        from ortune.verbs.tune.proposing import TuneRequest

        return TuneRequest(
            everywhere=everywhere,
            pinned=self.pinned,
            target=self.first_target,
            # A user who passes a tolerance allows rewrites that change the outputs.
            allow=self.allow if self.tolerance is None else (*self.allow, "numerics"),
            others=self.others,
            of_a_browser=self.target == targets.WEB,
            as_asked=bool(self.set or self.plan or self.rewrite),
        )

    def require_searchable(self) -> None:
        """Raise UsageError for options that cannot be searched or allowed."""
        from ortune import rewrites, targets
        from ortune.catalogue import knobs
        from ortune.records import BUSY
        from ortune.search.figures import require_objective
        from ortune.search.guards import GUARDS

        require_objective(self.objective)
        if self.max_memory is not None and self.objective in OF_MEMORY:
            raise UsageError(
                "has no effect with an objective of memory",
                where="--max-memory",
                do=f"omit it, or --objective {self.objective}",
            )
        if self.max_memory is not None and targets.find(self.first_target).provider.in_page:
            raise UsageError(
                "does not limit the memory of a page in a browser", where="--max-memory", do="omit it"
            )
        self.require_there([self.target, *self.others], self.objective, pod=self.feeds.pod is not None)
        classes = ("numerics", "behaviour", NON_FINITE, BUSY, *GUARDS)
        do = f"{', '.join(classes)}, or the name of a setting or rewrite"
        require_allowed(self.allow, {*classes, *knobs.all_knobs(), *rewrites.all_rewrites()}, do)
        named = [rewrites.all_rewrites().get(n) for n in (*self.allow, *(spec.name for spec in self.pinned))]
        quantizes = any(rewrite is not None and rewrite.family == rewrites.FAMILY for rewrite in named)
        if (
            self.data is not None
            and self.tolerance is None
            and "numerics" not in self.allow
            and not quantizes
        ):
            raise UsageError(
                "calibrates quantized models, which are tried only if outputs may change",
                where="--data",
                do="add --tolerance 0.01, or --allow numerics",
            )
        if not targets.find(self.first_target).provider.ships:
            raise UsageError(
                f"bundles are not supported for {self.target} yet, so tune does not search its settings",
                where="--target",
                do=f"ortune compare MODEL --target {self.target} --b-set KNOB=VALUE",
            )
