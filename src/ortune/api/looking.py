"""The verbs that look: at a machine, a model, what is stored, and what a model is made into."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ortune.records import Envelope

if TYPE_CHECKING:
    from ortune.trials.watcher import Watcher

AnyPath = str | Path


def doctor(
    model: AnyPath | None = None,
    *,
    python: AnyPath | None = None,
    measure: bool = True,
    shape: Sequence[str] = (),
    dim: Sequence[str] = (),
    inputs: AnyPath | None = None,
    custom_ops: Sequence[AnyPath] = (),
    no_wait: bool = False,
    store: AnyPath | None = None,
    watcher: Watcher | None = None,
) -> Envelope:
    """What this machine can run, and the smallest difference that it can show.

    The arguments are those of ``ortune doctor --help``; ``watcher`` is told what happens meanwhile.

    Returns:
        The whole document; ``result`` is a DoctorResult.

    Raises:
        OrtuneError: The interpreter or the model named cannot be used.
    """
    given = dict(locals())
    rest = {"workload": None, "save_workload": None, "cpus": None, "memory": None, "gap": 0}
    from ortune.verbs import option_parsing as asked
    from ortune.verbs.doctor import Options
    from ortune.verbs.doctor import doctor as run

    options = Options(
        model=None if model is None else str(model),
        python=None if python is None else str(python),
        measure=measure,
        inputs=asked.inputs(given | rest | {"sessions": 1, "callers": 1, "seed": 0, "tolerance": None}),
        wait=not no_wait,
        store=asked.path(store),
    )
    return run(options, watcher)


def look(
    model: AnyPath,
    *,
    set: Sequence[str] = (),
    plan: AnyPath | None = None,
    python: AnyPath | None = None,
    target: str = "cpu",
    shape: Sequence[str] = (),
    dim: Sequence[str] = (),
    inputs: AnyPath | None = None,
    workload: AnyPath | None = None,
    save_workload: AnyPath | None = None,
    custom_ops: Sequence[AnyPath] = (),
    budget: str | float = "8s",
    seed: int = 0,
    no_wait: bool = False,
    store: AnyPath | None = None,
    watcher: Watcher | None = None,
) -> Envelope:
    """A first look at a model, in ten seconds.

    The arguments are those of ``ortune look --help``; ``watcher`` is told what happens meanwhile.

    Returns:
        The whole document; ``result`` is a LookResult. Where the model can be opened and not run, ``status`` is
        "error" and ``error`` says why.

    Raises:
        OrtuneError: The model cannot be opened, or an option cannot be used.
    """
    given = dict(locals())
    rest = {"cpus": None, "memory": None, "gap": 0, "sessions": 1, "callers": 1, "tolerance": None}
    from ortune.verbs import option_parsing as asked
    from ortune.verbs.look import Options
    from ortune.verbs.look import look as run

    options = Options(
        model=str(model),
        settings=set,
        plan=asked.path(plan),
        python=None if python is None else str(python),
        target=target,
        inputs=asked.inputs(given | rest),
        budget_s=asked.seconds(budget, "--budget"),
        store=asked.path(store),
        wait=not no_wait,
    )
    return run(options, watcher)


def profile(
    subject: AnyPath,
    *,
    against: AnyPath | None = None,
    set: Sequence[str] = (),
    b_set: Sequence[str] = (),
    plan: AnyPath | None = None,
    python: AnyPath | None = None,
    b_python: AnyPath | None = None,
    target: str = "cpu",
    shape: Sequence[str] = (),
    dim: Sequence[str] = (),
    inputs: AnyPath | None = None,
    workload: AnyPath | None = None,
    save_workload: AnyPath | None = None,
    custom_ops: Sequence[AnyPath] = (),
    processes: int | None = None,
    no_peak: bool = False,
    keep: AnyPath | None = None,
    export: Sequence[str] = (),
    report: AnyPath | None = None,
    budget: str | float = "30s",
    seed: int = 0,
    no_wait: bool = False,
    store: AnyPath | None = None,
    watcher: Watcher | None = None,
) -> Envelope:
    """Where every millisecond of a run goes, of a model or of a profile that is there already.

    The arguments are those of ``ortune profile --help``; ``watcher`` is told what happens meanwhile.

    Returns:
        The whole document; ``result`` is a ProfileResult.

    Raises:
        OrtuneError: Nothing could be profiled or read.
    """
    given = dict(locals())
    rest = {"cpus": None, "memory": None, "gap": 0, "sessions": 1, "callers": 1, "tolerance": None}
    from ortune.verbs import option_parsing as asked
    from ortune.verbs.profile import Options, run

    options = Options(
        subject=str(subject),
        against=None if against is None else str(against),
        settings=set,
        against_settings=b_set,
        plan=asked.path(plan),
        python=None if python is None else str(python),
        against_python=None if b_python is None else str(b_python),
        target=target,
        inputs=asked.inputs(given | rest),
        processes=processes,
        budget_s=asked.seconds(budget, "--budget"),
        peak=not no_peak,
        keep=asked.path(keep),
        exports=export,
        report=asked.path(report),
        store=asked.path(store),
        wait=not no_wait,
    )
    return run(options, watcher)


def report(
    *sessions: AnyPath,
    brief: bool = False,
    load: str | float | None = None,
    last: int = 20,
    store: AnyPath | None = None,
    timeline: bool = False,
) -> Envelope:
    """What was measured before, told again with its date and machine; nothing is measured.

    Args:
        *sessions: Ids or their beginnings, "newest", models (the newest session of each), or folders
            NAME.ortune; none lists what is stored.
        brief: One page for people who decide, of one session; without a name of the newest.
        load: With ``brief``: requests a second, or text like "200/s" or "12000/min".
        last: How many sessions are listed.
        store: Where the sessions lie.
        timeline: With what ran when, of a profile that is told alone (a page shows it).

    Returns:
        The whole document; ``result`` is a ReportResult.

    Raises:
        OrtuneError: Nothing is stored there, or what is asked for cannot be told.
    """
    from ortune.verbs import option_parsing as asked
    from ortune.verbs.report import Options, rate
    from ortune.verbs.report import report as run

    options = Options(
        sessions=[str(session) for session in sessions],
        brief=brief,
        load_per_s=None if load is None else rate(load),
        last=last,
        store=asked.path(store),
        timeline=timeline,
    )
    return run(options)


def lock(
    model: AnyPath,
    file: AnyPath | None = None,
    *,
    check: bool = False,
    strict: bool = False,
    set: Sequence[str] = (),
    rewrite: Sequence[str] = (),
    plan: AnyPath | None = None,
    python: AnyPath | None = None,
    target: str = "cpu",
    shape: Sequence[str] = (),
    dim: Sequence[str] = (),
    inputs: AnyPath | None = None,
    custom_ops: Sequence[AnyPath] = (),
    tolerance: float | None = None,
    seed: int | None = None,
    output: AnyPath | None = None,
    watcher: Watcher | None = None,
) -> Envelope:
    """What ONNX Runtime makes of a model, kept in a file and compared with it later; nothing is timed.

    The arguments are those of ``ortune lock --help``: ``file`` is the lock to check, ``output`` the one to write;
    without ``seed`` a check takes that of the lock.

    Returns:
        The whole document; ``result`` is a LockResult, ``verdict`` "written", "unchanged" or "changed".

    Raises:
        OrtuneError: The model, a setting or the lock file cannot be used.
    """
    given = dict(locals())
    rest = {"workload": None, "save_workload": None, "cpus": None, "memory": None, "gap": 0}
    from ortune.errors import UsageError
    from ortune.verbs import option_parsing as asked
    from ortune.verbs.lock import Options, checked_tolerance
    from ortune.verbs.lock import lock as run

    if file is not None and not check:
        raise UsageError(
            "a lock file is named, and nothing is to be checked",
            where=str(file),
            do="add --check to compare with it, or --output FILE to write it",
        )
    options = Options(
        model=str(model),
        check=check,
        file=asked.path(file if check else output),
        settings=set,
        rewrites=rewrite,
        plan=asked.path(plan),
        python=None if python is None else str(python),
        target=target,
        inputs=asked.inputs(given | rest | {"sessions": 1, "callers": 1, "seed": 0}),
        seed=seed,
        tolerance=checked_tolerance(tolerance),
        strict=strict,
    )
    return run(options, watcher)
