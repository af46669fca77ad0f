"""Tuning, then what the user carries away: the report and the bundle."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, cast

import msgspec

from ortune import files, knobs, rewrites, rules, targets
from ortune.bundle import format as bundle_format
from ortune.bundle.write import require_replaceable, require_writable
from ortune.errors import OrtuneError, UsageError
from ortune.experiment import in_browsers, quantising
from ortune.experiment.across import (
    gpu_features,
    propose_elsewhere,
    usable_here,
    with_runtime,
    with_targets,
    without_feature,
)
from ortune.experiment.needed_rewrites import needed
from ortune.experiment.opening import Experiment
from ortune.experiment.replay import Places
from ortune.experiment.tuned import code_rewritten, make_result
from ortune.experiment.tuning import Tuning
from ortune.experiment.watcher import Watcher
from ortune.fleet import runtimes
from ortune.knobs import facts
from ortune.knobs.knob import Objective as ObjectiveName
from ortune.printable import operand
from ortune.profiling.headroom import short_profile
from ortune.profiling.why import why
from ortune.providers import CPU
from ortune.records import (
    BrowserPlace,
    Envelope,
    ErrorInfo,
    Finding,
    Headroom,
    Plan,
    ProfileDifference,
    ProfileResult,
    RewriteSpec,
    TuneResult,
)
from ortune.report import finding_words, headroom_words, tune_words
from ortune.report.difference_words import worded
from ortune.search.blocks import BASE
from ortune.search.figures import FROM_START, TIMES, figure, require_objective
from ortune.search.guards import GUARDS
from ortune.search.halving import CURRENT
from ortune.search.phases import (
    DELIVERY_SHARE,
    IN_BROWSERS_SHARE,
    PROFILE_BEFORE_RACE_SHARE,
    PROFILED_TRIALS,
    ROW_SHARE,
)
from ortune.search.plan_edits import merge
from ortune.search.proposals import propose
from ortune.trials.sides import (
    Resolved,
    SideText,
    bundle_plan,
    canonical,
    in_pages,
    read_plan,
    require_unchanged,
    resolve,
)
from ortune.verbs._elsewhere import Elsewhere, browser_elsewhere
from ortune.verbs._first_run import settle
from ortune.verbs._options import (
    MODEL,
    NON_FINITE,
    OUT,
    RUN,
    AnyPath,
    Argument,
    Downloaded,
    Load,
    Metric,
    Objective,
    OnePlan,
    Option,
    Resumable,
    Tolerance,
    command,
    named,
    seconds,
    share,
    words,
)
from ortune.verbs._session import experiment, go_on, keep

PROFILED_NODES = 10
AUTO, ALL = "auto", "all"
"""What ``--targets`` calls all that run here, and with them all that can be installed."""

FORMATS = ("text", "json", "markdown", "github", "html")
QUICK_BUDGET = "30s"
BUDGET, BROWSER_BUDGET = "3m", "10m"
"""A page takes 4 to 6 s to load onnxruntime-web, to warm up and to end, where a process takes half a second: four
minutes held no plan at all of three of five models."""
STOPPING = (
    "stopping the race; the best plan so far is then confirmed with nine blocks; Ctrl-C again stops at once"
)


@dataclass(frozen=True, kw_only=True)
class Options(Elsewhere, Resumable, Load, Downloaded, OnePlan):
    """The fastest correct way to run a model on this machine, proven.

    Tries settings one at a time against the untouched default, combines those that help, drops those that do not
    pay, and confirms the winner on fresh blocks. Writes NAME.ortune: model, settings, code, report and proof.
    """

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx or model.ort.")]
    rewrite: Annotated[
        Sequence[str],
        Option(
            "--rewrite", "NAME[:k=v]", "A rewrite of the model, part of every plan tried. Repeatable.", MODEL
        ),
    ] = ()
    current: Annotated[
        str | None,
        Option(
            "--current",
            "PLAN",
            "What you run today: default, 'intra=4,spin=0', a plan.json or a NAME.ortune. "
            "The headline is then against it.",
            MODEL,
        ),
    ] = None
    targets: Annotated[
        str | None,
        Option(
            "--targets",
            "T[,T]",
            "Race plans on these in the same blocks, e.g. cpu,openvino; what your build lacks is made once. auto (the "
            "default): all that run here; all: what can be installed too.",
            MODEL,
        ),
    ] = None
    objective: Objective = "latency"
    tolerance: Tolerance = None
    data: Annotated[
        AnyPath | None,
        Option(
            "--data",
            "PATH",
            "Real inputs to calibrate quantised models on and to see their error: a folder of .npz or test_data_set_*.",
            MODEL,
        ),
    ] = None
    metric: Metric = None
    budget: Annotated[
        str | float,
        Option(
            "--budget",
            "2m",
            f"Time for all measuring; usual: {BUDGET}, and {BROWSER_BUDGET} in a browser.",
            RUN,
        ),
    ] = ""
    quick: Annotated[
        bool,
        Option(
            "--quick",
            "",
            f"A quick look: --budget {QUICK_BUDGET}, and no bundle is written.",
            RUN,
            again=False,
        ),
    ] = False
    worth: Annotated[
        str | float, Option("--worth", "1%", "The smallest gain that is worth a change.", RUN)
    ] = "1%"
    allow: Annotated[
        Sequence[str],
        Option(
            "--allow",
            "WHAT",
            "Let through: numerics, behaviour, non-finite (outputs), or a guard (mean, p95, memory, cpu). Repeatable.",
            RUN,
        ),
    ] = ()
    force: Annotated[bool, Option("--force", "", "Replace an existing bundle.", OUT, again=False)] = False
    bundle: Annotated[
        bool, Option("--bundle/--no-bundle", "", "Write the bundle NAME.ortune.", OUT, again=False)
    ] = True
    output: Annotated[
        AnyPath, Option("--output", "DIR", "Folder for the bundle.", OUT, short="-o", again=False)
    ] = "."

    @cached_property
    def budget_s(self) -> float:
        """All measuring together. Where nothing was said, what holds the first plans of a usual model."""
        if self.budget == "":
            usual = BROWSER_BUDGET if self.first_target in targets.in_browsers() else BUDGET
            return seconds(usual, "--budget")
        return super().budget_s

    @cached_property
    def worth_ratio(self) -> float:
        """The smallest gain that is worth a change, as a share."""
        return share(self.worth, "--worth") or 0.0

    @property
    def first_target(self) -> str:
        """The target of what all plans are held against: of all that a browser offers, WebAssembly."""
        return targets.in_browsers()[0] if self.target == targets.WEB else self.target

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Targets beside the CPU on which plans are raced, where they were named."""
        if self.targets is None or self.targets in (AUTO, ALL):
            return ()
        if self.target != CPU.target:
            raise UsageError("--target says where all plans run", where="--targets", do="give one of them")
        names = dict.fromkeys(name.strip() for name in self.targets.split(","))
        for name in names:
            if not targets.find(name).provider.ships:
                raise UsageError(f"no bundle can be made for {name} yet", where="--targets")
        return tuple(name for name in names if name != CPU.target)

    def elsewhere(self, side: Resolved, say: Callable[[str], None]) -> Resolved:
        """The side with a runtime for each target beside its own on which plans are raced."""
        of_ours = self.target == CPU.target and self.feeds.pod is None
        if self.others or not of_ours or (self.targets is not None and self.targets not in (AUTO, ALL)):
            return with_targets(side, self.others, say, self.in_browser)
        return usable_here(side, say, alone=self.runtime is not None, install=self.targets == ALL)

    @property
    def default(self) -> Plan:
        """What all plans are held against: ONNX Runtime's default, that of a GPU's provider, or onnxruntime-web's."""
        target = targets.find(self.first_target)
        # Who runs on a GPU is told what its settings bring there; the GPU beside the CPU is --targets.
        own = not target.of_runtime or target.provider.hardware == "gpu"
        return Plan(providers=target.providers) if own else Plan()

    @cached_property
    def today(self) -> Plan | None:
        """What the user runs today; None where it was not said."""
        text = self.current
        if text is None or text == "default":
            return None if text is None else self.default
        path = Path(text)
        if bundle_format.is_bundle(path):
            return bundle_plan(bundle_format.read(path))
        if path.suffix == ".json":
            return read_plan(path)
        if "=" not in text:
            raise UsageError(
                f"{text!r} is no plan",
                where="--current",
                do="default, 'intra=4,spin=0', a plan.json or a NAME.ortune",
            )
        settings = knobs.parse_settings([part for part in text.split(",") if part.strip()], "--current")
        return canonical(merge(self.default, Plan(settings=settings)), "--current")

    @cached_property
    def pinned(self) -> tuple[RewriteSpec, ...]:
        """The rewrites that are part of every plan."""
        return tuple(rewrites.parse(text) for text in self.rewrite)

    @property
    def directory(self) -> Path | None:
        """Where the bundle goes; None makes none."""
        return Path(self.output) if self.bundle else None

    @property
    def _fewer_bits(self) -> bool:
        """Whether a quantised model was let through, or asked for by its name."""
        named = [*self.allow, *(spec.name for spec in self.pinned)]
        found = (rewrites.all_rewrites()[name] for name in named if name in rewrites.all_rewrites())
        return "numerics" in named or any(each.family == rewrites.FAMILY for each in found)

    @property
    def spelled_out(self) -> Options:
        """The same with what ``--quick`` is short for.

        Raises:
            UsageError: Another budget was given too.
        """
        if not self.quick:
            return self
        if self.budget != "" or self.force:
            raise UsageError(
                f"--quick is --budget {QUICK_BUDGET} without a bundle",
                where="--quick",
                do="leave out --quick, or --budget and --force",
            )
        return replace(self, quick=False, budget=QUICK_BUDGET, bundle=False)

    def check(self) -> None:
        """Raises UsageError for what cannot be searched or allowed."""
        require_objective(self.objective)
        if self.force and not self.bundle:
            raise UsageError(
                "no bundle is written that could replace one",
                where="--force",
                do="leave it or --no-bundle out",
            )
        self.require_there([self.target, *self.others], self.objective, pod=self.feeds.pod is not None)
        known = {"numerics", "behaviour", NON_FINITE, *GUARDS, *knobs.all_knobs(), *rewrites.all_rewrites()}
        for name in self.allow:
            if name not in known:
                raise UsageError(
                    f"{name!r} is nothing that can be allowed",
                    where="--allow",
                    do=f"numerics, behaviour, {NON_FINITE}, {', '.join(GUARDS)}, or the name of a setting or rewrite",
                )
        if self.data is not None and self.tolerance is None and not self._fewer_bits:
            raise UsageError(
                "calibrates quantised models, which are not tried unless outputs may change",
                where="--data",
                do="add --tolerance 0.01, or --allow numerics",
            )
        if not targets.find(self.first_target).provider.ships:
            raise UsageError(
                f"no bundle can be made for {self.target} yet, so tune does not search its settings",
                where="--target",
                do=f"ortune compare MODEL --target {self.target} --b-set KNOB=VALUE",
            )
        model = Path(self.model)
        if bundle_format.is_bundle(model):
            # Somebody else may have named the model; the line is there to be pasted into a shell.
            tuned, plain = (shlex.quote(operand(p)) for p in (model, model / bundle_format.read(model).model))
            raise UsageError(
                "is tuned already: its own plan would pass for the default",
                where=str(model),
                do=f"ortune compare {tuned} proves it again; ortune tune {plain} begins anew",
            )


def run(options: Options, watcher: Watcher | None = None) -> Envelope[TuneResult]:
    """Finds the fastest plan and proves it. The bundle is written where one is asked for.

    Returns:
        The whole document; ``error`` says why there is no bundle where none could be written in the end.

    Raises:
        OrtuneError: Nothing could be tuned, or it is plain before that no bundle could be written.
    """
    watch = watcher or Watcher()
    options = options.spelled_out
    options.check()
    if options.directory is not None:
        require_writable(options.directory)
    with experiment("tune", options, watch) as opened:
        text = SideText(text=str(options.model), runtime=named(options.runtime))
        watch.line(f"reading {options.model}")
        side = resolve(text, common=Plan(), scratch=opened.scratch, say=watch.say)
        if options.directory is not None and options.force:
            require_replaceable(options.directory, side.model.path)
        # "--runtime openvino" asks for OpenVINO in every plan; the default that they are held against is the CPU's.
        everywhere = merge(Plan(providers=side.plan.providers), options.common)
        side = options.elsewhere(side, watch.say)
        runtime = in_pages(side.runtime, options.default, options.in_browser)
        side = replace(side, plan=options.default, runtime=runtime)
        watch.say(f"measuring with {runtimes.describe(runtime)}")
        names = [options.first_target]
        there = browser_elsewhere(options, names, opened.scratch, watch) if options.serve else None
        with opened.measuring(side.label, machine=there):
            go_on(opened, options, [side], model=side.label)
            run, envelope = _tune(options, everywhere, opened, side)
        # Where nothing could be tried, or nothing confirmed, there is nothing to ship.
        tested = envelope.result.budget.n_trials > 0 and not envelope.result.budget.exploratory
        ships = options.directory is not None and tested
        return keep(opened, options, _bundle(run, envelope, options) if ships else envelope)


def exit_code(envelope: Envelope[TuneResult]) -> int:
    """2 where the bundle could not be written: what was measured is told and stored all the same."""
    return UsageError.exit_code if envelope.error else 0


def _tune(
    options: Options, everywhere: Plan, opened: Experiment, side: Resolved
) -> tuple[Tuning, Envelope[TuneResult]]:
    """From the first trial to the document; ``everywhere`` is what the user wants in every plan."""
    watch, baseline = opened.watch, opened.base(side)
    run = Tuning(
        baseline,
        opened.replay,
        watch,
        objective=options.objective,
        worth=options.worth_ratio,
        allowed=options.allow,
        budget_s=options.budget_s,
        current=options.today,
        after_s=DELIVERY_SHARE * watch.clock.spent_s,
    )
    watch.line("running the model for the first time")
    settle(baseline, options.budget_s, lambda: options.budget_s - run.clock() / 1e9, watch.line)
    run.step_down()
    if baseline.check.wrong_plan is not None:
        everywhere = merge(everywhere, Plan(settings=baseline.side.plan.settings))
    run.pass_on()
    watch.line("timing a few runs, to plan the session")
    enough = baseline.pilot.run(
        options.objective, lambda: run.before_ns / 1e9, run.holds, lambda: run.least_trials
    )
    baseline.pilot.require_real_times()
    headroom: Headroom | None = None
    short: ProfileResult | None = None
    places: tuple[BrowserPlace, ...] = ()
    if options.target == targets.WEB:
        watch.line("trying what else the browser offers")
        places = _places(run, races=enough)
    if not baseline.check.claims:
        run.refuse(finding_words.NO_CLAIMS)
    elif enough:
        run.keep_for_why(options.objective)
        watch.line("profiling, to see where the time goes")
        headroom, short, profiled = _headroom(run, options)
        run.pass_on()  # a session that goes on has it in its journal, and the time that it took
        _search(run, everywhere, options, profiled, places)
    else:
        run.refuse()
    require_unchanged(baseline.side)
    result = make_result(run)
    result = with_runtime(result, baseline.side)
    result = msgspec.structs.replace(
        result,
        places=places,
        notes=(*result.notes, *opened.played_notes),
        headline=tune_words.headline(result),
        reproduce=command("tune", options),
        headroom=headroom,
        default_profile=short,
        why=_why(run, options, result),
    )
    untested = tune_words.nothing_tested(result)
    return run, opened.document(
        result,
        status="interrupted" if run.stopped else "ok",
        verdict="nothing-tested" if untested else run.search.verdict(changes=result.changes),
    )


def _search(
    run: Tuning,
    everywhere: Plan,
    options: Options,
    profiled: ProfileResult | None,
    places: Sequence[BrowserPlace],
) -> None:
    """Proposes, races and confirms; ``places`` are what a browser offers, where all of that was asked for."""
    baseline, model = run.baseline, run.side.model
    # Who says how far outputs may be away has allowed that they change.
    allow = options.allow if options.tolerance is None else (*options.allow, "numerics")
    found = _findings(run, everywhere, options, profiled)
    # What makes a start shorter does so whatever the download takes.
    objective = cast("ObjectiveName", "cold-start" if options.objective in FROM_START else options.objective)
    pinned = tuple(rewrites.completed(spec, model.ir, baseline.work) for spec in options.pinned)
    held, target = facts.facts_of(model.ir), targets.of(everywhere)
    row = _row(run, everywhere, target.name, objective)
    run.pass_on()
    proposed, refused = propose(
        held,
        rewrites.proposals(
            model.ir,
            allow,
            workload=baseline.work,
            objective=objective,
            target=target.name,
            packages=baseline.side.runtime.packages,
            features=gpu_features(baseline.pilot.first),
        )
        if model.info.format != "ort"
        else [],
        baseline.work,
        baseline.host,
        ort_version=baseline.side.runtime.version_of(everywhere),
        objective=objective,
        allow=allow,
        providers=everywhere.provider_names,
        channels=target.channels,
        asked=everywhere.settings,
        allocators=baseline.machine.allocators.keys(),
        row=row,
        latency_ns=figure(baseline.pilot.first, "median"),
        as_asked=bool(options.set or options.plan or options.rewrite),
        findings=found,
    )
    if model.info.format != "ort":
        refused += without_feature(baseline, everywhere, baseline.pilot.first, objective, allow)
    others = in_browsers.raced(places) if options.target == targets.WEB else tuple(run.side.elsewhere)
    if others:
        nobody_asked = options.target != targets.WEB and not options.others
        spare = (lambda: run.spare_ns(1.0)) if nobody_asked else None
        more, too = propose_elsewhere(
            baseline, others, held, objective=objective, allow=allow, row=row, spare_ns=spare
        )
        proposed, refused = sorted([*more, *proposed], key=lambda each: -each.prior), (*refused, *too)
    if any(quantising.is_quantising(plan) for plan in (Plan(rewrites=pinned), *(p.plan for p in proposed))):
        inputs = quantising.gather(baseline)
        run.models.feeds, run.calibration = inputs.calibrating, inputs.told
        tried = quantising.Quantising(run, inputs)
        proposed, run.precision = tried.chosen(proposed), tried.rows
    # What the user asks for is part of every plan that is tried, and never ablated.
    asked = merge(Plan(rewrites=pinned, settings=rewrites.settings_for(pinned)), everywhere)
    if not run.enter(proposed, refused, required=asked):
        return
    if not run.exploring:
        run.calibrate()
    if run.exploring:
        run.explore()
        return
    run.race(baseline.host.effective_cpus)
    run.confirm()


def _places(run: Tuning, *, races: bool) -> tuple[BrowserPlace, ...]:
    """What the browser offers, in all of the time left where nothing is raced; a session that goes on knows it."""
    replay = run.replay

    def look() -> Places:
        most_ns = (IN_BROWSERS_SHARE if races else 1.0) * run.before_ns
        places = in_browsers.places(run.baseline, 1e-9 * most_ns, races=races)
        return Places(places=places, ended_ns=replay.clock())

    seen = replay.once("places", Places, look)
    replay.reached(seen.ended_ns)
    return seen.places


def _headroom(
    run: Tuning, options: Options
) -> tuple[Headroom | None, ProfileResult | None, ProfileResult | None]:
    """What one short profile of the default says can be won, what a page draws of it, and the whole of it.

    A session that goes on has the first two in its journal.
    """
    whole: list[ProfileResult] = []

    def look() -> tuple[Headroom | None, ProfileResult | None]:
        latency = figure(run.baseline.pilot.first, "median")
        if latency is None or options.objective not in TIMES:
            return None, None
        most_ns = run.spare_ns(PROFILE_BEFORE_RACE_SHARE)
        profiled = short_profile(run.baseline, latency, options.folder, most_ns=most_ns)
        if profiled is None or profiled.headroom is None:
            return None, None
        whole.append(profiled)
        worded = headroom_words.worded(profiled.headroom)
        run.watch.say(worded.sentence)
        return worded, _short(profiled)

    headroom, short = run.replay.once("headroom", tuple[Headroom | None, ProfileResult | None], look)
    return headroom, short, whole[0] if whole else None


def _row(run: Tuning, everywhere: Plan, target: str, objective: str) -> tuple[RewriteSpec, ...]:
    """The exact rewrites that are raced together."""
    model, work = run.side.model, run.baseline.work

    def decide() -> tuple[RewriteSpec, ...]:
        if model.info.format == "ort":
            return ()
        row = rewrites.row(model.ir, workload=work, objective=objective, target=target)
        if objective in TIMES:
            run.watch.line("optimising the graph with each rewrite left out")
            row = needed(run.baseline, run.models, row, everywhere, run.spare_ns(ROW_SHARE) / 1e9)
        return row

    return run.replay.once("row", tuple[RewriteSpec, ...], decide)


def _findings(
    run: Tuning, everywhere: Plan, options: Options, profiled: ProfileResult | None
) -> tuple[Finding, ...]:
    """What rules would change of the model, of how it runs, and of what the profile shows."""
    baseline = run.baseline
    facts = rules.Facts(
        model=baseline.side.model,
        work=baseline.work,
        plan=merge(everywhere, Plan(rewrites=options.pinned)),
        target=options.first_target,
        profile=profiled,
        host=baseline.host,
        topology=baseline.machine.topology,
    )
    # A profile made again may tell other things, and so propose other plans.
    return run.replay.once(
        "findings",
        tuple[Finding, ...],
        lambda: tuple(finding for finding in rules.findings(facts) if finding.plan is not None),
    )


def _short(profiled: ProfileResult) -> ProfileResult:
    """What the page draws of it."""
    nodes = sorted(profiled.nodes, key=lambda node: -node.time_ns)[:PROFILED_NODES]
    return ProfileResult(
        trace=profiled.trace,
        n_runs=profiled.n_runs,
        wall_ns=profiled.wall_ns,
        slowdown_ratio=profiled.slowdown_ratio,
        categories=profiled.categories,
        nodes=tuple(nodes),
    )


def _why(run: Tuning, options: Options, result: TuneResult) -> ProfileDifference | None:
    """Where the winner's gain lies; None where there is no winner, or where telling it takes long."""
    executor, leader = run.baseline.executor, run.search.winner
    beside, figures = BASE, result.default_figures
    if result.current_figures is not None and options.today not in (None, options.default):
        beside, figures = CURRENT, result.current_figures
    if not result.changes or leader is None or leader.plan != result.winner or beside not in executor.arms:
        return None
    base, new = executor.arms[beside], executor.arms[leader.arm]
    if not run.why_processes or run.watch.stop() or result.winner_figures is None:
        return None
    latencies = (figures.latency_ns, result.winner_figures.latency_ns)
    sides = [replace(run.side, plan=a.plan, runs=a.model, runtime=a.runtime) for a in (base, new)]
    try:
        found = why(
            run.baseline,
            (sides[0], sides[1]),
            (base, new),
            latencies,
            None,
            run.watch.line,
            processes=run.why_processes,
            each_s=PROFILED_TRIALS * run.baseline.pilot.trial_ns / 1e9,
            # They may take far longer than was thought: 23 s for 10 where a neighbour came and went.
            left_s=lambda: options.budget_s - run.clock() / 1e9 - run.delivery_s,
        )
    except (OrtuneError, OSError):
        return None  # an answer is not lost because its reason is
    return worded(found, "the winner")


def _bundle(run: Tuning, envelope: Envelope[TuneResult], options: Options) -> Envelope[TuneResult]:
    """Writes the bundle while the session's files are still there; an answer is not lost because that fails."""
    from ortune.bundle.write import write_bundle
    from ortune.report.html.pages import render

    result = envelope.result
    assert options.directory is not None
    try:
        path = write_bundle(
            result,
            run.baseline.work,
            run.baseline.host,
            model=run.side.model.path,
            rewritten=run.models.made(result.winner),
            feeds=Path(run.baseline.refs[0].path),
            outputs=run.reference_outputs(),
            report_html=render(envelope),
            directory=options.directory,
            force=options.force,
            model_settings=_model_settings(result.winner),
        )
    except OrtuneError as error:
        do = "; ".join(part for part in (error.do, _later(run, options)) if part)
        return _lacking(envelope, ErrorInfo(code=error.code, what=error.what, where=error.where, do=do))
    report, info = path / "report.html", bundle_format.read(path)
    lacking: ErrorInfo | None = None
    if info.plain_model:
        # Pasted as they are, the lines must load the model that was measured, whose place is known only now.
        result = msgspec.structs.replace(
            result,
            code=code_rewritten(
                result.winner,
                str(path / info.model),
                run.baseline.machine.allocators,
                run.baseline.work.custom_ops,
            ),
        )
        try:
            files.write(report, render(msgspec.structs.replace(envelope, result=result)))
        except OSError as error:
            lacking = ErrorInfo(
                code=UsageError.default_code,
                what=f"the bundle is whole, but for the model's place in its page: {error.strerror}",
                where=str(report),
                do="paste the lines of this answer rather than the page's",
            )
    done = msgspec.structs.replace(result, bundle=str(path), report=str(report))
    envelope = msgspec.structs.replace(envelope, result=done)
    return _lacking(envelope, lacking) if lacking else envelope


def _lacking(envelope: Envelope[TuneResult], error: ErrorInfo) -> Envelope[TuneResult]:
    """The answer, which says what of the bundle could not be written."""
    status = "interrupted" if envelope.status == "interrupted" else "error"
    return msgspec.structs.replace(envelope, status=status, error=error)


def _later(run: Tuning, options: Options) -> str:
    """The command that writes the bundle of what was measured; "" where that is not stored."""
    if not run.log.id or run.log.trouble:
        return ""
    place = ["--store", str(options.store)] if options.store else []
    again = shlex.join(["ortune", "tune", *words(options), *place, "--resume", run.log.id])
    return f"what was measured is stored: {again} --output FOLDER writes it"


def _model_settings(plan: Plan) -> tuple[str, ...]:
    """The settings that hardware-bound rewrites brought into a plan, by name."""
    bound = [spec for spec in plan.rewrites if rewrites.find(spec.name).hardware_bound]
    brought = rewrites.settings_for(bound).items()
    return tuple(name for name, value in brought if plan.settings.get(name) == value)
